"""A shell for SinkMachine without I/O: a journal of bytes, timers on a hand-moved clock, an outbox for markers.

Every record goes through its bytes, so each test is also a round-trip. `restart` replays the journal (any prefix of
it, compacted or not) into a new machine and lets out what `resume` owes.
"""

from dataclasses import replace

from oncelog.ids import Millis, Partition, ProducerEpoch, ProducerId, Sequence, TransactionalId
from oncelog.machine import CancelTimer, Reply, Send, SetTimer
from oncelog_coordinator.core.markers import MARKER_SENDER, DeliveryOutcome, MarkersDelivered
from oncelog_coordinator.core.sink import SinkMachine
from oncelog_coordinator.core.sink_events import (
    AbortAttempt,
    BranchMessage,
    CommitBatch,
    DeleteSink,
    DescribeSink,
    JoinAttempt,
    ListSinks,
    OpenAttempt,
    SealBranch,
)
from oncelog_coordinator.core.sink_limits import DEFAULT_LIMITS
from oncelog_coordinator.core.sink_records import decode_sink_record, encode_sink_record
from oncelog_coordinator.core.txn_events import AddPartitions, VerifyPartitions

SINK = "pay"
QUERY = "query-1"
RUN = "run-1"
MINUTE_MS = 60_000
TIMEOUT_MS = 15 * MINUTE_MS
ROWS = 11
"""The checksum of a task's rows."""


def nonce(number):
    return number.to_bytes(16, "big")


def compacted(log, drop_tombstones=True):
    """Only the newest record of each key, in log order, as a cleaner leaves it."""
    newest = {key: index for index, (key, _) in enumerate(log)}
    return [
        (key, value)
        for index, (key, value) in enumerate(log)
        if newest[key] == index and not (value is None and drop_tombstones)
    ]


