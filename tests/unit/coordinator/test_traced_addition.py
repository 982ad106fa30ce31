"""`AddPartitions.with_trace` is `dataclasses.replace` by hand: a field that it forgot would be lost with tracing on."""

from dataclasses import fields, replace

from oncelog.trace import TransactionTrace
from oncelog_coordinator.core.txn_events import AddPartitions

TRACE = TransactionTrace(7, 8, 9)


def test_an_addition_with_a_trace_keeps_every_field():
    values = {one.name: object() for one in fields(AddPartitions)}
    event = AddPartitions(**values)
    assert event.with_trace(TRACE) == replace(event, trace=TRACE)
