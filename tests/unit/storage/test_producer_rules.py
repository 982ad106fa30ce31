"""The rules of a partition leader, row by row (facts 1.2, 9)."""

import pytest
from tests.worlds.storage.partitions import TRANSACTIONAL, header

from oncelog.errors import ErrorCode
from oncelog.ids import PRODUCER_EPOCH_MAX, SEQUENCE_MAX
from oncelog_storage.core.producer_state import ProducerStates
from oncelog_storage.core.verification import SENTINEL_GUARD, VerificationGuard, Verifications

PID = 9
OK = ErrorCode.NONE
FENCED = ErrorCode.INVALID_PRODUCER_EPOCH
GAP = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
STATE = ErrorCode.INVALID_TXN_STATE
COORDINATOR_FENCED = ErrorCode.TRANSACTION_COORDINATOR_FENCED


def data(sequence, *, producer_id=PID, count=1, producer_epoch=0, txn=False, timestamp=0):
    return header(
        producer_id=producer_id,
        epoch=producer_epoch,
        sequence=sequence,
        count=count,
        attributes=TRANSACTIONAL if txn else 0,
        timestamp=timestamp,
    )


class Partition:
    """Producer states with a growing offset."""

    def __init__(self, *batches, has_forgotten=False):
        self.states = ProducerStates()
        self.states.has_forgotten = has_forgotten
        self.end = 0
        for batch in batches:
            self.append(batch)

    def append(self, batch):
        self.states.apply_batch(batch, self.end)
        self.end += batch.last_offset_delta + 1
        return self

    def mark(
        self, producer_epoch=0, *, commit=True, coordinator_epoch=0, producer_id=PID, timestamp=0
    ):
        completed = self.states.apply_marker(
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            coordinator_epoch=coordinator_epoch,
            is_commit=commit,
            marker_offset=self.end,
            timestamp=timestamp,
        )
        self.end += 1
        return completed


def marked(partition, *args, **fields):
    partition.mark(*args, **fields)
    return partition


SEQUENCES = [
    ("unknown producer: only 0", Partition(data(0, producer_id=8)), data(77), GAP),
    ("unknown producer, transactional TV1: only 0", Partition(), data(77, txn=True), GAP),
    ("unknown producer: 0", Partition(data(0, producer_id=8)), data(0), OK),
    ("any, where some were forgotten", Partition(has_forgotten=True), data(77), OK),
    ("TV1: any, where some were forgotten", Partition(has_forgotten=True), data(77, txn=True), OK),
    ("next sequence", Partition(data(0, count=3)), data(3), OK),
    ("a gap", Partition(data(0, count=3)), data(4), GAP),
    ("an overlap that is no duplicate", Partition(data(0, count=3)), data(2), GAP),
    ("wraps around to 0", Partition(data(SEQUENCE_MAX)), data(0), OK),
    ("wraps around inside a batch", Partition(data(SEQUENCE_MAX, count=3)), data(2), OK),
    ("0 only after the largest", Partition(data(5)), data(0), GAP),
    ("new epoch begins at 0", Partition(data(5)), data(0, producer_epoch=1), OK),
    ("new epoch elsewhere", Partition(data(5)), data(6, producer_epoch=1), GAP),
    ("stale epoch", Partition(data(0, producer_epoch=3)), data(1, producer_epoch=2), FENCED),
    (
        "after a marker with a bump: 0",
        marked(Partition(data(5, txn=True)), 1),
        data(0, producer_epoch=1),
        OK,
    ),
    (
        "after a marker with a bump: not 6",
        marked(Partition(data(5, txn=True)), 1),
        data(6, producer_epoch=1),
        GAP,
    ),
    (
        "after a marker at the same epoch it goes on",
        marked(Partition(data(5, txn=True)), 0),
        data(6),
        OK,
    ),
    (
        "a marker made the entry: epoch known, next is 0",
        marked(Partition(), 4),
        data(7, producer_epoch=4),
        GAP,
    ),
    ("plain write into a transaction", Partition(data(0, txn=True)), data(1), STATE),
    (
        "coordinator's batch: no sequence check",
        Partition(data(5, txn=True)),
        data(-1, txn=True),
        OK,
    ),
    (
        "coordinator's batch: stale epoch",
        Partition(data(0, producer_epoch=3)),
        data(-1, producer_epoch=2),
        FENCED,
    ),
]


