"""The plan of chaos: every role equally often, the same for the same seed, never two faults of a role at a time."""

import random
from collections import Counter
from itertools import pairwise

import pytest
from oncelog_robustness.chaos.injector import OF_THE_SIMULATOR, network_rules
from oncelog_robustness.chaos.links import CLIENTS, AfterHold, Effect, Rules, rule_from
from oncelog_robustness.chaos.plan import (
    DECKS,
    LASTS_MS,
    MACHINES,
    POD_DECKS,
    hits_for,
    name_of,
    plan_chaos,
    role_of,
)
from oncelog_robustness.fault_plan import OF_MACHINES, FaultKind, PlannedFault
from oncelog_robustness.verify.faults import CommandDriver

from oncelog_server.cluster.plan import POSTGRES, REDIS

MEMBERS = {
    **{
        role: [f"{role}-1", f"{role}-2"] for role in DECKS if role not in (POSTGRES, REDIS, CLIENTS)
    },
    POSTGRES: [POSTGRES],
    REDIS: [REDIS],
    CLIENTS: [CLIENTS],
}
TEN_MINUTES = 600_000


def planned(seed, duration_ms=TEN_MINUTES, can=lambda kind: True):
    return plan_chaos(MEMBERS, duration_ms, can, random.Random(seed))


@pytest.mark.parametrize("seed", range(20))
def test_ten_minutes_hit_every_role_twenty_times(seed):
    hits = Counter(role_of(fault.target) for fault in planned(seed))
    assert set(hits) == set(DECKS)
    assert min(hits.values()) >= 20
    assert len(set(hits.values())) == 1


def test_a_short_run_hits_every_role_once():
    plan = planned(7, 25_000)
    assert Counter(role_of(fault.target) for fault in plan) == dict.fromkeys(DECKS, 1)
    assert all(fault.at_ms < 25_000 for fault in plan)


@pytest.mark.parametrize("seed", range(20))
def test_faults_of_a_role_follow_one_another(seed):
    for role in DECKS:
        own = [fault for fault in planned(seed) if role_of(fault.target) == role]
        for before, after in pairwise(own):
            assert before.at_ms + before.lasts_ms < after.at_ms
        assert own[-1].at_ms + own[-1].lasts_ms <= TEN_MINUTES


def test_every_process_and_every_kind_comes_around():
    plan = planned(3)
    targets = {name for fault in plan for name in fault.target.split("+")}
    assert {name for names in MEMBERS.values() for name in names} <= targets
    for role, deck in DECKS.items():
        assert {fault.kind for fault in plan if role_of(fault.target) == role} == set(deck)


def test_a_pair_is_of_two_that_meet():
    pairs = [
        fault.target
        for seed in range(20)
        for fault in planned(seed)
        if fault.kind is FaultKind.PARTITION_PAIR
    ]
    roles = set()
    for pair in pairs:
        left, right = pair.split("+")
        assert left != right
        roles.add((role_of(left), role_of(right)))
    assert len(roles) > 15
    assert not roles & {("controller", REDIS), ("listener", POSTGRES), ("marker-sender", CLIENTS)}
    assert {right for left, right in roles if left == "gateway"} == {"controller"}


def test_the_seed_is_the_plan():
    assert planned(5) == planned(5)
    assert planned(5) != planned(6)


def test_what_the_injector_cannot_do_is_not_planned():
    plan = planned(5, can=lambda kind: kind is not FaultKind.CLOCK_SKEW)
    assert all(fault.kind is not FaultKind.CLOCK_SKEW for fault in plan)
    assert len(plan) == sum(hits_for(TEN_MINUTES, role) for role in DECKS)
    only_kills = planned(5, can=lambda kind: kind is FaultKind.CLIENT_KILL)
    assert {role_of(fault.target) for fault in only_kills} == {CLIENTS}


def test_each_kind_is_in_a_deck_or_the_simulators_alone():
    dealt = {kind for deck in DECKS.values() for kind in deck}
    assert dealt.isdisjoint(OF_THE_SIMULATOR)
    assert dealt | OF_THE_SIMULATOR | set(OF_MACHINES) == set(FaultKind)


def test_names_of_faults_are_unique():
    plan = planned(5)
    assert len({name_of(fault) for fault in plan}) == len(plan)


def test_every_kind_of_a_deck_has_a_length():
    decks = [*DECKS.values(), *POD_DECKS.values(), CommandDriver.deck]
    assert {kind for deck in decks for kind in deck} == set(LASTS_MS)


def fault(kind, target="storage-1", strength=0.5):
    return PlannedFault(0, 1_000, kind, target, strength)


def in_force(*faults):
    rules = Rules()
    for one in faults:
        rules.put(name_of(one), network_rules(one))
    return rules


