"""A TV1 request that may be older than a received one changes nothing, until its client comes again (ADR 0018)."""

import pytest
from tests.unit.coordinator.txn_rows import (
    COMPLETE_ABORT,
    COMPLETE_COMMIT,
    EMPTY,
    NEW_PID,
    NOW,
    ONGOING,
    ORDERS_0,
    ORDERS_1,
    PID,
    PREPARE_COMMIT,
    Step,
    machine_with,
    stored,
)

from oncelog.api.v1 import coordinator_pb2, types_pb2
from oncelog_coordinator.core.markers import DeliveryOutcome, MarkersDelivered
from oncelog_coordinator.core.request_origin import RequestOrigin, is_delayed
from oncelog_coordinator.core.txn_events import AddPartitions, EndTxn, InitProducerId, TxnTimedOut
from oncelog_coordinator.request_origins import origins_of, request_number

OLD, NEW, ELSEWHERE = RequestOrigin(5, 1), RequestOrigin(5, 2), RequestOrigin(6, 1)


def end(machine, origin, *, commit=True, refused_origin=None, refused_addition_origin=None):
    event = EndTxn(
        1,
        "pay",
        PID,
        5,
        commit,
        origin=origin,
        refused_origin=refused_origin,
        refused_addition_origin=refused_addition_origin,
    )
    return Step(machine, event)


def add(machine, origin, partition=ORDERS_0, *, refused_origin=None):
    return Step(machine, AddPartitions(1, "pay", PID, 5, (partition,), 0, origin, refused_origin))


def complete(machine, step):
    for wanted in step.markers:
        Step(machine, MarkersDelivered(wanted.decision_key, DeliveryOutcome.DELIVERED))


@pytest.mark.parametrize(
    ("known", "received", "delayed"),
    [
        (NEW, OLD, True),
        (NEW, NEW, False),
        (OLD, NEW, True),
        (ELSEWHERE, OLD, True),
        (None, OLD, False),
        (NEW, None, False),
        (RequestOrigin(5, 2, 9), RequestOrigin(5, 2, 8), True),
        (RequestOrigin(5, 2, 9), RequestOrigin(5, 2, 9), False),
        (RequestOrigin(5, 2, 9), RequestOrigin(5, 2, 10), False),
        (RequestOrigin(5, 2, 9), RequestOrigin(5, 1, 10), True),
        (RequestOrigin(5, 2, 9), RequestOrigin(5, 3, 1), True),
        (RequestOrigin(5, 2, 9), RequestOrigin(6, 2, 9), True),
        (RequestOrigin(5, 2, 9), RequestOrigin(5, 2), False),
    ],
)
def test_an_older_request_and_a_first_elsewhere_are_delayed(known, received, delayed):
    assert is_delayed(known, received) is delayed


@pytest.mark.parametrize(
    ("known", "received", "refused_origin", "delayed"),
    [
        (NEW, OLD, NEW, False),
        (NEW, ELSEWHERE, NEW, False),
        (NEW, ELSEWHERE, OLD, True),
        (RequestOrigin(5, 2, 9), ELSEWHERE, RequestOrigin(5, 2, 9), False),
        (RequestOrigin(5, 2, 9), ELSEWHERE, RequestOrigin(5, 2, 8), True),
        (RequestOrigin(5, 2, 9), RequestOrigin(5, 2, 8), RequestOrigin(5, 2, 9), True),
    ],
)
def test_a_client_that_comes_again_is_let_through(known, received, refused_origin, delayed):
    assert is_delayed(known, received, refused_origin) is delayed


@pytest.mark.parametrize("commit", [True, False])
def test_a_delayed_end_does_not_end_the_next_transaction(commit):
    machine = machine_with(stored(ONGOING, origin=NEW))
    refused = end(machine, OLD, commit=commit)
    assert (refused.code, refused.records, refused.label) == (51, (), "delayed_end_refused")
    assert refused.answer.delayed_by == NEW
    assert end(machine, NEW, commit=commit).code == 0


