"""What a summary of runs says was never reached or never happened."""

from oncelog_robustness.fault_plan import FaultKind
from oncelog_robustness.simulator.effects import Effect, never_injected
from oncelog_robustness.simulator.labels import GUARDS, known_labels, never_reached


def test_a_decision_that_no_run_took_is_named():
    # By its name, by its place, one of two, and handed to what makes a decision.
    found = {"timeout_early", "no_id_expired", "ids_expired", "adopted", "join_repeated"}
    assert found <= set(never_reached([]))
    rest = never_reached([{"ShardMachine adopted": 1}, {"ShardMachine ids_expired": 2}])
    assert found - set(rest) == {"adopted", "ids_expired"}


def test_guards_stand_in_the_code_and_are_not_asked_for():
    assert known_labels() > GUARDS
    assert not GUARDS & set(never_reached([]))


def test_a_fault_that_hurt_nothing_counts_as_never_injected():
    everything = {f"fault {kind.value}": 1 for kind in FaultKind}
    everything |= {f"effect {effect.value}": 1 for effect in Effect}
    assert never_injected([everything]) == []
    assert never_injected([everything | {"effect file-torn": 0, "fault clog": 0}]) == [
        "clog",
        "file-torn",
    ]
    assert "redis-outage" not in never_injected([])
