"""The rules of explain, row by row: facts in, a diagnosis out. What real incidents give is in tests/incidents."""

import pytest

from oncelog.ids import Partition
from oncelog.telemetry.events import Event
from oncelog_gateway.core.diagnosis import (
    Command,
    Diagnosis,
    HolderFacts,
    PartitionFacts,
    QueueFacts,
    TransactionFacts,
    seconds,
)
from oncelog_gateway.core.explain_group import GroupFacts, OffsetFacts, explain_group
from oncelog_gateway.core.explain_partition import explain_partition
from oncelog_gateway.core.explain_producer import explain_idle_producer, explain_silence
from oncelog_gateway.core.explain_sink import AttemptFacts, SinkFacts, explain_sink
from oncelog_gateway.core.explain_transaction import explain_transaction
from oncelog_gateway.core.held_back import Behind

NOW = 1_000_000
ORDERS = Partition("orders", 0)


def event(at_s, kind, **fields):
    """So many seconds before now."""
    return Event(f"{NOW - at_s * 1000}-0", NOW - at_s * 1000, "coordinator", 21, kind, fields)


def changed(at_s, state, request, **more):
    return event(at_s, "transaction", state=state, request=request, cause=request, **more)


def bumped(at_s, bump, state="PrepareAbort", **more):
    epochs = {"previous_producer_epoch": 3, "producer_epoch": 4, "timeout_ms": 60_000}
    return changed(at_s, state, "x", bump=bump, **(epochs | more))


def refusal(at_s, error, **more):
    return event(at_s, "refused", request="EndTxn", error=error, count=1, **more)


def facts(state="CompleteAbort", **more):
    given = {"producer_id": 7, "producer_epoch": 4, "start_ms": NOW - 30_000, "timeout_ms": 60_000}
    return TransactionFacts("pay", NOW, 5, 21, state=state, **(given | more))


APP_1 = {"client_id": "app-1", "client_host": "10.0.0.1:1"}
APP_2 = {"client_id": "app-2", "client_host": "10.0.0.2:2"}
BEGUN = changed(60, "Ongoing", "AddPartitions", **APP_1)

ROWS = [
    ("shard-loads", facts(None, error="NOT_COORDINATOR"), "is loading shard 5"),
    ("unknown-id", facts(None, error="TRANSACTIONAL_ID_NOT_FOUND"), "nobody has used it"),
    ("unknown", facts(None, error="REQUEST_TIMED_OUT"), "did not answer"),
    (
        "marker-stuck",
        facts("PrepareCommit", partitions=(PartitionFacts(ORDERS, -1, (12,)),)),
        "orders-0 has no leader",
    ),
    (
        "marker-stuck",
        facts("PrepareAbort", partitions=(PartitionFacts(ORDERS, 11),)),
        "orders-0 has not taken its marker yet",
    ),
    (
        "hung-then-fenced",
        facts(
            events=[BEGUN, bumped(13, "takeover", **APP_2), refusal(12, "PRODUCER_FENCED", **APP_1)]
        ),
        "Client 'app-1' at 10.0.0.1:1 was silent for 47 s; then client 'app-2' at 10.0.0.2:2 took",
    ),
    (
        "fenced-by-takeover",
        facts(
            events=[
                changed(13, "Ongoing", "AddPartitions", **APP_1),
                bumped(12, "takeover", **APP_2),
            ]
        ),
        "Client 'app-1' at 10.0.0.1:1 is fenced: client 'app-2'",
    ),
    (
        "fenced-by-timeout",
        facts(events=[BEGUN, bumped(13, "timeout"), refusal(1, "INVALID_PRODUCER_EPOCH", **APP_1)]),
        "longer than its timeout of 1 min",
    ),
    ("fenced-by-operator", facts(events=[BEGUN, bumped(3, "operator")]), "an operator terminated"),
    (
        "invalid-txn-state",
        facts(events=[BEGUN, bumped(13, "timeout"), refusal(1, "INVALID_TXN_STATE", **APP_1)]),
        "its timeout of 1 min passed",
    ),
    (
        "concurrent-transactions",
        facts(
            "CompleteCommit", events=[refusal(3 - n, "CONCURRENT_TRANSACTIONS") for n in range(3)]
        ),
        "is told CONCURRENT_TRANSACTIONS each time",
    ),
    ("open", facts("Ongoing", events=[BEGUN]), "open for 30 s"),
    (
        "open-and-slow",
        facts(
            "Ongoing",
            partitions=(
                PartitionFacts(ORDERS, 11, (), 10, 14, HolderFacts(7, 4, 10, "pay", "Ongoing")),
            ),
        ),
        "holds back 4 offsets in orders-0",
    ),
    (
        "open",
        facts("Ongoing", start_ms=NOW - 200, partitions=(PartitionFacts(ORDERS, 11, (), 10, 14),)),
        "open for 0.2 s and holds back 4 offsets",
    ),
    ("healthy", facts("CompleteCommit"), "was committed"),
    ("last-aborted", facts("CompleteAbort"), "was aborted"),
    (
        "last-aborted",
        facts("Empty", events=[BEGUN, changed(1, "CompleteAbort", "MarkersDelivered")]),
        "was aborted",
    ),
    ("healthy", facts("Empty"), "initialised"),
    (
        "healthy",
        facts(
            "CompleteCommit",
            events=[
                bumped(600, "takeover", **APP_2),
                refusal(599, "PRODUCER_FENCED", **APP_1),
                changed(1, "CompleteCommit", "MarkersDelivered"),
            ],
        ),
        "was committed",
    ),
]


