"""The transaction machine against a small model, with crashes at any point.

The model knows one thing per transactional.id: who the current producer is, whether a transaction is open, and how each
one ended. Whatever clients, timers and crashes do: a zombie never gets through, a decision never changes, markers
follow every decision and nothing else, and replaying the journal gives the same machine.

It knows as well who waits for a decision from outside (KIP-939). Such a transaction is ended by its newest producer or
by an operator who names it. Neither time nor a predecessor ends it.
"""

from dataclasses import replace

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from oncelog.ids import Partition
from oncelog.machine import CancelTimer, Reply, Send, SetTimer
from oncelog_coordinator.core.markers import DeliveryOutcome, MarkersDelivered
from oncelog_coordinator.core.txn import TxnConfig, TxnMachine
from oncelog_coordinator.core.txn_events import (
    AddPartitions,
    CompletePrepared,
    EndTxn,
    ExpireIds,
    ForceTerminate,
    InitProducerId,
    VerifyPartitions,
)
from oncelog_coordinator.core.txn_records import decode_record, encode_record
from oncelog_coordinator.core.txn_state import TWO_PHASE_TIMEOUT_MS, TxnState, TxnTombstone

NAMES = ("pay", "ship")
PARTITIONS = tuple(Partition("orders", number) for number in range(3))
EXPIRATION_MS = 500_000
TIMEOUT_MS = 1_000

names = st.sampled_from(NAMES)
timeouts = st.sampled_from([TIMEOUT_MS, TWO_PHASE_TIMEOUT_MS])
versions = st.sampled_from([0, 2])
added = st.lists(st.sampled_from(PARTITIONS), min_size=1, max_size=3).map(tuple)
whose = st.integers(0, 5)


