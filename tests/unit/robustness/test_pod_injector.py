"""A fault injector on pods on paper: what it asks the API for, what it waits for, and what it makes of what it sees."""

import asyncio
from functools import partial

import pytest
from oncelog_robustness.chaos.plan import POD_DECKS, name_of
from oncelog_robustness.chaos.pods import injector as module
from oncelog_robustness.chaos.pods.injector import PodInjector
from oncelog_robustness.chaos.pods.machines import Machines
from oncelog_robustness.chaos.pods.network import HELPER
from oncelog_robustness.fault_plan import FaultKind
from tests.unit.robustness import injecting
from tests.unit.robustness.injecting import carry_out
from tests.unit.robustness.pods_on_paper import Paper, pod

from oncelog.errors import OncelogError

EVERYTHING = frozenset(kind for deck in POD_DECKS.values() for kind in deck)


def cluster(**more):
    return Paper(
        pod("storage", "log-oncelog-storage-101", machine="m1"),
        pod("storage", "log-oncelog-storage-102", machine="m2"),
        pod("gateway", "log-oncelog-gateway-77cc-aaaaa", machine="m2"),
        pod("postgres", "log-oncelog-postgres-0", machine="m1"),
        **more,
    )


def injector_on(paper, kinds=EVERYTHING):
    counts = {"storage": 2, "gateway": 1, "postgres": 1}
    machines = Machines(paper, ["m1", "m2"], tuple(counts))
    return PodInjector(
        paper, machines, kinds, counts, "oncelog/tools:0.1.0", lambda strength: "c#1"
    )


fault = partial(injecting.fault, target="storage-101")


@pytest.fixture(autouse=True)
def hasty(monkeypatch):
    monkeypatch.setattr(module, "LOOK_S", 0.01)
    monkeypatch.setattr(module, "RESET_S", 0.01)


def test_a_kill_deletes_without_grace_and_waits_for_the_next_one():
    paper = cluster()
    injector = injector_on(paper)
    kill = fault(FaultKind.KILL)
    carry_out(injector, kill)
    assert paper.calls == [("delete", "log-oncelog-storage-101", 0)]
    assert injector.findings == []
    assert "deleted; Ready" in injector.facts[name_of(kill)]


def test_a_kill_from_within_is_given_to_a_pod_once():
    paper = cluster()
    injector = injector_on(paper)
    first, second = fault(FaultKind.KILL, strength=0.1), fault(FaultKind.KILL, strength=0.2)
    carry_out(injector, first, second)
    assert [call[0] for call in paper.calls] == ["execute", "delete"]
    assert paper.calls[0][3] == "kill -KILL -1"
    assert injector.findings == []


def test_a_restart_leaves_the_pod_its_grace():
    paper = cluster()
    carry_out(injector_on(paper), fault(FaultKind.RESTART))
    assert paper.calls == [("delete", "log-oncelog-storage-101", None)]


def test_a_paused_pod_goes_on():
    paper = cluster()
    injector = injector_on(paper)
    carry_out(
        injector,
        fault(FaultKind.PAUSE, target="gateway-1"),
        fault(FaultKind.DATABASE_OUTAGE, target="postgres"),
    )
    assert [call[3] for call in paper.calls] == ["kill -STOP -1", "kill -CONT -1"] * 2
    assert injector.findings == []


def test_a_database_goes_on_though_its_stop_was_not_answered():
    """Seen on a busy machine: the shell did not end in 30 s, and Postgres stood still until it was killed."""
    paper = cluster()
    answer = paper.execute

    def execute(pod, container, *command, timeout_s=0):
        said = answer(pod, container, *command)
        if "STOP" in command[-1]:
            raise OncelogError("sh in log-oncelog-postgres-0 did not end in 30 s")
        return said

    paper.execute = execute
    injector = injector_on(paper)
    carry_out(injector, fault(FaultKind.DATABASE_OUTAGE, target="postgres"))
    assert [call[3] for call in paper.calls] == ["kill -STOP -1", "kill -CONT -1"]
    (finding,) = injector.findings
    assert "could not be carried out" in finding


def test_all_of_a_role_are_deleted_at_once():
    paper = cluster()
    carry_out(injector_on(paper), fault(FaultKind.KILL_ALL, target="storage"))
    assert {call[1] for call in paper.calls} == {
        "log-oncelog-storage-101",
        "log-oncelog-storage-102",
    }


