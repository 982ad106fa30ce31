"""A history written to a file is the same when it is read again."""

import json

import pytest
from oncelog_robustness.history import (
    Ending,
    Fault,
    FinalRead,
    GroupOffsets,
    History,
    Isolation,
    OffsetsCommitted,
    OffsetsFetched,
    Outcome,
    PlainSend,
    Poll,
    Positioned,
    Read,
    Send,
    Transaction,
    WorkloadFact,
)

WHO = {"client": "c#1", "invoked_ms": 3, "completed_ms": 5}
EVERY_KIND = [
    Transaction(
        **WHO,
        transactional_id="pay",
        protocol="TV2",
        ending=Ending.COMMIT,
        outcome=Outcome.INFO,
        sends=(Send("t", 0, "v", None, "k"),),
        reads=(Read("t", 1, 4, None, "k"),),
        offsets=GroupOffsets("g", (("t", 1, 5),)),
        asked_ms=4,
    ),
    Transaction(
        **WHO,
        transactional_id="pay",
        protocol="TV2",
        ending=Ending.NONE,
        outcome=Outcome.FAIL,
        sends=(),
        library="java",
    ),
    PlainSend(**WHO, send=Send("t", 0, "v", 7), outcome=Outcome.OK),
    Poll(**WHO, isolation=Isolation.READ_COMMITTED, reads=(Read("t", 1, 4, "v"),), group="g"),
    Positioned(**WHO, positions=(("t", 1, 4),)),
    OffsetsCommitted(**WHO, committed=GroupOffsets("g", (("t", 1, 5),)), outcome=Outcome.FAIL),
    OffsetsFetched(**WHO, fetched=GroupOffsets("g", (("t", 1, -1),)), is_final=True),
    FinalRead(
        **WHO,
        isolation=Isolation.READ_UNCOMMITTED,
        topic="t",
        partition=0,
        start_offset=1,
        end_offset=9,
        reads=(Read("t", 0, 4, "v"),),
        is_complete=False,
    ),
    Fault(**WHO, kind="kill", target="storage-1"),
    WorkloadFact(**WHO, kind="token-ring", facts="{}"),
]


@pytest.mark.parametrize("operation", EVERY_KIND, ids=lambda one: type(one).__name__)
def test_every_kind_of_operation_is_read_back_as_it_was(operation):
    history = History(facts={"seed": "7"})
    history.add(operation)
    assert History.from_lines(history.lines()) == history


def test_a_history_of_an_older_version_is_read():
    """It does not name the client libraries."""
    history = History(facts={"seed": "7"}, operations=[EVERY_KIND[0]])
    facts, line = history.lines()
    older = json.loads(line)
    assert older.pop("library") == ""
    assert History.from_lines([facts, json.dumps(older)]) == history


def test_a_line_of_something_else_is_refused_by_its_number():
    with pytest.raises(ValueError, match="line 2 is no operation"):
        History.from_lines(['{"facts": {}}', '{"operation": "Poll", "client": "c"}'])
