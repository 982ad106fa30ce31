"""A group machine with a driver's duties done by hand: records are kept, timers fire when time is moved, answers are
collected. Every record goes through its bytes before it is replayed."""

from itertools import count

from oncelog.ids import Partition
from oncelog.machine import CancelTimer, Reply, SetTimer
from oncelog_coordinator.core.group_events import (
    CommitOffsets,
    CommitTxnOffsets,
    EndTransaction,
    FetchOffsets,
    GroupConfig,
    Heartbeat,
    JoinGroup,
    LeaveGroup,
    Leaving,
    OffsetToCommit,
    SyncGroup,
)
from oncelog_coordinator.core.group_machine import GroupMachine
from oncelog_coordinator.core.group_records import (
    TransactionEnded,
    decode_group_record,
    encode_group_record,
)

ORDERS = Partition("orders", 0)
SESSION_MS = 10_000
REBALANCE_MS = 30_000
RANGE = (("range", b"\0\0\0\0\0\1\0\6orders"),)


class GroupWorld:
    def __init__(self, **config):
        self.config = GroupConfig(**({"initial_rebalance_delay_ms": 0} | config))
        self.shapes = {}
        self.machine = self.new_machine()
        self.now = 1_000_000
        self.log = []
        self.timers = {}
        self.answers = {}
        self.labels = []
        self.ids = count(1)

    def new_machine(self):
        return GroupMachine(self.config, topics=lambda: self.shapes)

    def submit(self, event):
        decision = self.machine.decide(event, self.now)
        self.labels.append(decision.label)
        for record in decision.records:
            self.machine.apply(len(self.log), record)
            self.log.append(record)
        for change in decision.unlogged:
            self.machine.apply(-1, change)
        for effect in decision.effects:
            self._release(effect)
        return decision

    def _release(self, effect):
        match effect:
            case Reply():
                assert effect.request_id not in self.answers, "answered twice"
                self.answers[effect.request_id] = effect.answer
            case SetTimer():
                self.timers[effect.name] = (self.now + effect.after_ms, effect.event)
            case CancelTimer():
                self.timers.pop(effect.name, None)

    def ask(self, make, *args, **fields):
        """The request id of this event; `answers` has its answer, perhaps later."""
        request_id = next(self.ids)
        self.submit(make(request_id, *args, **fields))
        return request_id

    def answer(self, make, *args, **fields):
        return self.answers[self.ask(make, *args, **fields)]

    def advance(self, span_ms):
        """Let time pass; timers fire in order."""
        until = self.now + span_ms
        while self.timers:
            name, (due, event) = min(self.timers.items(), key=lambda item: item[1][0])
            if due > until:
                break
            del self.timers[name]
            self.now = max(self.now, due)
            self.submit(event)
        self.now = until

    def set_clock_back(self, span_ms):
        self.step_clock(-span_ms)

    def step_clock(self, span_ms):
        """The wall clock shows more or less; timers run on."""
        self.now += span_ms
        self.timers = {name: (due + span_ms, event) for name, (due, event) in self.timers.items()}

    def replayed(self, log=None):
        """A machine that knows what the log says and nothing else. `log` holds (offset, record)."""
        machine = self.new_machine()
        for offset, record in enumerate(self.log) if log is None else log:
            if isinstance(record, TransactionEnded):
                machine.apply(offset, record)
                continue
            key, value = encode_group_record(record)
            producer = (getattr(record, "producer_id", -1), getattr(record, "producer_epoch", -1))
            machine.apply(offset, decode_group_record(key, value, *producer))
        return machine

    def compacted(self):
        """A machine that knows the newest record of each key."""
        newest = {encode_group_record(one)[0]: (at, one) for at, one in enumerate(self.log)}
        return self.replayed(sorted(newest.values(), key=lambda pair: pair[0]))

    def crash(self):
        """The next coordinator: replay, then `resume`. The requests that waited are gone."""
        self.machine = self.replayed()
        self.timers = {}
        for effect in self.machine.resume(self.now):
            self._release(effect)

    # What clients ask.

    def join(self, member_id="", group_id="g", instance_id=None, protocols=RANGE, **fields):
        fields = {
            "client_id": "c",
            "client_host": "/h",
            "session_timeout_ms": SESSION_MS,
            "rebalance_timeout_ms": REBALANCE_MS,
            "protocol_type": "consumer",
            "new_member_id": f"{instance_id or 'm'}-{next(self.ids)}",
        } | fields
        return self.ask(
            JoinGroup,
            group_id=group_id,
            member_id=member_id,
            instance_id=instance_id,
            protocols=protocols,
            **fields,
        )

    def sync(self, joined, assignments=(), **fields):
        fields = {"generation": joined.generation, "member_id": joined.member_id} | fields
        return self.ask(SyncGroup, "g", assignments=tuple(dict(assignments).items()), **fields)

    def heartbeat(self, member_id, generation, **fields):
        return self.answer(Heartbeat, "g", generation, member_id, **fields).error_code

    def leave(self, *member_ids):
        answer = self.answer(LeaveGroup, "g", tuple(Leaving(each) for each in member_ids))
        return [code for _, code in answer.members]

    def commit(self, offset, generation=-1, member_id="", instance_id=None, metadata=""):
        offsets = (OffsetToCommit(ORDERS, offset, -1, metadata),)
        answer = self.answer(CommitOffsets, "g", generation, member_id, instance_id, offsets)
        return answer.error_code or answer.partitions[0][1]

    def commit_in_transaction(
        self,
        offset,
        producer=(7, 0),
        generation=-1,
        member_id="",
        verified_at=None,
        start_ms=0,
        version=0,
    ):
        if verified_at is None:
            _, _, verified_at = self.machine.verification(*producer)
        offsets = (OffsetToCommit(ORDERS, offset),)
        whose = (*producer, verified_at, start_ms, version >= 2)
        answer = self.answer(CommitTxnOffsets, "g", generation, member_id, None, offsets, *whose)
        return answer.error_code or answer.partitions[0][1]

    def end(
        self,
        producer=(7, 0),
        *,
        commit=True,
        coordinator_epoch=0,
        version=0,
        start_ms=0,
        transactional_id="",
        running_start_ms=None,
        known_when_requested=None,
        seen=None,
    ):
        marker = (*producer, commit, coordinator_epoch, version, start_ms)
        marker = (*marker, transactional_id, running_start_ms, known_when_requested, seen)
        return self.answer(EndTransaction, *marker).error_code

    def fetch(self, *, require_stable=False):
        answer = self.answer(FetchOffsets, "g", (ORDERS,), require_stable)
        (found,) = answer.offsets
        return found.error_code or found.offset

    # Short cuts.

    @property
    def group(self):
        return self.machine.group("g")

    def joined(self, **fields):
        """A group of one that has just joined; its answer."""
        request_id = self.join(**fields)
        self.advance(0)
        return self.answers[request_id]

    def stable(self, **fields):
        """A stable group of one; the answer to its join."""
        joined = self.joined(**fields)
        synced = self.sync(joined, {joined.member_id: b"all"})
        assert self.answers[synced].error_code == 0
        return joined