@pytest.mark.parametrize("commit", [True, False])
def test_a_delayed_end_of_another_listener_ends_nothing(commit):
    """What chaos met: the client gave up on a listener that was cut off, and went on through the other one."""
    machine = machine_with(stored(EMPTY))
    assert add(machine, RequestOrigin(5, 7, 4)).code == 0
    delayed = RequestOrigin(5, 7, 5)
    refused_origin = end(machine, RequestOrigin(6, 3, 1)).answer.delayed_by
    ended = end(machine, RequestOrigin(6, 3, 2), refused_origin=refused_origin)
    complete(machine, ended)
    assert add(machine, RequestOrigin(6, 3, 3)).code == 0
    late = end(machine, delayed, commit=commit)
    assert (late.code, late.records, late.label) == (51, (), "delayed_end_refused")
    insisting = end(machine, delayed, commit=commit, refused_origin=refused_origin)
    assert (insisting.code, insisting.records) == (51, ()), "that was long ago"
    assert end(machine, RequestOrigin(6, 3, 4)).code == 0


def test_a_delayed_addition_starts_no_transaction():
    machine = machine_with(stored(COMPLETE_COMMIT, origin=NEW))
    refused = add(machine, OLD)
    assert (refused.code, refused.records, refused.label) == (51, (), "delayed_add_refused")


@pytest.mark.parametrize("other", [OLD, ELSEWHERE, RequestOrigin(5, 3)])
def test_a_client_that_has_come_again_goes_on_on_that_connection(other):
    machine = machine_with(stored(ONGOING, origin=NEW))
    assert add(machine, other, ORDERS_1).answer.delayed_by == NEW
    (added,) = add(machine, other, ORDERS_1, refused_origin=NEW).records
    (prepared,) = end(machine, other).records
    assert (added.origin, prepared.origin) == (other, other)


@pytest.mark.parametrize("state", [COMPLETE_COMMIT, COMPLETE_ABORT])
def test_a_repetition_on_another_connection_goes_on_there(state):
    """A client that got a response has gone on, also when there was nothing to change."""
    present = machine_with(stored(ONGOING, origin=NEW))
    assert add(present, OLD).answer.delayed_by == NEW
    (kept,) = add(present, OLD, refused_origin=NEW).records
    assert (kept.partitions, kept.origin) == (stored(ONGOING).partitions, OLD)
    assert add(present, NEW).answer.delayed_by == OLD
    ended = machine_with(stored(state, origin=NEW))
    commit = state is COMPLETE_COMMIT
    assert end(ended, OLD, commit=commit).answer.delayed_by == NEW
    (kept,) = end(ended, OLD, commit=commit, refused_origin=NEW).records
    assert (kept.state, kept.origin) == (state, OLD)
    assert add(ended, NEW).answer.delayed_by == OLD


def test_what_is_being_decided_is_told_on_any_connection():
    assert end(machine_with(stored(PREPARE_COMMIT, origin=NEW)), OLD).label == "repeat_answered"


def test_a_repetition_on_its_own_connection_is_answered_at_once():
    present = machine_with(stored(ONGOING, origin=RequestOrigin(5, 2, 8)))
    assert (
        add(present, RequestOrigin(5, 2, 8)).records,
        add(present, RequestOrigin(5, 2, 8)).code,
    ) == ((), 0)
    (kept,) = add(present, RequestOrigin(5, 2, 9)).records
    assert kept.origin == RequestOrigin(5, 2, 9)
    assert end(machine_with(stored(COMPLETE_COMMIT, origin=NEW)), NEW).code == 0


@pytest.mark.parametrize("origin", [OLD, NEW, ELSEWHERE])
def test_an_epochs_first_addition_may_come_on_any_connection(origin):
    """aiokafka asks for its epoch on another connection than for everything else."""
    assert add(machine_with(stored(EMPTY, origin=NEW)), origin).code == 0


