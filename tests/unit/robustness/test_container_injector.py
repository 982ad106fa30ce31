"""A fault injector on containers on paper: what it asks of the engine, and what it makes of what comes back."""

from functools import partial

import pytest
from oncelog_robustness.chaos.containers import injector as module
from oncelog_robustness.chaos.containers.injector import ContainerInjector
from oncelog_robustness.chaos.containers.plan import SUBNET, Images, plan_containers
from oncelog_robustness.chaos.plan import CONTAINER_DECKS, name_of
from oncelog_robustness.fault_plan import FaultKind
from tests.unit.robustness import injecting

EVERYTHING = frozenset(kind for deck in CONTAINER_DECKS.values() for kind in deck)
CLIENTS_ADDRESS = "10.89.77.1"


class Paper:
    """A fleet that notes what it is told."""

    def __init__(self):
        passwords = {"postgres": "p", "redis": "r"}
        self.containers = plan_containers(SUBNET, Images(tag="1"), passwords)
        self.state = {one.name: "running" for one in self.containers}
        self.calls = []
        self.scripts = {}
        self.exit_code = 0

    def states(self):
        return dict(self.state)

    def container(self, name):
        return next(one for one in self.containers if one.name == name)

    def of_role(self, role):
        return [one for one in self.containers if one.role == role]

    def on_machine(self, machine):
        return [one for one in self.containers if one.machine == machine]

    def others(self, containers):
        return [CLIENTS_ADDRESS, *(o.address for o in self.containers if o not in containers)]

    def _note(self, what, name, state):
        self.calls.append((what, name))
        self.state[name] = state

    def kill(self, name):
        self._note("kill", name, "exited")

    def start_one(self, name):
        self._note("start", name, "running")

    def pause(self, name):
        self._note("pause", name, "paused")

    def resume(self, name):
        self._note("resume", name, "running")

    def terminate(self, name):
        self._note("terminate", name, "exited")
        return self.exit_code

    def replace(self, name):
        self._note("replace", name, "running")
        return self.exit_code

    def in_network_of(self, name, script):
        self.scripts.setdefault(name, []).append(script)

    def is_ready(self, one):
        return self.state[one.name] == "running"

    def last_words(self, name):
        return "no more"


fault = partial(injecting.fault, target="storage-1")


def carried_out(paper, *faults, **more):
    injector = ContainerInjector(paper, EVERYTHING, lambda strength: "c#1")
    injecting.carry_out(injector, *faults, **more)
    assert set(paper.state.values()) == {"running"}
    return injector


@pytest.fixture(autouse=True)
def hasty(monkeypatch):
    monkeypatch.setattr(module, "LOOK_S", 0.01)
    monkeypatch.setattr(module, "RESET_S", 0.01)


def test_who_is_killed_is_started_again():
    paper, kill = Paper(), fault(FaultKind.KILL)
    injector = carried_out(paper, kill)
    assert paper.calls == [("kill", "storage-1"), ("start", "storage-1")]
    assert injector.findings == []
    assert "ready" in injector.facts[name_of(kill)]


def test_a_restart_and_a_roll_drain():
    paper = Paper()
    injector = carried_out(
        paper, fault(FaultKind.RESTART), fault(FaultKind.ROLLING_RESTART, target="controller")
    )
    assert paper.calls == [
        ("terminate", "storage-1"),
        ("start", "storage-1"),
        ("replace", "controller-1"),
        ("replace", "controller-2"),
    ]
    assert injector.findings == []


def test_who_does_not_drain_is_a_finding():
    paper = Paper()
    paper.exit_code = 137
    injector = carried_out(paper, fault(FaultKind.RESTART))
    assert "storage-1 ended with 137" in injector.findings[0]


def test_a_lost_machine_comes_back_with_all_of_it():
    paper = Paper()
    carried_out(paper, fault(FaultKind.MACHINE_LOST, target="machines-3"))
    names = {one.name for one in paper.on_machine(3)}
    assert names == {"storage-3", "gateway-1"}
    assert set(paper.calls) == {(what, name) for what in ("kill", "start") for name in names}


def test_a_machine_that_is_cut_off_keeps_its_own():
    paper = Paper()
    carried_out(paper, fault(FaultKind.PARTITION, target="machines-1"))
    names = {one.name for one in paper.on_machine(1)}
    assert set(paper.scripts) == names
    for name in names:
        cut, healed = paper.scripts[name]
        for one in paper.containers:
            assert (f"-s {one.address} " in cut) == (one.name not in names)
        assert f"-s {CLIENTS_ADDRESS} " in cut
        assert "-A" not in healed


def test_a_pair_is_parted_from_each_other_alone():
    paper = Paper()
    carried_out(paper, fault(FaultKind.PARTITION_PAIR, target="storage-1+controller-2"))
    assert f"-s {paper.container('controller-2').address} " in paper.scripts["storage-1"][0]
    assert CLIENTS_ADDRESS not in paper.scripts["storage-1"][0]


@pytest.mark.parametrize(("strength", "what"), [(0.1, "kill"), (0.9, "pause")])
def test_an_outage_is_a_kill_or_a_freeze(strength, what):
    paper = Paper()
    carried_out(paper, fault(FaultKind.DATABASE_OUTAGE, target="postgres", strength=strength))
    assert paper.calls[0] == (what, "postgres")


def test_who_ends_by_itself_is_a_finding_and_started_again():
    paper = Paper()
    injector = carried_out(
        paper,
        fault(FaultKind.KILL),
        fault(FaultKind.PAUSE),
        meanwhile=lambda: paper.state.update({"listener-2": "exited"}),
    )
    assert any(
        "listener-2 ended by itself" in one and "no more" in one for one in injector.findings
    )


def test_whom_another_fault_has_killed_is_no_hit():
    paper = Paper()
    paper.state["storage-1"] = "exited"
    kill = fault(FaultKind.KILL)
    injector = carried_out(paper, kill)
    assert injector.missed == {name_of(kill)}
    assert ("kill", "storage-1") not in paper.calls