class SinkShell:
    def __init__(self, limits=DEFAULT_LIMITS):
        self.limits = limits
        self.log = []
        self.now = Millis(1_000_000)
        self.next_producer_id = 100
        self.request_id = 0
        self.machine = SinkMachine(limits)
        self.timers = {}
        self.outbox = {}
        self.labels = []

    # ---------------------------------------------------------------------------------- driving the machine

    def submit(self, event, records_kept=None):
        """Decide, append, apply, let effects out; the answer, if there is one.

        `records_kept`: the process dies after this many of the decision's records are durable; nothing else happens.
        """
        decision = self.machine.decide(event, self.now)
        self.labels.append(decision.label)
        assert decision.label
        pairs = [encode_sink_record(record) for record in decision.records]
        for record, pair in zip(decision.records, pairs, strict=True):
            assert decode_sink_record(*pair) == record
        if records_kept is not None:
            self.log += pairs[:records_kept]
            return None
        for record in decision.records:
            self.machine.apply(len(self.log), record)
            self.log.append(encode_sink_record(record))
        return self.release(decision.effects)

    def release(self, effects):
        answer = None
        for effect in effects:
            match effect:
                case Reply():
                    assert answer is None, "one answer an event"
                    answer = effect.answer
                case Send():
                    assert effect.destination == MARKER_SENDER
                    self.outbox[effect.message.decision_key] = effect.message
                case SetTimer():
                    self.timers[effect.name] = (self.now + effect.after_ms, effect.event)
                case CancelTimer():
                    self.timers.pop(effect.name, None)
        return answer

    def restart(self, log=None):
        """A new machine from the journal (or from what `log` says is left of it)."""
        self.log = list(self.log if log is None else log)
        self.machine = replayed(self.log, self.limits)
        self.timers = {}
        self.outbox = {}
        self.release(self.machine.resume(self.now))

    def advance(self, after_ms):
        end = self.now + after_ms
        while due := sorted((at, name) for name, (at, _) in self.timers.items() if at <= end):
            at, name = due[0]
            self.now = Millis(max(self.now, at))
            self.submit(self.timers.pop(name)[1])
        self.now = Millis(end)

    def deliver(self, outcome=DeliveryOutcome.DELIVERED, dropped=()):
        """The marker sender is done with everything it was asked; what it was asked."""
        wanted = list(self.outbox.values())
        self.outbox = {}
        for message in wanted:
            self.submit(MarkersDelivered(message.decision_key, outcome, dropped))
        return wanted

    # ------------------------------------------------------------------------------------------------ calls

    def next_request_id(self):
        self.request_id += 1
        return self.request_id

    def open(self, number, sink=SINK, timeout_ms=0, **options):
        return self.submit(
            OpenAttempt(self.next_request_id(), sink, nonce(number), timeout_ms), **options
        )

    def join_event(self, number, batch_id, task_partition=0, task_attempt_id=None, **changes):
        event = JoinAttempt(
            request_id=self.next_request_id(),
            sink=SINK,
            nonce=nonce(number),
            query_id=QUERY,
            run_id=RUN,
            batch_id=batch_id,
            task_partition=task_partition,
            task_attempt_id=task_partition if task_attempt_id is None else task_attempt_id,
        )
        event = replace(event, **changes)
        if self.machine.wants_producer_id(event):
            event = replace(event, producer_id=ProducerId(self.next_producer_id))
            self.next_producer_id += 1
        return event

    def join(self, number, batch_id, task_partition=0, task_attempt_id=None, **changes):
        return self.submit(
            self.join_event(number, batch_id, task_partition, task_attempt_id, **changes)
        )

    def add(self, producer_id, *names, producer_epoch=0, verify_only=False):
        return self.submit(
            (VerifyPartitions if verify_only else AddPartitions)(
                self.next_request_id(),
                TransactionalId(""),
                ProducerId(producer_id),
                ProducerEpoch(producer_epoch),
                tuple(partition(name) for name in names),
            )
        )

    def seal(
        self,
        number,
        producer_id,
        row_count=10,
        crc32c=7,
        names=(),
        sink=SINK,
        epoch_sealed=0,
        row_checksum=ROWS,
    ):
        return self.submit(
            SealBranch(
                self.next_request_id(),
                sink,
                nonce(number),
                ProducerId(producer_id),
                ProducerEpoch(epoch_sealed),
                tuple((partition(name), Sequence(9)) for name in names),
                row_count,
                crc32c,
                row_checksum,
            )
        )

    def commit_event(self, batch_id, *messages, sink=SINK):
        return CommitBatch(self.next_request_id(), sink, batch_id, messages)

    def commit(self, batch_id, *messages, sink=SINK):
        return self.submit(self.commit_event(batch_id, *messages, sink=sink))

    def abort(self, *numbers, sink=SINK):
        nonces = tuple(nonce(number) for number in numbers)
        return self.submit(AbortAttempt(self.next_request_id(), sink, nonces))

    def describe(self, sink=SINK):
        return self.submit(DescribeSink(self.next_request_id(), sink))

    def sinks(self):
        return self.submit(ListSinks(self.next_request_id())).sinks

    def delete(self, sink=SINK):
        return self.submit(DeleteSink(self.next_request_id(), sink))

    def task(
        self,
        number,
        batch_id,
        task_partition=0,
        task_attempt_id=None,
        names=("orders-0",),
        sink=SINK,
        **changes,
    ):
        """A task that joins, writes and seals; the message it returns to the driver."""
        joined = self.join(number, batch_id, task_partition, task_attempt_id, sink=sink, **changes)
        assert joined.producer_id >= 0, joined
        self.add(joined.producer_id, *names)
        self.seal(number, joined.producer_id, names=names, sink=sink)
        return message(number, joined.producer_id, task_partition)

    def committed(self, number, batch_id, tasks=2, sink=SINK):
        """A whole micro-batch, committed; its messages."""
        self.open(number, sink)
        messages = [self.task(number, batch_id, index, sink=sink) for index in range(tasks)]
        answer = self.commit(batch_id, *messages, sink=sink)
        assert answer.answer == 0, answer
        return messages


def replayed(log, limits=DEFAULT_LIMITS):
    machine = SinkMachine(limits)
    for offset, (key, value) in enumerate(log):
        record = decode_sink_record(key, value)
        if record is not None:
            machine.apply(offset, record)
    return machine


def partition(name):
    topic, _, number = name.rpartition("-")
    return Partition(topic, int(number))


def message(number, producer_id, task_partition=0, query_id=QUERY):
    return BranchMessage(
        nonce=nonce(number),
        query_id=query_id,
        skipped=False,
        task_partition=task_partition,
        producer_id=ProducerId(producer_id),
        producer_epoch=ProducerEpoch(0),
        row_count=10,
    )


def opened(number=1):
    """A shell whose sink has this attempt open."""
    shell = SinkShell()
    shell.open(number)
    return shell


def skip(number, query_id=QUERY, row_count=10, row_checksum=ROWS):
    """A skipped task that would have written what a task of the shell writes."""
    return BranchMessage(
        nonce=nonce(number),
        query_id=query_id,
        skipped=True,
        row_count=row_count,
        row_checksum=row_checksum,
    )


def snapshot(machine):
    """All that a machine knows, comparable, whatever order it learnt it in."""
    sinks = machine._map.sinks
    return {
        name: (
            sinks[name].header,
            sinks[name].complete,
            {
                attempt.nonce: (
                    attempt.opened,
                    attempt.decide,
                    dict(sorted(attempt.branches.items())),
                )
                for attempt in sinks[name].sorted_attempts()
            },
        )
        for name in sorted(sinks)
    }, dict(sorted(machine._map.attempt_of_producer.items()))
