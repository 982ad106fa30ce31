"""A compacted log against a model that remembers everything: whatever is written, cleaned and restarted."""

import shutil
import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.integration.storage.cleaned_log import clean, last_words, view
from tests.integration.storage.partition_log_at import append, mark, new_log, opened
from tests.integration.storage.storage_node import NOW

from oncelog.record.batch import Codec
from oncelog.record.records import Record, encode_batch

RETENTION_MS = 1000
keys = st.sampled_from([b"a", b"b", b"c", b"k" * 40])
values = st.none() | st.binary(max_size=30)
contents = st.lists(st.tuples(keys, values), min_size=1, max_size=5)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(-1, 3), contents, st.sampled_from(list(Codec))),
        st.tuples(st.just("mark"), st.integers(2, 3), st.booleans(), st.booleans()),
        st.tuples(st.just("roll")),
        st.tuples(
            st.just("clean"), st.sampled_from([0, 600, 2000]), st.sampled_from([64, 1 << 20])
        ),
        st.tuples(st.just("restart"), st.booleans()),
    ),
    max_size=40,
)


class CleanedLog:
    """Producers 0 and 1 are idempotent, 2 and 3 transactional, -1 is neither."""

    def __init__(self, directory):
        self.directory = directory
        self.log = new_log(directory, is_compacted=True, is_deleted=False)
        self.now = NOW
        self.cleaned_to = 0
        self.epochs = dict.fromkeys(range(4), 0)
        self.sequences = dict.fromkeys(range(4), 0)
        self.open = {}
        self.written = []
        """(offset, timestamp, key, value) of every record; aborted ones are taken out when their marker comes."""
        self.tombstones_gone_from = {}

    def append(self, producer_id, content, codec):
        self.now += 1
        records = [Record(key, value, self.now + i) for i, (key, value) in enumerate(content)]
        fields = {}
        if producer_id >= 0:
            fields = {
                "producer_id": producer_id,
                "producer_epoch": self.epochs[producer_id],
                "base_sequence": self.sequences[producer_id],
                "is_transactional": producer_id >= 2,
            }
            self.sequences[producer_id] += len(content)
        base = append(self.log, bytes(encode_batch(records, codec=codec, **fields)), now=self.now)
        rows = [(base + i, r.timestamp, r.key, r.value) for i, r in enumerate(records)]
        if producer_id >= 2:
            self.open.setdefault(producer_id, []).extend(rows)
        else:
            self.written += rows

    def mark(self, producer_id, is_commit, bumps):
        self.now += 1
        if bumps:
            self.epochs[producer_id] += 1
            self.sequences[producer_id] = 0
        mark(self.log, (producer_id, self.epochs[producer_id], is_commit), now=self.now)
        rows = self.open.pop(producer_id, [])
        if is_commit:
            self.written = sorted(self.written + rows)

    def roll(self):
        if self.log.segments and self.log.segments[-1].size_bytes:
            self.log.roll(self.now)

    def clean(self, later_ms, map_bytes):
        self.now += later_ms
        if self.log.segments:
            before = last_words(self.log)
            self.cleaned_to = clean(
                self.log,
                self.cleaned_to,
                self.now,
                map_bytes=map_bytes,
                retention_ms=RETENTION_MS,
            )
            assert last_words(self.log) == before

    def restart(self, with_snapshots):
        """With the producer snapshots, or with nothing but the log."""
        if not self.log.exists_on_disk:
            return
        if not with_snapshots:
            for path in self.directory.glob("*.snapshot"):
                path.unlink()
        before, end = last_words(self.log), self.log.log_end_offset
        recovery_point = self.log.recovery_point
        self.log.close()
        self.log = opened(self.directory, recovery_point, is_compacted=True, is_deleted=False)
        assert self.log.log_end_offset == end
        assert last_words(self.log) == before

    def check(self):
        seen = view(self.log)
        unstable = self.log.producers.first_unstable_offset()
        upper = self.log.log_end_offset if unstable is None else unstable
        expected = [row for row in self.written if row[0] < upper]
        assert set(seen) <= set(expected), "nothing appears that was not committed"
        assert seen == sorted(seen)
        assert [r for r in seen if r[0] >= self.cleaned_to] == [
            r for r in expected if r[0] >= self.cleaned_to
        ], "what was not cleaned is as it was"
        latest_seen = {row[2]: row for row in seen}
        for key, row in {row[2]: row for row in expected}.items():
            if row[3] is None and key not in latest_seen:
                assert row[1] + RETENTION_MS <= self.now, "a tombstone goes after its time only"
            else:
                assert latest_seen.get(key) == row, "the last committed value of a key stays"
        every_offset = {row[0] for row in view(self.log, committed=False)}
        assert every_offset >= {row[0] for row in seen}
        for offset in range(self.log.log_start_offset, self.log.log_end_offset, 3):
            assert view(self.log, offset=offset) == [row for row in seen if row[0] >= offset]


@settings(deadline=None, max_examples=150)
@given(steps)
def test_cleaning_keeps_what_readers_and_producers_need(actions):
    folder = Path(tempfile.mkdtemp())
    try:
        log = CleanedLog(folder / "orders-0")
        for name, *arguments in actions:
            getattr(log, name)(*arguments)
            if name in ("clean", "restart"):
                log.check()
        log.roll()
        log.clean(2000, 1 << 20)
        log.check()
        log.restart(with_snapshots=False)
        log.check()
    finally:
        shutil.rmtree(folder)