def test_a_cut_is_made_and_healed_in_a_container_of_ours():
    paper = cluster()
    injector = injector_on(paper)
    pair = fault(FaultKind.PARTITION_PAIR, target="storage-101+storage-102")
    carry_out(injector, pair, fault(FaultKind.PARTITION))
    kinds = [call[0] for call in paper.calls]
    # The second cut finds the container of the first.
    assert kinds == ["add", "execute", "execute", "execute", "execute"]
    assert {call[2] for call in paper.calls[1:]} == {HELPER}
    peer = next(one.ip for one in paper.pods() if one.name.endswith("storage-102"))
    assert f"-s {peer} -j DROP" in paper.calls[1][3]
    assert "-X ONCELOG-CHAOS-IN" in paper.calls[2][3]
    assert injector.findings == []


async def test_who_ended_by_itself_tells_its_last_words_once():
    paper = cluster()
    injector = injector_on(paper)

    await injector.look_for_dead()
    paper.restart("log-oncelog-storage-102", "Error", 1)
    await injector.look_for_dead()
    await injector.look_for_dead()
    injector.close()
    (finding,) = injector.findings
    assert "log-oncelog-storage-102 on m2 ended by itself: Error, exit code 1" in finding
    assert finding.endswith("it was too much")


def test_what_a_fault_did_is_no_finding_after_it():
    paper = cluster()
    injector = injector_on(paper)
    carry_out(
        injector, fault(FaultKind.KILL, strength=0.1), fault(FaultKind.KILL_ALL, target="storage")
    )
    assert injector.findings == []


def test_a_pod_that_does_not_come_back_is_a_finding(monkeypatch):
    monkeypatch.setattr(module, "COME_BACK_S", 0.1)
    paper = cluster()
    paper.brings_back = False
    injector = injector_on(paper)
    carry_out(injector, fault(FaultKind.KILL))
    assert any("1 of 2 pods of storage are Ready" in one for one in injector.findings)


def test_a_lost_machine_loses_its_pods_and_is_taken_back():
    paper = cluster()
    injector = injector_on(paper)
    lost = fault(FaultKind.MACHINE_LOST, target="machines-1")
    carry_out(injector, lost)
    assert paper.calls == [
        ("cordon", "m1"),
        ("delete", "log-oncelog-storage-101", 0),
        ("delete", "log-oncelog-postgres-0", 0),
        ("uncordon", "m1"),
    ]
    assert injector.facts[name_of(lost)] == "m1 with 2 pods"
    assert injector.findings == []


def test_a_drain_waits_for_budgets(monkeypatch):
    monkeypatch.setattr("oncelog_robustness.chaos.pods.machines.RETRY_S", 0.01)
    paper = cluster(budget=3)
    carry_out(injector_on(paper), fault(FaultKind.MACHINE_DRAIN, target="machines-2"))
    assert [call[0] for call in paper.calls] == ["cordon", "evict", "evict", "uncordon"]


def test_a_machine_that_somebody_else_has_cordoned_is_left_alone():
    paper = cluster()
    paper.cordoned = {"m1"}
    injector = injector_on(paper)
    drain = fault(FaultKind.MACHINE_DRAIN, target="machines-1")
    carry_out(injector, drain)
    assert paper.calls == []
    assert paper.cordoned == {"m1"}
    assert name_of(drain) in injector.missed
    assert "m1 is cordoned already" in injector.findings[0]


def test_a_run_that_is_given_up_takes_its_machines_back():
    paper = cluster()
    injector = injector_on(paper)
    asyncio.run(injector.begin(fault(FaultKind.MACHINE_LOST, target="machines-1")))
    assert paper.cordoned == {"m1"}
    injector.close()
    assert paper.cordoned == set()


def test_what_cannot_be_had_here_is_not_planned():
    paper = cluster()
    injector = injector_on(paper, frozenset((FaultKind.KILL,)))
    assert injector.can(FaultKind.KILL)
    assert not injector.can(FaultKind.PAUSE)
    injector.close()


def test_pods_of_jobs_come_and_go_without_a_finding():
    paper = cluster()
    paper.contents.append(pod("chaos", "log-oncelog-chaos-1-x"))
    injector = injector_on(paper)
    paper.contents.pop()
    asyncio.run(injector.look_for_dead())
    injector.close()
    assert injector.findings == []
