"""Two versions side by side under simulation: what the older one cannot say is missed where correctness needs it, and
nowhere else (docs/upgrades.md).

Today's contracts have hardly more than those of 0.1.0, so little is lost between the two. That the runs would notice is
shown with contracts from which something is left out.
"""

import random
import re

import pytest
from oncelog_robustness.planted.hunt import SCENARIOS as PLANTED
from oncelog_robustness.scenario import ROLES, Shape
from oncelog_robustness.simulator.upgrades import RollPlan
from tests.simulation.simulator_command import IS_FULL, digests, output_of_sound, simulate

TIMEOUT_S = 3_600 if IS_FULL else 300
TWO_VERSIONS = str(PLANTED / "two-versions.toml")
WITHIN = {"timeout_s": TIMEOUT_S}
AT_NIGHT = pytest.mark.skipif(not IS_FULL, reason="at night: ONCELOG_SIMULATION_FULL=1")


# ---------------------------------------------------------------------------------------------------- the rolling


def plans(count):
    shape = Shape()
    names = {role: [one for one in shape.names() if one.startswith(role)] for role in ROLES}
    return [RollPlan.drawn(random.Random(seed), names, 40.0) for seed in range(count)]


def test_a_plan_replaces_each_process_once():
    drawn = plans(200)
    for plan in drawn:
        assert sorted(name for lane in plan.lanes for name in lane) == sorted(Shape().names())
        assert plan.turns_after is None or 1 <= plan.turns_after <= len(Shape().names())
        assert 0 <= plan.after_s < 40
    assert {plan.begins_older for plan in drawn} == {True, False}
    assert {len(plan.lanes) for plan in drawn} == {1, len(ROLES)}
    assert {plan.turns_after is None for plan in drawn} == {True, False}
    assert drawn == plans(200)


@AT_NIGHT
@pytest.mark.timeout(TIMEOUT_S + 30)
def test_upgrades_and_rollbacks_break_nothing():
    """The gate plays it too: it is one of the scenarios that take turns."""
    output = output_of_sound("--scenario", "upgrade", "--seeds", "100", "--jobs", "2", **WITHIN)
    # Contexts of traces, which 0.1.0 does not know.
    assert re.search(r"messages-cut [1-9].*records-cut [1-9]", output), output


OPTIONAL = (
    "SessionCall.traceparent",
    "Status.error_message",
    "PartitionProduced.error_message",
    "MarkerSender.CancelShard",
    "FolderHistory",
    "MetadataSnapshot.controller_incarnation_id",
    "MetadataDelta.controller_incarnation_id",
    "TraceContext",
    "__transaction_state:101",
    "__transaction_state:4",
)
"""What today's code can do without: what ADRs 0027 and 0028 added, and the epoch before the last."""


@pytest.mark.timeout(TIMEOUT_S + 30)
def test_a_seed_is_one_run_under_two_hash_seeds():
    without = [part for name in OPTIONAL for part in ("--without", name)]
    # Seeds of its own: two runs of one seed at one time have two folders, and their names stand in messages.
    given = ("--scenario", TWO_VERSIONS, "--first-seed", "901", *without)
    given += ("--seeds", "12" if IS_FULL else "1", "--jobs", "2")
    one, other = (digests(*given, hash_seed=seed, **WITHIN) for seed in ("1", "2"))
    assert one == other


@AT_NIGHT
@pytest.mark.timeout(TIMEOUT_S + 30)
def test_upgrades_to_what_is_optional_break_nothing():
    without = [part for name in OPTIONAL for part in ("--without", name)]
    given = ("--scenario", "upgrade", "--older", "this", "--seeds", "60", "--jobs", "2")
    assert "60 seeds" in output_of_sound(*given, *without, **WITHIN)


def broken(*arguments):
    """The checkers that said so, and everything that was printed."""
    done = simulate(*arguments, "--jobs", "2", **WITHIN)
    assert done.returncode == 1, done.stdout[-4000:] + done.stderr[-2000:]
    return set(re.findall(r"^  ([a-z0-9-]+):$", done.stdout, re.MULTILINE)), done.stdout


@pytest.mark.timeout(TIMEOUT_S + 30)
@pytest.mark.parametrize(
    ("without", "seeds", "noticed_by"),
    [
        # Storage nodes that know no isolation level show everybody what is not committed.
        ("FetchRequest.isolation_level", 3, {"aborted-read", "pre-committed-read"}),
        # Every decision that passes an older process is an abort.
        pytest.param("TxnMarker.commit", 3, {"two-outcomes"}, marks=AT_NIGHT),
        # ADR 0018: late requests decide what they have no right to.
        pytest.param("RequestOrigin", 40, {"delayed-end-txn-tv1"}, marks=AT_NIGHT),
    ],
)
def test_what_correctness_needs_of_an_older_version_is_missed(without, seeds, noticed_by):
    given = ("--scenario", TWO_VERSIONS, "--without", without, "--seeds", str(seeds))
    found, output = broken(*given, "--until-broken")
    assert noticed_by <= found
    assert re.search(r"version-changed\s+[1-9]", output), output
    assert re.search(r"messages-cut\s+[1-9]", output), output


@AT_NIGHT
@pytest.mark.timeout(TIMEOUT_S + 30)
def test_a_method_called_without_asking_leaves_its_work_undone():
    method = "GroupCoordinator.WriteTxnMarkers"
    given = ("--scenario", "upgrade", "--older", "this", "--without", method)
    found, output = broken(*given, "--seeds", "6")
    assert "transaction-left-open" in found
    assert f'ARGS="--older this --without {method}"' in output
