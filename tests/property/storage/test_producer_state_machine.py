"""Producer state against a model that remembers everything that was ever appended."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from tests.worlds.storage.partitions import TRANSACTIONAL, header

from oncelog.errors import ErrorCode
from oncelog_storage.core.producer_snapshot import decode_snapshot, encode_snapshot
from oncelog_storage.core.producer_state import ProducerStates

PRODUCERS = st.integers(0, 2)
EPOCHS = st.integers(0, 2)
SEQUENCE_LIMIT = 2**31


class ProducersMachine(RuleBasedStateMachine):
    """The model keeps, per producer, its epoch, its batches since that epoch began, and its open transaction."""

    def __init__(self):
        super().__init__()
        self.states = ProducerStates()
        self.end = self.high_watermark = 0
        self.epoch, self.batches, self.open, self.coordinator = {}, {}, {}, {}
        self.ended = []
        self.has_restarted = False
        """Then a producer may have been forgotten, and begins anywhere."""

    @rule(
        producer=PRODUCERS,
        epoch=EPOCHS,
        jump=st.sampled_from([0, 0, 0, 1, -1, -2, 2**31 - 3]),
        count=st.integers(1, 4),
        is_transactional=st.booleans(),
    )
    def append(self, producer, epoch, jump, count, is_transactional):
        known = self.epoch.get(producer)
        following = self.following(producer) if known == epoch else 0
        batch = header(
            producer_id=producer,
            epoch=epoch,
            sequence=(following + jump) % SEQUENCE_LIMIT,
            count=count,
            attributes=TRANSACTIONAL if is_transactional else 0,
        )
        expected = self.expected(batch)
        duplicate = self.states.find_duplicate(batch)
        recent = self.batches.get(producer, [])[-5:] if known == epoch else []
        twins = [
            at for at, sequence, size in recent if (sequence, size) == (batch.base_sequence, count)
        ]
        assert ([] if duplicate is None else [duplicate.base_offset]) == twins[:1]
        if duplicate is not None:
            return
        assert self.states.check_batch(batch) is expected
        if expected is not ErrorCode.NONE:
            return
        self.states.apply_batch(batch, self.end)
        if known != epoch:
            self.epoch[producer], self.batches[producer] = epoch, []
        self.batches.setdefault(producer, []).append((self.end, batch.base_sequence, count))
        if is_transactional:
            self.open.setdefault(producer, self.end)
        self.end += count

    def following(self, producer):
        batches = self.batches.get(producer)
        return (batches[-1][1] + batches[-1][2]) % SEQUENCE_LIMIT if batches else 0

    def expected(self, batch):
        known = self.epoch.get(batch.producer_id)
        if known is not None:
            if batch.producer_epoch < known:
                return ErrorCode.INVALID_PRODUCER_EPOCH
            wanted = self.following(batch.producer_id) if batch.producer_epoch == known else 0
            if batch.base_sequence != wanted:
                return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        elif batch.base_sequence and not self.has_restarted:
            return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        if batch.producer_id in self.open and not batch.is_transactional:
            return ErrorCode.INVALID_TXN_STATE
        return ErrorCode.NONE

    @rule(
        producer=PRODUCERS,
        epoch=EPOCHS,
        coordinator=st.integers(0, 1),
        version=st.integers(0, 2),
        commit=st.booleans(),
    )
    def mark(self, producer, epoch, coordinator, version, commit):
        code = self.states.check_marker(producer, epoch, coordinator, version)
        known = self.epoch.get(producer)
        if known is not None:
            repeats = epoch == known and producer not in self.open
            too_old = epoch < known or (version == 2 and epoch == known and not repeats)
            if too_old:
                assert code is ErrorCode.INVALID_PRODUCER_EPOCH
                return
            if coordinator < self.coordinator.get(producer, -1):
                assert code is ErrorCode.TRANSACTION_COORDINATOR_FENCED
                return
        assert code is ErrorCode.NONE
        completed = self.states.apply_marker(
            producer_id=producer,
            producer_epoch=epoch,
            coordinator_epoch=coordinator,
            is_commit=commit,
            marker_offset=self.end,
            timestamp=self.end,
        )
        first = self.open.pop(producer, None)
        assert (completed is None) == (first is None)
        if completed is not None:
            oldest = min(self.open.values(), default=self.end + 1)
            assert completed == (producer, first, self.end, commit, oldest)
            self.ended.append((first, self.end))
        if known != epoch:
            self.epoch[producer], self.batches[producer] = epoch, []
        self.coordinator[producer] = coordinator
        self.end += 1

    @rule(step=st.integers(0, 6))
    def high_watermark_moves(self, step):
        self.high_watermark = min(self.high_watermark + step, self.end)
        self.states.high_watermark_moved(self.high_watermark)

    @precondition(lambda self: self.epoch)
    @rule()
    def restart(self):
        """A snapshot keeps one batch a producer, and the restarted leader's high watermark is the log's end."""
        restored = ProducerStates()
        restored.restore(decode_snapshot(encode_snapshot(self.states.entries())))
        self.states, self.has_restarted = restored, True
        self.batches = {producer: batches[-1:] for producer, batches in self.batches.items()}
        self.high_watermark = self.end

    @invariant()
    def the_last_stable_offset_is_the_models(self):
        undecided = [first for first, marker in self.ended if marker >= self.high_watermark]
        expected = min([*self.open.values(), *undecided], default=None)
        assert self.states.first_unstable_offset() == expected
        assert self.states.ongoing_count == len(self.open)
        oldest = self.states.oldest_ongoing()
        assert (oldest.producer_id if oldest else None) == min(
            self.open, key=self.open.get, default=None
        )


TestProducers = ProducersMachine.TestCase
TestProducers.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