@pytest.mark.parametrize(("incident", "given", "words"), ROWS)
def test_a_transaction(incident, given, words):
    found = explain_transaction(given)
    assert (found.incident, words in found.verdict) == (incident, True), found
    assert found.next_commands


def aborted(*events, **more):
    """Its producer went on, and no one was refused: no rule of a fenced producer answers."""
    return explain_transaction(facts(changed_ms=NOW - 3_000, events=events, **more))


def test_an_abort_by_its_producer_is_told_with_its_time():
    found = aborted(BEGUN, changed(4, "PrepareAbort", "EndTxn", **APP_1))
    assert found.findings == (
        "It ended 3.0 s ago, at 00:16:37 UTC.",
        "Why: client 'app-1' at 10.0.0.1:1 aborted it itself.",
    )


def test_why_an_abort_came_may_be_forgotten_and_since_when():
    assert aborted().findings[1] == "Why is no longer remembered: no event is remembered."
    reaching = aborted(remembered_since_ms=NOW - 60_000)
    assert reaching.findings[1].endswith("events reach back to 00:15:40 UTC.")
    other_day = aborted(remembered_since_ms=NOW - 86_400_000 * 2)
    assert other_day.findings[1].endswith("(30 Dec 1969).")


def test_an_older_abort_is_not_taken_for_the_last_one():
    """The events of the last transaction are missing."""
    older = changed(60, "PrepareAbort", "EndTxn", **APP_1)
    found = aborted(older, changed(50, "CompleteCommit", "MarkersDelivered"))
    assert "no longer remembered" in found.findings[1]


def undecided(**more):
    return facts("Ongoing", is_two_phase=True, timeout_ms=2**31 - 1, **more)


def test_a_two_phase_one_is_told_with_what_to_compare():
    other = PartitionFacts(Partition("orders", 1), 11, (), 5, 9, HolderFacts(8, 1, 5, "other"))
    found = explain_transaction(
        undecided(events=[BEGUN, bumped(20, "end", "Ongoing")], partitions=(held(), other))
    )
    assert found.incident == "two-phase-undecided"
    assert found.verdict == (
        "The two-phase transaction 7:4 of client 'app-1' at 10.0.0.1:1 is open for 30 s and holds back 4 offsets in "
        "orders-0. No time-out ends it: its application does, or an operator."
    )
    assert "Compare that text with 7:4. The same text: commit." in found.findings[0]
    assert "Stop the application before you decide" in found.findings[1]
    commands = [one.command for one in found.next_commands]
    assert commands[:2] == [
        "oncelog transactions complete --prepared 7:4 --commit pay",
        "oncelog transactions complete --prepared 7:4 --abort pay",
    ]
    assert all(one.is_safe for one in found.next_commands)


def test_a_kept_one_names_the_producer_that_may_end_it():
    """The producer that opened it was refused since; what holds readers back is the graver news."""
    found = explain_transaction(
        undecided(owner=(8, 0), events=[BEGUN, refusal(1, "PRODUCER_FENCED", **APP_1)])
    )
    assert (found.incident, "kept for the newer producer 8:0" in found.findings[1]) == (
        "two-phase-undecided",
        True,
    )


@pytest.mark.parametrize(
    ("state", "words"), [("PrepareCommit", "committed"), ("PrepareAbort", "aborted")]
)
def test_what_an_operator_decided_is_told(state, words):
    fields = {**bumped(3, "operator", state).fields, "request": "CompletePrepared"}
    ended = event(3, "transaction", **fields)
    refused = refusal(2, "PRODUCER_FENCED", **APP_1)
    found = explain_transaction(facts("CompleteCommit", events=[BEGUN, ended, refused]))
    assert found.incident == "fenced-by-operator"
    assert f"an operator {words} the transaction" in found.verdict