def init(machine, origin):
    return Step(machine, InitProducerId(1, "pay", 60_000, origin=origin, new_producer_id=NEW_PID))


def test_a_copy_of_an_initialisation_fences_nobody():
    """The listener asked again, and the producer lives by the second answer when the first copy arrives."""
    machine = machine_with(stored(COMPLETE_COMMIT))
    first = init(machine, RequestOrigin(5, 1, 3))
    assert (first.code, first.records[0].origin) == (0, RequestOrigin(5, 1, 3))
    again = init(machine, RequestOrigin(5, 1, 3))
    assert (again.code, again.records, again.label) == (0, (), "init_copy_answered")
    assert again.identity == first.identity
    pid, epoch = first.identity
    partition = (ORDERS_0,)
    added = Step(machine, AddPartitions(1, "pay", pid, epoch, partition, 0, RequestOrigin(5, 1, 4)))
    assert added.code == 0
    for origin in (RequestOrigin(5, 1, 3), RequestOrigin(5, 1, 4)):
        late = init(machine, origin)
        assert (late.code, late.records, late.label) == (51, (), "delayed_init_refused")
    assert (
        Step(machine, EndTxn(1, "pay", pid, epoch, True, origin=RequestOrigin(5, 1, 5))).code == 0
    )


@pytest.mark.parametrize("commit", [True, False])
def test_nor_when_the_producer_has_ended_a_transaction_under_tv2(commit):
    """Its epoch is a new one then, but it still lives by the answer to the second copy."""
    machine = machine_with(stored(COMPLETE_COMMIT))
    pid, epoch = init(machine, RequestOrigin(5, 1, 3)).identity
    assert Step(machine, AddPartitions(1, "pay", pid, epoch, (ORDERS_0,), 2)).code == 0
    ended = Step(machine, EndTxn(1, "pay", pid, epoch, commit, 2, origin=RequestOrigin(5, 1, 6)))
    assert (ended.code, ended.identity) == (0, (pid, epoch + 1))
    for _ in range(2):
        late = init(machine, RequestOrigin(5, 1, 3))
        assert (late.code, late.records, late.label) == (51, (), "delayed_init_refused")
        complete(machine, ended)
    assert Step(machine, AddPartitions(1, "pay", pid, epoch + 1, (ORDERS_0,), 2)).code == 0
    assert init(machine, RequestOrigin(5, 1, 3)).label == "delayed_init_refused"


@pytest.mark.parametrize(
    "origin", [None, RequestOrigin(5, 1, 9), RequestOrigin(5, 3, 1), RequestOrigin(6, 2, 1), OLD]
)
def test_another_initialisation_fences_whatever_its_connection(origin):
    """Two programs with one transactional.id: the last one that starts wins, on an older connection, too."""
    machine = machine_with(stored(EMPTY, origin=RequestOrigin(5, 2, 8)))
    assert (init(machine, origin).label, init(machine, RequestOrigin(5, 2, 9)).label) == (
        "initialised",
        "initialised",
    )


def test_a_new_epoch_begins_with_the_origin_of_its_request():
    initialised = Step(machine_with(stored(EMPTY, origin=NEW)), InitProducerId(1, "pay", 60_000))
    assert initialised.records[0].origin is None
    fenced = Step(
        machine_with(stored(ONGOING, origin=NEW)), TxnTimedOut("pay", 1, NEW_PID), now=NOW + 90_000
    )
    assert fenced.records[0].origin is None


def request(listener, connection, number, refused_origin=None):
    return coordinator_pb2.EndTxnRequest(
        origin=types_pb2.RequestOrigin(
            listener=listener,
            connection=connection,
            request=number,
            delayed_by=request_number(refused_origin),
        )
    )


