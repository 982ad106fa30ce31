"""What ends a transaction that holds an LSO: a partition's row and `explain` say the same."""

import shlex

import pytest

from oncelog.ids import Partition
from oncelog_gateway.core.diagnosis import HolderFacts, PartitionFacts
from oncelog_gateway.core.endings import (
    Ending,
    abort_command,
    advice,
    complete_command,
    ending_of,
    terminate_command,
)
from oncelog_gateway.core.explain_partition import explain_partition
from oncelog_gateway.core.hanging import CoordinatedTransaction, OpenTransaction

ORDERS = Partition("or ders", 1)
OPENED = OpenTransaction(ORDERS, 7, 4, 10, -1, 500)
ABORT = "oncelog transactions abort --topic 'or ders' --partition 1 --start-offset 10 --producer-epoch 4"


def owner(state, name="pay", **more):
    return CoordinatedTransaction(name, state, 7, 4, 100, frozenset([ORDERS]), **more)


@pytest.mark.parametrize(
    ("state", "is_hanging", "ending", "command"),
    [
        ("Ongoing", None, Ending.UNKNOWN, ""),
        (None, None, Ending.UNKNOWN, ""),
        (None, True, Ending.NEVER, f": {ABORT}"),
        (None, False, Ending.PASSED, ""),
        (
            "Ongoing",
            False,
            Ending.PRODUCER,
            "; to end it now: oncelog transactions terminate pay",
        ),
        ("PrepareCommit", False, Ending.MARKER, ""),
        ("PrepareAbort", False, Ending.MARKER, ""),
        ("PrepareEpochFence", False, Ending.MARKER, ""),
    ],
)
def test_what_ends_it_and_the_command_that_does(state, is_hanging, ending, command):
    assert ending_of(state, is_hanging=is_hanging) is ending
    known = None if state is None else owner(state)
    assert advice(OPENED, known, is_hanging=is_hanging).text == f"{ending.value}{command}"


def test_a_two_phase_one_has_no_timeout_and_is_explained():
    known = owner("Ongoing", is_two_phase=True)
    said = advice(OPENED, known, is_hanging=False).text
    assert said == f"{Ending.OUTSIDE.value}; what to compare: oncelog transactions explain pay"
    decided = owner("PrepareCommit", is_two_phase=True)
    assert advice(OPENED, decided, is_hanging=False) == (Ending.MARKER.value, None)


def test_it_is_completed_by_a_command_that_names_it():
    words = shlex.split(complete_command("-my app", "42:7", "commit"))
    assert words[3:] == ["--prepared", "42:7", "--commit", "--", "-my app"]


@pytest.mark.parametrize("is_hanging", [None, True, False])
def test_explain_and_the_row_of_a_partition_agree(is_hanging):
    holder = HolderFacts(7, 4, 10, is_hanging=is_hanging)
    found = explain_partition(PartitionFacts(ORDERS, 11, (), 10, 14, holder), None)
    said = advice(OPENED, None, is_hanging=is_hanging)
    assert ending_of(None, is_hanging=is_hanging).value in said
    assert ending_of(None, is_hanging=is_hanging).value in found.verdict
    assert (ABORT in [one.command for one in found.next_commands]) is (is_hanging is True)


@pytest.mark.parametrize("name", ["pay", "my app", "-x", "--all", "it's"])
def test_a_command_names_any_transactional_id(name):
    """A name that begins with - is no option, behind --."""
    words = shlex.split(terminate_command(name))
    assert words[:3] == ["oncelog", "transactions", "terminate"]
    assert words[3:] == (["--", name] if name.startswith("-") else [name])


def test_the_command_that_aborts_names_the_transaction():
    assert abort_command(ORDERS, 10, 4) == ABORT