def test_a_group_behind_a_two_phase_one_is_told_what_ends_it():
    owner = explain_transaction(undecided(partitions=(held(),)))
    stuck = OffsetFacts(ORDERS, 10, 4, held=held(), is_blocked=True)
    found = explain_group(GroupFacts("g", "Stable", 1, (stuck,)), explain_partition(held(), owner))
    assert found.incident == "two-phase-undecided"
    assert "No time-out ends it" in found.verdict
    assert "complete --prepared 7:4 --commit" in found.next_commands[0].command


def test_a_stuck_marker_is_told_with_queues_and_last_failure():
    failed = event(2, "marker_failed", error="connection refused", names="orders-0")
    found = explain_transaction(
        facts(
            "PrepareCommit",
            partitions=(PartitionFacts(ORDERS, 11),),
            events=[changed(40, "PrepareCommit", "EndTxn"), failed],
            queues=(QueueFacts(31, 11, 5, 40_000),),
        )
    )
    output = " ".join(found.findings)
    assert "The commit was decided 40 s ago." in output
    assert "connection refused" in output
    assert "Marker sender 31 holds 5 for node 11, the oldest for 40 s." in output


def test_the_client_that_asks_while_a_shard_loads_is_named():
    asks = [refusal(3 - n, "COORDINATOR_LOAD_IN_PROGRESS", **APP_1) for n in range(3)]
    found = explain_transaction(facts(None, error="COORDINATOR_LOAD_IN_PROGRESS", events=asks))
    assert found.findings[0].startswith("EndTxn of client 'app-1' at 10.0.0.1:1 was refused with")


def test_a_partition_whose_marker_is_written_is_not_named():
    written = event(1, "marker", topic="orders", partition=0, error_code=0)
    found = explain_transaction(
        facts(
            "PrepareCommit",
            partitions=(PartitionFacts(ORDERS, 11), PartitionFacts(Partition("orders", 1), 11)),
            events=[changed(2, "PrepareCommit", "EndTxn"), written],
        )
    )
    assert "orders-1" in found.verdict
    assert "orders-0" not in found.verdict


def held(**more):
    holder = HolderFacts(7, 4, 10, **({"transactional_id": "pay", "state": "Ongoing"} | more))
    return PartitionFacts(ORDERS, 11, (), 10, 14, holder)


OWNER = Diagnosis(
    "open", "The transaction is open for 30 s.", next_commands=(Command("oncelog", "helps"),)
)
PARTITIONS = [
    ("no-leader", PartitionFacts(ORDERS, -1, (12,)), None),
    ("unknown", PartitionFacts(ORDERS, 11, failure="no answer"), None),
    ("healthy", PartitionFacts(ORDERS, 11, (), 14, 14), None),
    ("hanging-transaction", held(is_hanging=True), None),
    ("open-and-slow", held(age_ms=30_000), OWNER),
    ("open", held(age_ms=200), OWNER),
    ("unknown", held(), None),
    ("unknown", held(is_hanging=None, transactional_id=None), None),
]


@pytest.mark.parametrize(("incident", "given", "owner"), PARTITIONS)
def test_a_partition(incident, given, owner):
    found = explain_partition(given, owner)
    assert found.incident == incident, found
    assert "orders-0" in found.verdict
    assert found.next_commands


def test_a_partition_says_once_what_is_held_back():
    """Where the transaction's own verdict has these very words, the partition's adds none."""
    pay = facts("Ongoing", start_ms=NOW - 200, partitions=(held(),))
    for owner, count in ((explain_transaction(pay), 1), (OWNER, 1)):
        found = explain_partition(held(age_ms=200), owner)
        told = " ".join((found.verdict, *found.findings))
        assert told.count("holds back 4 offsets in orders-0") == count, told
        assert told.count("4 offsets") == count, told


def test_of_several_partitions_each_tells_its_part():
    two = PartitionFacts(Partition("orders", 1), 11, (), 10, 12, held().holder)
    found = explain_transaction(facts("Ongoing", partitions=(held(), two)))
    assert "holds back 6 offsets in orders-0, orders-1." in found.verdict
    assert "orders-1: read_committed stops at offset 10, 2 offsets held back." in found.findings


def group(*offsets, members=1, **more):
    return GroupFacts("billing", "Stable", members, offsets, **more)


