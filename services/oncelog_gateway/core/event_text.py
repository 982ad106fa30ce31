"""One sentence for each kind of event of a transaction, for people: console, terminal and REST show the same words
(docs/events.md).
"""

from collections.abc import Callable
from typing import Final

from oncelog.errors import ErrorCode, error_code_of
from oncelog.telemetry.events import HOLE, Event
from oncelog.wording import counted

_BUMPS: Final = {
    "takeover": "InitProducerId of {client} takes the transactional.id over",
    "restart": "{client} asked to go on with a new epoch",
    "timeout": "the transaction timeout of {timeout} passed",
    "operator": "an operator ended the transaction",
    "exhausted": "the producer id had no epochs left",
    "end": "each end of a transaction raises the epoch (KIP-890)",
}


def sentence(event: Event) -> str:
    """Return the event as a sentence, without its time. An event of an unknown kind is shown with its fields."""
    text_of = _TEXTS.get(event.kind)
    if text_of is None:
        fields = ", ".join(f"{name} {value}" for name, value in event.fields.items())
        return f"{event.kind}: {fields}"
    return text_of(event)


def _transaction(event: Event) -> str:
    state = event.text("state")
    if state == "Dead":
        return "the transactional.id is forgotten: nobody used it for long"
    change = _CHANGES[state](event) if state in _CHANGES else f"state {state}"
    return change + _bumped(event)


def _empty(event: Event) -> str:
    if event.number("previous_producer_epoch") < 0:
        return (
            f"{_client(event)} begins as producer {event.number('producer_id')} "
            f"epoch {event.number('producer_epoch')}"
        )
    return "the producer is initialised, no transaction is open"


def _ongoing(event: Event) -> str:
    added = _names(event.text("added"))
    if event.text("cause") == "transaction_started":
        return f"the transaction begins with {added}"
    if event.text("request") == "InitProducerId":
        return f"the two-phase transaction is kept for {_client(event)}, which may only end it"
    return f"{added} joins the transaction" if added else "the transaction goes on"


def _prepared(event: Event) -> str:
    what = "commit" if event.text("state") == "PrepareCommit" else "abort"
    who = {
        "EndTxn": f"{_client(event)} asks for it",
        "TxnTimedOut": "nobody ended it in time",
        "ForceTerminate": "an operator asks for it",
        "CompletePrepared": "an operator decides the two-phase transaction",
        "InitProducerId": f"InitProducerId of {_client(event)} ends the open transaction",
    }.get(event.text("request"), event.text("cause"))
    return f"{what} is decided: {who}; {counted(event.number('partitions'), 'partition')} to mark"


def _complete(event: Event) -> str:
    what = "committed" if event.text("state") == "CompleteCommit" else "aborted"
    return f"the transaction is {what}: every partition has its marker"


_CHANGES: Final[dict[str, Callable[[Event], str]]] = {
    "Empty": _empty,
    "Ongoing": _ongoing,
    "PrepareCommit": _prepared,
    "PrepareAbort": _prepared,
    "CompleteCommit": _complete,
    "CompleteAbort": _complete,
}


def _bumped(event: Event) -> str:
    reason = _BUMPS.get(event.text("bump"))
    if reason is None or event.number("previous_producer_epoch") < 0:
        return ""
    before = (event.number("previous_producer_id"), event.number("previous_producer_epoch"))
    after = (event.number("producer_id"), event.number("producer_epoch"))
    if before[0] == after[0]:
        change = f"epoch {before[1]} → {after[1]}"
    else:
        change = f"producer {before[0]} epoch {before[1]} → producer {after[0]} epoch {after[1]}"
    timeout = f"{event.number('timeout_ms') / 1000:g} s"
    return f"; {change}: {reason.format(client=_client(event), timeout=timeout)}"


def _verified(event: Event) -> str:
    return f"the coordinator confirms {_names(event.text('names'))} to its leader"


def _refused(event: Event) -> str:
    count = event.number("count")
    where = f" to {_place(event)}" if "topic" in event.fields else ""
    names = (
        f" ({_names(event.text('names'))} is not in the transaction)" if event.text("names") else ""
    )
    return (
        f"{event.text('request')}{where} of producer {event.number('producer_id')} epoch "
        f"{event.number('producer_epoch')} ({_client(event)}) is refused: {event.text('error')}{names}"
        + (f", {count} times" if count > 1 else "")
    )


def _opened(event: Event) -> str:
    return f"first record of the transaction in {_place(event)}, offset {event.number('offset')}"


def _marker_queued(event: Event) -> str:
    return f"{event.text('outcome')} marker queued for {_names(event.text('names'))}"


def _marker_sent(event: Event) -> str:
    return (
        f"{event.text('outcome')} marker sent to node {event.text('to_node')} for "
        f"{_names(event.text('names'))}{_again(event)}"
    )


def _marker_failed(event: Event) -> str:
    return (
        f"{event.text('outcome')} marker not written on node {event.text('to_node')} for "
        f"{_names(event.text('names'))}: {event.text('error')}; it is sent again{_again(event)}"
    )


def _marker(event: Event) -> str:
    what = f"{event.text('outcome')} marker"
    code = event.number("error_code")
    if code != ErrorCode.NONE:
        return f"{what} refused in {_place(event)}: {error_code_of(code).name}"
    return (
        f"{what} written in {_place(event)}; "
        f"the last stable offset is {event.number('last_stable_offset')}"
    )


def _shard(event: Event) -> str:
    number, state = event.number("shard"), event.text("state")
    return f"transaction shard {number} on node {event.node}: {state}"


def _hole(event: Event) -> str:
    count = event.number("count")
    return (
        f"{counted(count, 'event')} missing here" if count >= 0 else "events are missing here"
    ) + (": the live feed was away" if event.role != "gateway" else "")


_TEXTS: Final[dict[str, Callable[[Event], str]]] = {
    "transaction": _transaction,
    "verified": _verified,
    "refused": _refused,
    "opened": _opened,
    "marker_queued": _marker_queued,
    "marker_sent": _marker_sent,
    "marker_failed": _marker_failed,
    "marker": _marker,
    "shard": _shard,
    HOLE: _hole,
}


def _client(event: Event) -> str:
    name, host = event.text("client_id"), event.text("client_host")
    if not name and not host:
        return "its client"
    return f"client {name!r} at {host}" if name else f"the client at {host}"


def _place(event: Event) -> str:
    return f"{event.text('topic')}-{event.number('partition')}"


def _names(names: str) -> str:
    return names.replace(",", ", ")


def _again(event: Event) -> str:
    attempt = event.number("attempt")
    return f" (attempt {attempt})" if attempt > 1 else ""