class TxnShard(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        self.now = 1_000
        self.level = 2
        self.next_producer_id = 100
        self.log = []
        self.machine = self.new_machine()
        self.machine.resume(self.now)
        self.timers = {}
        self.wanted = {}
        self.late = []
        # The model: identities ever told, newest last; partitions of the open transaction; decisions by (pid, epoch).
        self.told = {name: [(1, 0)] for name in NAMES}
        self.open = dict.fromkeys(NAMES)
        # Names whose producer asked for no time-out, and those whose open transaction was kept.
        self.two_phase, self.kept = set(), set()
        # Who was told which identity as the continuation of which.
        self.continued = {}

    def new_machine(self):
        return TxnMachine(TxnConfig(transactional_id_expiration_ms=EXPIRATION_MS))

    # -------------------------------------------------------------------------------- the driver in small

    def decide(self, event):
        if hasattr(event, "cluster_transaction_version"):
            event = replace(event, cluster_transaction_version=self.level)
        if self.machine.wants_producer_id(event):
            event = replace(event, new_producer_id=self.next_producer_id)
            self.next_producer_id += 1
        before = dict(self.machine._txns)
        decision = self.machine.decide(event, self.now)
        assert self.machine._txns == before, "decide must not write"
        if not isinstance(event, EndTxn):
            self.check_fence(before, decision.records, event)
        assert decision.label
        for record in decision.records:
            self.note(record)
            self.log.append(encode_record(record, 1))
            self.machine.apply(len(self.log), record)
        answer = None
        for effect in decision.effects:
            match effect:
                case Reply():
                    answer = effect.answer
                case Send():
                    self.want(effect.message)
                case SetTimer():
                    self.timers[effect.name] = (self.now + effect.after_ms, effect.event)
                case CancelTimer():
                    self.timers.pop(effect.name, None)
        return answer

    def check_fence(self, before, records, event):
        """When the server ends a transaction, its producer is fenced by the same record."""
        for record in records:
            if isinstance(record, TxnTombstone) or not record.state.is_prepared:
                continue
            fenced = before[record.transactional_id].producer_epoch
            if not (isinstance(event, CompletePrepared) and event.commit):
                assert record.state is TxnState.PREPARE_ABORT
            assert record.producer_epoch > fenced or fenced == 32_767

    def told_to_continue(self, name, identity, answer):
        """An identity is told again only to the one it was told to, who lost the answer."""
        following = (answer.producer_id, answer.producer_epoch)
        if following in self.told[name]:
            assert self.continued.get((name, following)) == identity, "a zombie got an identity"
        self.continued[name, following] = identity
        self.told[name].append(following)

    def want(self, message):
        (marker,) = message.markers
        self.wanted[message.decision_key.name] = message
        txn = self.machine.transaction(message.decision_key.name)
        assert txn.state.is_prepared, "markers follow a decision"
        assert marker.commit == (txn.state is TxnState.PREPARE_COMMIT)
        assert (marker.producer_id, marker.producer_epoch) == (txn.producer_id, txn.producer_epoch)
        assert marker.partitions == txn.partitions

    def note(self, record):
        """The model's view of a record: one decision per transaction, on exactly the partitions that were added."""
        name = record.transactional_id
        if isinstance(record, TxnTombstone):
            assert self.open[name] is None, "an open transaction never expires"
            return
        if record.state is TxnState.ONGOING:
            previous = self.open[name] or ()
            assert record.partitions[: len(previous)] == previous
            self.open[name] = record.partitions
        elif record.state.is_prepared:
            assert record.partitions == (self.open[name] or ())
            self.open[name] = None
            self.kept.discard(name)
        else:
            assert self.open[name] is None, "a transaction is left only by a decision"

    def current(self, name):
        txn = self.machine.transaction(name)
        return None if txn is None else txn.owner

    def waits_for_decision(self, name):
        """From outside: nothing else may end it."""
        return self.open[name] is not None and (name in self.two_phase or name in self.kept)

    def started(self, name, timeout_ms):
        """A producer was told who it is."""
        (self.two_phase.add if timeout_ms == TWO_PHASE_TIMEOUT_MS else self.two_phase.discard)(name)

    def identity(self, name, back):
        known = self.told[name]
        return known[max(0, len(known) - 1 - back)]

    # -------------------------------------------------------------------------------- what clients do

    @rule(name=names, timeout_ms=timeouts)
    def a_new_producer_starts(self, name, timeout_ms):
        before = self.machine.transaction(name)
        answer = self.decide(InitProducerId(1, name, timeout_ms))
        if answer.error_code == 0:
            identity = (answer.producer_id, answer.producer_epoch)
            assert identity not in self.told[name], "an identity is given out once"
            self.told[name].append(identity)
            self.started(name, timeout_ms)
            assert self.current(name) == identity
        else:
            assert answer.error_code == 51
            assert before.state not in (
                TxnState.EMPTY,
                TxnState.COMPLETE_COMMIT,
                TxnState.COMPLETE_ABORT,
            )

    @rule(name=names, timeout_ms=timeouts)
    def a_new_producer_keeps_what_is_open(self, name, timeout_ms):
        before = self.machine.transaction(name)
        answer = self.decide(InitProducerId(1, name, timeout_ms, keep_prepared=True))
        if answer.error_code != 0:
            assert answer.error_code == 51
            assert before.state.is_prepared
            return
        identity = (answer.producer_id, answer.producer_epoch)
        assert identity not in self.told[name], "an identity is given out once"
        self.told[name].append(identity)
        self.started(name, timeout_ms)
        assert self.current(name) == identity
        kept = (answer.ongoing_producer_id, answer.ongoing_producer_epoch)
        if self.open[name] is None:
            assert kept == (-1, -1)
            return
        self.kept.add(name)
        after = self.machine.transaction(name)
        assert kept == (before.producer_id, before.producer_epoch), "the identity that is stored"
        assert (after.producer_id, after.producer_epoch) == kept
        assert (after.state, after.partitions) == (TxnState.ONGOING, before.partitions)

    @rule(name=names, back=whose)
    def a_producer_continues_after_an_error(self, name, back):
        identity, current = self.identity(name, back), self.current(name)
        waits, before = self.waits_for_decision(name), self.machine.transaction(name)
        answer = self.decide(InitProducerId(1, name, TIMEOUT_MS, *identity))
        if waits and identity != current:
            assert self.machine.transaction(name) == before, "a predecessor ends nothing"
        if answer.error_code == 0:
            self.started(name, TIMEOUT_MS)
            self.told_to_continue(name, identity, answer)
        else:
            assert answer.error_code in (51, 90)

    @rule(name=names, back=whose, partitions=added, version=versions)
    def partitions_are_added(self, name, back, partitions, version):
        identity, current = self.identity(name, back), self.current(name)
        before = self.machine.transaction(name)
        answer = self.decide(AddPartitions(1, name, *identity, partitions, version))
        if name in self.kept:
            assert answer.error_code in (48, 49, 90), "nothing is added to what is kept"
            assert self.machine.transaction(name) == before
            return
        if before is None:
            assert answer.error_code == 49
        elif before.state.is_prepared:
            assert answer.error_code == 51
        elif identity == current:
            assert answer.error_code == 0
            assert set(partitions) <= set(self.machine.transaction(name).partitions)
        else:
            assert answer.error_code in (49, 90), "a zombie adds nothing"

    @rule(name=names, back=whose, partitions=added)
    def partitions_are_verified(self, name, back, partitions):
        before = self.machine.transaction(name)
        answer = self.decide(VerifyPartitions(1, name, *self.identity(name, back), partitions))
        if answer.error_code == 0:
            assert set(answer.missing) == set(partitions) - set(before.partitions)

    @rule(name=names, back=whose, commit=st.booleans(), version=versions)
    def a_transaction_ends(self, name, back, commit, version):
        identity, current = self.identity(name, back), self.current(name)
        before, was_kept = self.machine.transaction(name), name in self.kept
        answer = self.decide(EndTxn(1, name, *identity, commit, version))
        after = self.machine.transaction(name)
        if was_kept and (identity != current or version < 2):
            assert answer.error_code in (49, 90), "only the newest producer ends what is kept"
        if answer.error_code != 0:
            assert after == before
            return
        wanted_states = (
            (TxnState.PREPARE_COMMIT, TxnState.COMPLETE_COMMIT)
            if commit
            else (TxnState.PREPARE_ABORT, TxnState.COMPLETE_ABORT)
        )
        assert after.state in wanted_states, "NONE means that it ended this way"
        if identity != current:
            assert version == 2
            assert after == before, "an older identity is only told again"
        if version == 2:
            self.told_to_continue(name, identity, answer)

    @rule(name=names, partitions=added, commit=st.booleans(), version=versions)
    def a_whole_transaction_runs(self, name, partitions, commit, version):
        current = self.current(name)
        if current is None or current != self.identity(name, 0) or name in self.kept:
            return
        answer = self.decide(AddPartitions(1, name, *current, partitions, version))
        if answer.error_code == 0:
            ended = self.decide(EndTxn(1, name, *current, commit, version))
            assert ended.error_code == 0
            if version == 2:
                self.told_to_continue(name, current, ended)

    @rule(name=names, partitions=added, owners=st.integers(0, 2), back=whose, commit=st.booleans())
    def a_prepared_transaction_is_left_and_completed(self, name, partitions, owners, back, commit):
        """One whole story, with a predecessor that meddles: single rules seldom meet."""
        self.a_new_producer_starts(name, TWO_PHASE_TIMEOUT_MS)
        if self.open[name] is not None or self.current(name) != self.identity(name, 0):
            return
        self.partitions_are_added(name, 0, partitions, 2)
        for _ in range(owners):
            self.a_new_producer_keeps_what_is_open(name, TIMEOUT_MS)
        self.a_producer_continues_after_an_error(name, back + 1)
        self.a_transaction_ends(name, back + 1, commit, 2)
        if owners and self.open[name] is not None:
            self.a_transaction_ends(name, 0, commit, 2)
            assert self.open[name] is None, "its newest producer ends it"

    @rule(name=names)
    def an_operator_terminates(self, name):
        before = self.machine.transaction(name)
        answer = self.decide(ForceTerminate(1, name))
        if before is not None and before.state is TxnState.ONGOING:
            assert answer.error_code == 0

    @rule(name=names, back=whose, commit=st.booleans())
    def an_operator_completes_what_is_prepared(self, name, back, commit):
        before, waits = self.machine.transaction(name), self.waits_for_decision(name)
        identity = self.identity(name, back)
        if back == 0 and before is not None:
            identity = (before.producer_id, before.producer_epoch)
        answer = self.decide(CompletePrepared(1, name, *identity, commit))
        after = self.machine.transaction(name)
        if not waits or identity != (before.producer_id, before.producer_epoch):
            assert answer.error_code in (48, 105)
            assert after == before
            return
        assert answer.error_code == 0
        assert after.state is (TxnState.PREPARE_COMMIT if commit else TxnState.PREPARE_ABORT)

    # -------------------------------------------------------------------------------- what the world does

    @precondition(lambda self: self.wanted)
    @rule(name=names, outcome=st.sampled_from(DeliveryOutcome))
    def markers_are_delivered(self, name, outcome):
        message = self.wanted.get(name)
        if message is None:
            return
        before = self.machine.transaction(name)
        event = MarkersDelivered(message.decision_key, outcome)
        self.late.append(event)
        self.decide(event)
        if outcome is DeliveryOutcome.DELIVERED:
            del self.wanted[name]
            assert self.machine.transaction(name).state is (
                TxnState.COMPLETE_COMMIT
                if before.state is TxnState.PREPARE_COMMIT
                else TxnState.COMPLETE_ABORT
            )

    @precondition(lambda self: self.late)
    @rule(data=st.data())
    def a_delivery_is_reported_again(self, data):
        event = data.draw(st.sampled_from(self.late))
        waiting = self.wanted.get(event.decision_key.name)
        if waiting is not None and waiting.decision_key == event.decision_key:
            return
        before = dict(self.machine._txns)
        self.decide(event)
        assert self.machine._txns == before

    @rule(span=st.sampled_from([1, 500, 1_000, 1_001, EXPIRATION_MS]))
    def time_passes(self, span):
        end = self.now + span
        while due := sorted((at, name) for name, (at, _) in self.timers.items() if at <= end):
            self.now, name = due[0]
            self.decide(self.timers.pop(name)[1])
        self.now = end

    @rule()
    def ids_expire(self):
        self.decide(ExpireIds())

    @rule(level=st.sampled_from([0, 1, 2]))
    def the_feature_level_changes(self, level):
        self.level = level

    @rule(name=names, near=st.sampled_from([32_764, 32_765, 32_766]))
    def epochs_run_out(self, name, near):
        """As if the producer had gone through many transactions."""
        txn = self.machine.transaction(name)
        if txn is None or txn.state.is_prepared or max(txn.producer_epoch, txn.owner[1]) >= near:
            return
        if txn.is_kept and txn.next_producer_id == txn.producer_id:
            if near >= 32_766:
                return  # Such an owner has a producer id of its own.
            txn = replace(txn, producer_epoch=near - 1, next_producer_epoch=near)
        else:
            txn = replace(txn, producer_epoch=near, last_producer_epoch=-1)
        self.log.append(encode_record(txn, 1))
        self.told[name].append(txn.owner)
        self.crash()

    @rule()
    def crash(self):
        """Answers, timers and deliveries under way are lost; the journal is not."""
        survivor = dict(self.machine._txns)
        overridden = self.log[-1] if self.log else None
        self.machine = self.new_machine()
        for offset, (key, value) in enumerate(self.log):
            self.machine.apply(offset, decode_record(key, value))
        if overridden is not None:
            last = decode_record(*overridden)
            if not isinstance(last, TxnTombstone):
                survivor[last.transactional_id] = last
        assert self.machine._txns == survivor
        self.timers, self.wanted, self.late = {}, {}, []
        for effect in self.machine.resume(self.now):
            match effect:
                case Send():
                    self.want(effect.message)
                case SetTimer():
                    self.timers[effect.name] = (self.now + effect.after_ms, effect.event)

    @rule()
    def crash_after_compaction(self):
        """Only the newest record of each key is left."""
        self.log = list({key: (key, value) for key, value in self.log}.items())
        self.log = [pair for _, pair in self.log]
        self.crash()

    # -------------------------------------------------------------------------------- always

    @invariant()
    def every_decision_is_being_driven(self):
        prepared = {t.transactional_id for t in self.machine.transactions if t.state.is_prepared}
        assert prepared == set(self.wanted)

    @invariant()
    def every_open_transaction_has_a_timer(self):
        ongoing = {
            t.transactional_id
            for t in self.machine.transactions
            if t.state is TxnState.ONGOING and not self.waits_for_decision(t.transactional_id)
        }
        timed = {
            name.removeprefix("timeout ") for name in self.timers if name.startswith("timeout ")
        }
        assert ongoing == timed

    @invariant()
    def the_model_agrees_on_what_is_open(self):
        for name in NAMES:
            txn = self.machine.transaction(name)
            is_open = txn is not None and txn.state is TxnState.ONGOING
            assert is_open == (self.open[name] is not None)

    @invariant()
    def nobody_holds_an_epoch_above_the_stored_one(self):
        for name in NAMES:
            txn = self.machine.transaction(name)
            if txn is not None:
                assert -1 < txn.producer_epoch <= 32_767
                assert all(
                    epoch <= (txn.owner[1] if producer_id == txn.owner[0] else txn.producer_epoch)
                    for producer_id, epoch in self.told[name]
                    if producer_id == txn.producer_id
                )


TestTxnShard = TxnShard.TestCase
TestTxnShard.settings = settings(max_examples=150, stateful_step_count=60, deadline=None)