MARKERS = OffsetFacts(ORDERS, 10, 1, Behind(markers=1))
GROUPS = [
    ("healthy", group(OffsetFacts(ORDERS, 10, 0)), "has read everything"),
    ("no-offsets", group(), "has committed nothing yet."),
    ("no-offsets", group(members=0), "has committed nothing yet, and it has no members."),
    ("unknown", group(OffsetFacts(ORDERS, 10, None)), "in orders-0 is not known"),
    ("lag-of-markers", group(MARKERS), "Its lag of 1 is 1 transaction marker:"),
    ("behind", group(MARKERS, OffsetFacts(ORDERS, 4, 6, Behind(5, 0, 1))), "5 records behind"),
    ("behind", group(OffsetFacts(ORDERS, 4, 6)), "6 records or more behind"),
    ("no-members", group(OffsetFacts(ORDERS, 4, 6, Behind(6)), members=0), "no members"),
    (
        "open",
        group(OffsetFacts(ORDERS, 4, 6, held=held(), held_back=6, is_blocked=True)),
        "cannot read on in orders-0: an open transaction holds back 6 offsets.",
    ),
    (
        "open",
        group(OffsetFacts(ORDERS, 4, 6, held=held(age_ms=146), held_back=6, is_blocked=True)),
        "has read up to an open transaction in orders-0: an open transaction holds back 6 offsets.",
    ),
    # It has something to read before the transaction: it is behind.
    ("behind", group(OffsetFacts(ORDERS, 4, 6, Behind(2), held(), 4)), "2 records behind"),
    (
        "unstable-offset-commit",
        group(pending=(ORDERS,), holder=HolderFacts(7, 4, 1, "pay")),
        "wait for the open transaction of pay",
    ),
]


@pytest.mark.parametrize(("incident", "given", "words"), GROUPS)
def test_a_group(incident, given, words):
    found = explain_group(given, OWNER)
    assert (found.incident, words in found.verdict) == (incident, True), found


HELD_BY_A_HANGING_ONE = group(
    OffsetFacts(ORDERS, 4, 6, held=held(is_hanging=True), held_back=6, is_blocked=True)
)


def test_a_hanging_transaction_is_as_old_as_its_first_record():
    found = explain_partition(
        held(is_hanging=True, idle_ms=60_000, first_record_age_ms=7_200_000), None
    )
    assert (
        "Its first record here is 2 h old, and its last record here is 1 min old." in found.findings
    )
    unknown = explain_partition(held(is_hanging=True, idle_ms=60_000), None)
    assert "Its last record here is 1 min old." in unknown.findings


def test_a_group_behind_a_hanging_one_is_given_its_command():
    partition = explain_partition(held(is_hanging=True), None)
    found = explain_group(HELD_BY_A_HANGING_ONE, partition)
    assert found.incident == "hanging-transaction"
    assert found.next_commands == partition.next_commands
    assert "6 held back by a hanging transaction of" in found.findings[0]


@pytest.mark.parametrize(
    ("incident", "written", "unknown", "words"),
    [
        ("healthy", [ORDERS], [], "orders-0 remembers it"),
        ("healthy", [ORDERS] * 7, [], "orders-0 and 2 other partitions remember it"),
        ("unknown-id", [], [], "it never wrote"),
        ("unknown", [], ["node 3 did not answer"], "no partition that answered remembers it."),
    ],
)
def test_a_producer_without_a_transactional_id(incident, written, unknown, words):
    found = explain_idle_producer(7, written, unknown)
    assert (found.incident, words in found.verdict) == (incident, True), found
    assert list(found.unknown) == unknown


@pytest.mark.parametrize(
    ("incident", "node_id", "error", "words"),
    [
        ("shard-loads", -1, "COORDINATOR_NOT_AVAILABLE", "No coordinator owns shard 3"),
        ("shard-loads", 21, "COORDINATOR_LOAD_IN_PROGRESS", "on node 21 is loading shard 3"),
        ("unknown", 21, "REQUEST_TIMED_OUT", "did not answer (REQUEST_TIMED_OUT)"),
    ],
)
def test_a_name_whose_coordinator_is_silent(incident, node_id, error, words):
    found = explain_silence("group 'billing'", "shard 3", node_id, error)
    assert (found.incident, words in found.verdict) == (incident, True), found
    assert "group 'billing'" in found.verdict


def attempt(state, deadline_s=30):
    return AttemptFacts(8, state, NOW - 90_000, NOW + deadline_s * 1000, 4, 1)


@pytest.mark.parametrize(
    ("incident", "attempts", "words"),
    [
        ("healthy", (), "batch 7 was committed last"),
        ("spark-attempt-open", (attempt("Open"),), "batch 8 open since 1 min 30 s ago"),
        ("spark-attempt-open", (attempt("Open", -1),), "within a second"),
        ("spark-markers-under-way", (attempt("Committing"),), "on their way"),
    ],
)
def test_a_sink(incident, attempts, words):
    found = explain_sink(SinkFacts("bank", NOW, 7, attempts))
    assert (found.incident, words in found.verdict) == (incident, True), found


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [(-5, "0.0 s"), (300, "0.3 s"), (9_999, "10.0 s"), (47_000, "47 s"), (720_000, "12 min")],
)
def test_times_are_short(milliseconds, text):
    assert seconds(milliseconds) == text
