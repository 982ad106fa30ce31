"""Several requests that a client has left behind on a connection change nothing when it has gone on (ADR 0018).

librdkafka sends an EndTxn(abort) behind an addition that is not answered yet, so both can be left behind together.
"""

import pytest
from tests.unit.coordinator.test_delayed_requests_table import add
from tests.unit.coordinator.txn_rows import (
    COMPLETE_ABORT,
    COMPLETE_COMMIT,
    EMPTY,
    ONGOING,
    ORDERS_0,
    ORDERS_1,
    PID,
    PREPARE_COMMIT,
    Step,
    machine_with,
    stored,
)

from oncelog_coordinator.core.markers import DeliveryOutcome, MarkersDelivered
from oncelog_coordinator.core.request_origin import RequestOrigin
from oncelog_coordinator.core.txn_events import EndTxn


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


def complete(machine, step):
    for wanted in step.markers:
        Step(machine, MarkersDelivered(wanted.decision_key, DeliveryOutcome.DELIVERED))


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
