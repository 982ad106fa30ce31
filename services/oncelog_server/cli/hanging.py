"""Prints the result of `oncelog transactions find-hanging`."""

from datetime import UTC, datetime

from oncelog.wording import counted
from oncelog_server.cli.tables import duration, of_partition, say, show_rows
from oncelog_server.cli.transaction_answers import HangingPage


def show_hanging(found: HangingPage, hides: str) -> None:
    """Print the hanging transactions. `hides` has the options, as they were typed, that may have hidden some."""
    hidden = found["hidden_count"]
    show_rows(
        {
            "partition": of_partition,
            ">start offset": "start_offset",
            ">pid": "producer_id",
            ">epoch": "producer_epoch",
            ">coord epoch": "coordinator_epoch",
            "last record": lambda one: moment(one["last_timestamp_ms"]),
            ">duration": lambda one: duration(one["idle_ms"]),
            "transactional id": "transactional_id",
        },
        found["hanging"],
        empty=f"Nothing is shown: {_searched(found)}"
        if hidden
        else f"Nothing hangs: {_searched(found)}, none without a coordinator",
    )
    if hidden:
        more = "more " if found["hanging"] else ""
        verbs = "hangs but was" if hidden == 1 else "hang but were"
        say(f"{hidden} {more}{verbs} hidden by {hides}")
    left_out = found["total"] - len(found["hanging"])
    if left_out:
        say(f"{counted(left_out, 'more hanging transaction')} did not fit; --topic narrows it")
    for one in found["hanging"]:
        say(f"to end it: {one['abort']}")


def moment(timestamp_ms: int | None) -> str:
    """Return a timestamp in UTC, to the second; the number itself when no calendar has it."""
    if timestamp_ms is None:
        return "–"
    try:
        return f"{datetime.fromtimestamp(timestamp_ms / 1000, UTC):%Y-%m-%d %H:%M:%SZ}"
    except (OverflowError, ValueError, OSError):
        return str(timestamp_ms)


def _searched(found: HangingPage) -> str:
    return (
        f"{counted(found['open_transactions'], 'open transaction')} in "
        f"{counted(found['checked_partitions'], 'partition')}"
    )