def test_a_listener_says_which_request_of_its_client_it_refused():
    assert origins_of(request(5, 1, 7), is_enabled=True) == (RequestOrigin(5, 1, 7), None, None)
    refused_origin = RequestOrigin(6, 2, 9)
    assert origins_of(request(5, 1, 8, refused_origin), is_enabled=True) == (
        RequestOrigin(5, 1, 8),
        refused_origin,
        None,
    )


def test_origins_are_ignored_when_the_check_is_off():
    assert origins_of(request(5, 1, 7, RequestOrigin(6, 2, 9)), is_enabled=False) == (
        None,
        None,
        None,
    )
    assert origins_of(coordinator_pb2.EndTxnRequest(), is_enabled=True) == (None, None, None)


@pytest.mark.parametrize("refused_origin", [None, RequestOrigin(5, 1, 5)])
def test_a_copy_of_an_earlier_request_decides_nothing(refused_origin):
    """The listener asked again when its connection to the coordinator broke, and the first copy was only late."""
    machine = machine_with(stored(EMPTY))
    for number in (3, 5):
        assert add(machine, RequestOrigin(5, 1, number)).code == 0
        if number == 3:
            complete(machine, end(machine, RequestOrigin(5, 1, 4)))
    late_end = end(machine, RequestOrigin(5, 1, 4), commit=False, refused_origin=refused_origin)
    assert (late_end.code, late_end.records, late_end.label) == (51, (), "delayed_end_refused")
    late_add = add(machine, RequestOrigin(5, 1, 3), ORDERS_1, refused_origin=refused_origin)
    assert (late_add.code, late_add.records, late_add.label) == (51, (), "delayed_add_refused")
    assert end(machine, RequestOrigin(5, 1, 6)).code == 0


# Several requests that a client has left behind on a connection change nothing when it has gone on (ADR 0018).
# librdkafka sends an EndTxn(abort) behind an addition that is not answered yet, so both can be left behind together.


class Client:
    """Reads its refusals and comes again on the same connection, and its listener says so."""

    def __init__(self, machine, listener, connection):
        self.machine, self.where, self.number = machine, (listener, connection), 0

    def origin(self):
        self.number += 1
        return RequestOrigin(*self.where, self.number)

    def ask(self, request, *arguments, **fields):
        refused_origin = None
        for _ in range(3):
            step = request(
                self.machine, self.origin(), *arguments, **fields, refused_origin=refused_origin
            )
            if step.code != 51 or step.answer.delayed_by is None:
                return step
            refused_origin = step.answer.delayed_by
        raise AssertionError("refused for ever")


def test_an_abort_left_behind_tears_no_later_transaction():
    machine = machine_with(stored(EMPTY))
    old, new = Client(machine, 5, 7), Client(machine, 6, 3)
    old.ask(add)
    complete(machine, old.ask(end, commit=False))
    late_add, late_abort = old.origin(), old.origin()
    # The second transaction: neither request arrives. EndTxn is sent again through the other listener, and answered.
    assert new.ask(end, commit=False).code == 0
    # The third one begins, and what was left behind arrives.
    assert add(machine, late_add).records == ()
    assert new.ask(add, ORDERS_0).code == 0
    assert end(machine, late_abort, commit=False).records == ()
    assert new.ask(add, ORDERS_1).code == 0
    committed = new.ask(end)
    assert committed.code == 0
    assert committed.records[0].partitions == (ORDERS_0, ORDERS_1)


def test_an_early_abort_left_behind_tears_none_either():
    machine = machine_with(stored(COMPLETE_ABORT, origin=RequestOrigin(5, 7, 2)))
    new = Client(machine, 6, 3)
    refused_origin = end(machine, new.origin(), commit=False).answer.delayed_by
    assert add(machine, RequestOrigin(5, 7, 3)).code == 0
    refused_origin = end(
        machine, new.origin(), commit=False, refused_origin=refused_origin
    ).answer.delayed_by
    complete(machine, end(machine, new.origin(), commit=False, refused_origin=refused_origin))
    assert new.ask(add, ORDERS_1).code == 0
    assert end(machine, RequestOrigin(5, 7, 4), commit=False).records == ()
    assert new.ask(end).code == 0