@pytest.mark.parametrize(
    ("partition", "batch", "code"),
    [row[1:] for row in SEQUENCES],
    ids=[row[0] for row in SEQUENCES],
)
def test_epochs_and_sequences(partition, batch, code):
    assert partition.states.check_batch(batch) is code


VERIFIED = [
    ("TV2 without state begins at 0", Partition(), True, 0, data(0, txn=True), OK),
    ("TV2 without state, later sequence", Partition(), True, 3, data(3, txn=True), GAP),
    ("TV1 without state, later sequence", Partition(), False, 3, data(3, txn=True), GAP),
    (
        "TV1 where some were forgotten may begin anywhere",
        Partition(has_forgotten=True),
        False,
        3,
        data(3, txn=True),
        OK,
    ),
    ("above the lowest seen", Partition(), False, 3, data(4, txn=True), GAP),
    ("with state, above the lowest seen", Partition(data(0)), True, 1, data(2, txn=True), GAP),
    ("with state, the lowest", Partition(data(0)), True, 1, data(1, txn=True), OK),
]


@pytest.mark.parametrize(
    ("partition", "tv2", "lowest", "batch", "code"),
    [row[1:] for row in VERIFIED],
    ids=[row[0] for row in VERIFIED],
)
def test_sequences_under_verification(partition, tv2, lowest, batch, code):
    verifications = Verifications()
    verifications.begin(PID, 0, lowest, supports_epoch_bump=tv2, now=0)
    assert partition.states.check_batch(batch, verifications.get(PID)) is code


MARKERS = [
    ("unknown producer", Partition(), 0, 0, 2, OK),
    ("TV1 at the stored epoch", Partition(data(0, txn=True)), 0, 0, 1, OK),
    ("TV0 above it", Partition(data(0, txn=True)), 1, 0, 0, OK),
    ("TV1 below it", Partition(data(0, producer_epoch=3, txn=True)), 2, 0, 1, FENCED),
    ("TV2 above it", Partition(data(0, txn=True)), 1, 0, 2, OK),
    ("TV2 at it with an open transaction", Partition(data(0, txn=True)), 0, 0, 2, FENCED),
    (
        "TV2 at it with none open: a repeat (KAFKA-19999)",
        marked(Partition(data(0, txn=True)), 1),
        1,
        0,
        2,
        OK,
    ),
    ("TV2 below it", marked(Partition(data(0, txn=True)), 1), 0, 0, 2, FENCED),
    (
        "TV2 at the largest epoch, open",
        Partition(data(0, producer_epoch=PRODUCER_EPOCH_MAX, txn=True)),
        PRODUCER_EPOCH_MAX,
        0,
        2,
        OK,
    ),
    (
        "older coordinator",
        marked(Partition(data(0)), 0, coordinator_epoch=5),
        0,
        4,
        1,
        COORDINATOR_FENCED,
    ),
    ("same coordinator", marked(Partition(data(0)), 0, coordinator_epoch=5), 0, 5, 1, OK),
    (
        "older coordinator and older producer: the producer is told",
        marked(Partition(), 3, coordinator_epoch=5),
        2,
        4,
        1,
        FENCED,
    ),
]


@pytest.mark.parametrize(
    ("partition", "producer_epoch", "coordinator_epoch", "version", "code"),
    [row[1:] for row in MARKERS],
    ids=[row[0] for row in MARKERS],
)
def test_markers(partition, producer_epoch, coordinator_epoch, version, code):
    assert partition.states.check_marker(PID, producer_epoch, coordinator_epoch, version) is code


def test_an_open_transaction_counts_at_its_epoch_only():
    states = Partition(data(0, producer_epoch=2, txn=True)).states
    assert states.has_ongoing_transaction(PID, 2)
    assert not states.has_ongoing_transaction(PID, 3)
    assert not states.has_ongoing_transaction(PID + 1, 2)


def test_expiry_spares_open_transactions_and_is_exact():
    partition = Partition(data(0), data(0, producer_id=10, txn=True))
    assert partition.states.expire(now=999, expiration_ms=1000) == 0
    assert partition.states.check_batch(data(7, producer_id=8)) is GAP
    assert partition.states.expire(now=1000, expiration_ms=1000) == 1
    assert partition.states.check_batch(data(7)) is OK, "it may be the one that was forgotten"
    assert partition.states.get(PID) is None
    assert partition.states.get(10) is not None