def test_a_partition_holds_both_ways_and_spares_others():
    rules = in_force(fault(FaultKind.PARTITION))
    assert rules.state("storage-1", "listener-1").is_held
    assert rules.state(CLIENTS, "storage-1").is_held
    assert not rules.state("storage-2", "listener-1").is_held


def test_one_way_holds_what_leaves():
    rules = in_force(fault(FaultKind.PARTITION_ONE_WAY))
    assert rules.state("storage-1", "listener-1").is_held
    assert not rules.state("listener-1", "storage-1").is_held


def test_a_pair_holds_between_the_two():
    rules = in_force(fault(FaultKind.PARTITION_PAIR, "storage-1+postgres"))
    assert rules.state("storage-1", "postgres").is_held
    assert rules.state("postgres", "storage-1").is_held
    assert not rules.state("storage-1", "storage-2").is_held


def test_the_longest_delay_wins_and_lifting_is_by_fault():
    short, long = fault(FaultKind.DELAY, strength=0.0), fault(FaultKind.DELAY, "clients", 1.0)
    rules = in_force(short, long)
    assert rules.state(CLIENTS, "storage-1").delay_ms == 300
    rules.lift(name_of(long))
    assert rules.state(CLIENTS, "storage-1").delay_ms == 20
    assert rules.lift(name_of(long)) == ()
    rules.lift(name_of(short))
    assert rules.state(CLIENTS, "storage-1").delay_ms == 0


@pytest.mark.parametrize(
    ("kind", "after"),
    [
        (FaultKind.PARTITION, AfterHold.BREAK),
        (FaultKind.CLOG, AfterHold.DELIVER),
        (FaultKind.GHOST, AfterHold.GHOST),
    ],
)
def test_what_becomes_of_held_bytes(kind, after):
    assert {rule.after for rule in network_rules(fault(kind))} == {after}


def test_a_process_fault_has_no_rules():
    with pytest.raises(ValueError, match="no rules"):
        network_rules(fault(FaultKind.KILL))


def test_rules_survive_json():
    rule = network_rules(fault(FaultKind.DELAY))[0]
    content = {name: str(getattr(rule, name)) for name in rule.__slots__}
    assert rule_from(content) == rule
    assert rule.effect is Effect.DELAY


@pytest.mark.parametrize(
    ("target", "role"),
    [
        ("storage-2", "storage"),
        ("marker-sender-1", "marker-sender"),
        ("marker-sender", "marker-sender"),
        ("storage-1+listener-2", "storage"),
        ("postgres", "postgres"),
        ("clients", "clients"),
    ],
)
def test_role_of_a_target(target, role):
    assert role_of(target) == role


ON_PODS = {
    **{role: names for role, names in MEMBERS.items() if role not in ("storage", "controller")},
    "storage": ["storage-101", "storage-102", "storage-103"],
    "controller": ["controller-1"],
    MACHINES: ["machines-1", "machines-2", "machines-3"],
}


def planned_on_pods(seed, **more):
    return plan_chaos(
        ON_PODS, TEN_MINUTES, lambda kind: True, random.Random(seed), decks=POD_DECKS, **more
    )


@pytest.mark.parametrize("seed", range(10))
def test_ten_minutes_on_pods_hit_every_role_twenty_times(seed):
    hits = Counter(role_of(fault.target) for fault in planned_on_pods(seed))
    assert set(hits) == set(POD_DECKS)
    assert hits.pop(MACHINES) == hits_for(TEN_MINUTES, MACHINES) == 5
    assert min(hits.values()) >= 20


def test_a_machine_is_struck_by_its_own_faults_only():
    own = [fault for fault in planned_on_pods(3) if role_of(fault.target) == MACHINES]
    assert {fault.kind for fault in own} == set(OF_MACHINES)
    assert {fault.target for fault in own} <= set(ON_PODS[MACHINES])
    others = [fault for fault in planned_on_pods(3) if role_of(fault.target) != MACHINES]
    assert not any(fault.kind in OF_MACHINES or MACHINES in fault.target for fault in others)


def test_most_faults_of_a_pod_are_kills():
    plan = [fault for fault in planned_on_pods(4) if role_of(fault.target) == "storage"]
    kinds = Counter(fault.kind for fault in plan)
    assert kinds.most_common(1)[0][0] is FaultKind.KILL
    assert FaultKind.CLOCK_SKEW not in kinds


def test_a_slower_pace_gives_fewer_faults_over_the_same_time():
    plan = planned_on_pods(5, hits_per_minute=0.5)
    hits = Counter(role_of(fault.target) for fault in plan)
    assert {hits[role] for role in POD_DECKS if role != MACHINES} == {5}
    assert hits[MACHINES] == 1
    assert max(fault.at_ms for fault in plan) > TEN_MINUTES / 2