@pytest.mark.parametrize("state", [COMPLETE_COMMIT, COMPLETE_ABORT])
def test_an_abort_after_a_refused_addition_is_done(state):
    machine = machine_with(stored(state, origin=RequestOrigin(5, 7, 2)))
    known = RequestOrigin(5, 7, 2)
    assert add(machine, RequestOrigin(6, 3, 1)).answer.delayed_by == known
    refused = end(machine, RequestOrigin(6, 3, 2), commit=False, refused_addition_origin=known)
    assert refused.answer.delayed_by == known
    aborted = end(
        machine,
        RequestOrigin(6, 3, 3),
        commit=False,
        refused_origin=known,
        refused_addition_origin=known,
    )
    assert (aborted.code, aborted.label) == (0, "abort_without_addition")
    # Written down, so that a coordinator that was succeeded and does not know it does not say so.
    (kept,) = aborted.records
    assert (kept.state, kept.origin) == (state, RequestOrigin(6, 3, 3))
    # And nothing that was left behind begins a transaction from now on.
    for late, refused_origin in ((RequestOrigin(5, 7, 3), None), (RequestOrigin(6, 3, 2), known)):
        assert add(machine, late, refused_origin=refused_origin).records == ()


def test_an_abort_behind_an_early_addition_is_done():
    """librdkafka sends it while the addition is under way; INVALID_TXN_STATE would be fatal for the producer."""
    known = RequestOrigin(5, 7, 2)
    machine = machine_with(stored(PREPARE_COMMIT, origin=known))
    refused = add(machine, RequestOrigin(5, 7, 3)).answer
    assert (refused.error_code, refused.delayed_by) == (51, known)
    early = end(machine, RequestOrigin(5, 7, 4), commit=False, refused_addition_origin=known)
    assert (early.code, early.records) == (51, ())
    machine = machine_with(stored(COMPLETE_COMMIT, origin=known))
    aborted = end(machine, RequestOrigin(5, 7, 5), commit=False, refused_addition_origin=known)
    assert (aborted.code, aborted.label) == (0, "abort_without_addition")
    # The commit itself is done, and what comes next begins a transaction.
    assert add(machine, RequestOrigin(5, 7, 6)).code == 0


def test_an_addition_elsewhere_is_not_behind_that_end():
    machine = machine_with(stored(PREPARE_COMMIT, origin=RequestOrigin(5, 7, 2)))
    for other in (RequestOrigin(5, 8, 3), None):
        refused = add(machine, other).answer
        assert (refused.error_code, refused.delayed_by) == (51, None)
    for state in (PREPARE_COMMIT, COMPLETE_COMMIT):
        machine = machine_with(stored(state, origin=RequestOrigin(5, 7, 2)))
        assert end(machine, RequestOrigin(5, 7, 3), commit=False).code == 48


def test_only_an_abort_with_nothing_heard_since_is_left_behind():
    known = RequestOrigin(5, 7, 2)
    machine = machine_with(stored(COMPLETE_COMMIT, origin=known))
    origin = RequestOrigin(6, 3, 2)
    assert end(machine, origin, refused_addition_origin=known).answer.delayed_by == known
    for refused_origin in (None, RequestOrigin(5, 7, 1)):
        assert end(machine, origin, commit=False, refused_addition_origin=refused_origin).code == 48


def test_nor_does_it_abort_a_transaction_that_was_begun():
    known = RequestOrigin(5, 7, 2)
    refused = end(
        machine_with(stored(ONGOING, origin=known)),
        RequestOrigin(6, 3, 2),
        commit=False,
        refused_addition_origin=known,
    )
    assert (refused.records, refused.answer.delayed_by) == ((), known)