def test_a_marker_is_a_sign_of_life_of_its_producer():
    """Else it is forgotten while its client works on, and so are its epoch and whom the marker fenced."""
    partition = Partition(data(0, txn=True, timestamp=100))
    partition.mark(1, timestamp=5_000)
    assert partition.states.expire(now=5_999, expiration_ms=1_000) == 0
    assert partition.states.check_batch(data(0, txn=True)) is FENCED
    assert partition.states.expire(now=6_000, expiration_ms=1_000) == 1
    other = marked(Partition(), 3, timestamp=5_000)
    assert other.states.expire(now=5_999, expiration_ms=1_000) == 0


def test_each_of_five_batches_is_known_by_its_own_offset():
    """All five may be under way: each is answered with where it is, not with where the newest one is."""
    partition = Partition(*[data(7 * number, count=7) for number in range(7)])
    for number in range(2, 7):
        kept = partition.states.find_duplicate(data(7 * number, count=7))
        assert (kept.base_offset, kept.last_offset) == (7 * number, 7 * number + 6)
    for other in (
        data(7, count=7),
        data(14, count=6),
        data(15, count=6),
        data(14, count=7, producer_epoch=1),
        data(14, count=7, producer_id=PID + 1),
        data(49, count=7),
    ):
        assert partition.states.find_duplicate(other) is None


# Verification entries.


def test_guards_are_compared_by_identity():
    guard = VerificationGuard()
    assert guard.verifies(guard)
    assert not guard.verifies(VerificationGuard())
    assert not guard.verifies(None)
    assert not SENTINEL_GUARD.verifies(SENTINEL_GUARD)


def test_an_entry_keeps_the_lowest_sequence_of_its_epoch():
    verifications = Verifications()
    first = verifications.begin(PID, 0, 5, supports_epoch_bump=False, now=0)
    assert verifications.begin(PID, 0, 3, supports_epoch_bump=False, now=0) is first
    assert verifications.begin(PID, 0, 9, supports_epoch_bump=False, now=0) is first
    assert verifications.get(PID).lowest_sequence == 3
    verifications.begin(PID, 1, 7, supports_epoch_bump=False, now=0)
    assert (verifications.get(PID).producer_epoch, verifications.get(PID).lowest_sequence) == (1, 7)
    verifications.begin(PID, 0, 0, supports_epoch_bump=False, now=0)
    assert verifications.get(PID).lowest_sequence == 7, "an older epoch says nothing"


REMOVALS = [
    ("data batch", False, True, 0, False, True),
    ("TV1 marker at its epoch", True, False, 0, False, False),
    ("TV2 marker at the entry's epoch belongs to the next transaction", True, True, 0, True, False),
    ("TV2 marker at another epoch", True, True, 1, False, False),
]


@pytest.mark.parametrize(
    ("is_control", "tv2", "marker_epoch", "stays"),
    [row[1:5] for row in REMOVALS],
    ids=[row[0] for row in REMOVALS],
)
def test_an_entry_goes_with_the_append_it_was_for(is_control, tv2, marker_epoch, stays):
    verifications = Verifications()
    guard = verifications.begin(PID, 0, 0, supports_epoch_bump=tv2, now=0)
    verifications.appended(PID, marker_epoch, is_control)
    assert verifications.is_verified(PID, guard) is stays


def test_the_oldest_silent_transaction_is_late_whoever_owns_it():
    """KIP-664: a coordinator is not asked, so a transaction that hangs is late too."""
    partition = Partition(data(0, txn=True, timestamp=1_000), data(1, txn=True, timestamp=5_000))
    assert not partition.states.has_late_transaction(6_000, 1_000)
    assert partition.states.has_late_transaction(6_001, 1_000)
    partition.mark()
    assert not partition.states.has_late_transaction(99_000, 1_000)


def test_a_marker_holds_the_lso_until_it_is_replicated():
    partition = Partition(data(0, txn=True))
    partition.mark()
    partition.states.high_watermark_moved(1)
    assert partition.states.first_unstable_offset() == 0, "the marker is at 1"
    partition.states.high_watermark_moved(2)
    assert partition.states.first_unstable_offset() is None
