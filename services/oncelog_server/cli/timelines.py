"""`oncelog transactions timeline` prints one line for each event, with the time that passed since the one before."""

import json
import time
import urllib.parse
from collections.abc import Iterator
from typing import Final

from oncelog.errors import OncelogError
from oncelog_server.cli.rest import Rest, quoted
from oncelog_server.cli.tables import duration, printable, say
from oncelog_server.cli.transaction_answers import Timeline, TimelineEvent

PAUSE_S: Final = 1.0
"""Seconds before a stream that broke is asked for again."""
GAP_MS: Final = 1_000
"""A pause between two events of at least this long is shown: the time was spent there."""


def timeline(rest: Rest, transactional_id: str, limit: int, *, follow: bool, is_json: bool) -> None:
    """Print the events of a transaction; with `follow` also new ones, until Ctrl-C. Raises OncelogError, as
    `Rest` does.
    """
    found: Timeline = rest.get(
        f"/v1/transactions/{quoted(transactional_id)}/timeline", {"limit": limit}
    )
    lines = _Lines(is_json)
    if not is_json:
        _head(found)
    for event in found["events"]:
        lines.show(event)
    if not follow:
        return
    try:
        for event in _following(rest, found):
            lines.show(event)
    except KeyboardInterrupt:
        return


def _head(found: Timeline) -> None:
    if found["state"] is None:
        say(f"{found['transactional_id']}: no coordinator knows it now")
    else:
        say(
            f"{found['transactional_id']}: {found['state']}, producer {found['producer_id']}, "
            f"epoch {found['producer_epoch']}"
        )
    if found["missing"]:
        say(f"events are missing now: {found['missing']}")
    if not found["events"]:
        since = found["since_ms"]
        say("no event is remembered" + (f" since {_clock(since)}" if since else ""))


class _Lines:
    def __init__(self, is_json: bool) -> None:
        self._is_json = is_json
        self._last_ms: int | None = None
        self._last_day = ""

    def show(self, event: TimelineEvent) -> None:
        if self._is_json:
            print(json.dumps(event, ensure_ascii=False), flush=True)
            return
        at = event["time_ms"]
        day = time.strftime("%Y-%m-%d", time.localtime(at / 1000))
        if day != self._last_day:
            self._last_day = day
            print(day)
        if self._last_ms is not None and at - self._last_ms >= GAP_MS:
            print(f"              … {duration(at - self._last_ms)} …")
        self._last_ms = at
        print(f"{_clock(at)}  {_who(event):<16} {printable(event['text'])}", flush=True)


def _who(event: TimelineEvent) -> str:
    return event["role"] if event["node"] < 0 else f"{event['role']} {event['node']}"


def _clock(time_ms: int) -> str:
    return time.strftime("%H:%M:%S", time.localtime(time_ms / 1000)) + f".{time_ms % 1000:03d}"


def _following(rest: Rest, found: Timeline) -> Iterator[TimelineEvent]:
    """Yield each new event of the transactional id as it happens. Events without that id are matched by the producer
    ids that it has had.
    """
    last_id = found["events"][-1]["id"] if found["events"] else ""
    seen = {event["id"] for event in found["events"]}
    name = found["transactional_id"]
    producers: set[str | int | None] = {found["producer_id"]}
    producers |= {event["fields"].get("producer_id") for event in found["events"]}
    producers.discard(None)
    while True:
        try:
            path = "/v1/events?" + urllib.parse.urlencode({"limit": 1})
            for event in rest.events(path, last_id):
                last_id = event["id"]
                fields = event["fields"]
                if fields.get("transactional_id") == name:
                    producers.add(fields.get("producer_id"))
                if event["id"] not in seen and _is_about(event, name, producers):
                    yield event
            say("the gateway ended the stream; asking again")
        except OncelogError as error:
            say(f"{error}; asking again")
        time.sleep(PAUSE_S)


def _is_about(event: TimelineEvent, name: str, producers: set[str | int | None]) -> bool:
    """True if the event may be about the transaction `name`. That includes a hole, which stands for lost events of any
    transaction.
    """
    fields = event["fields"]
    if event["kind"] == "hole":
        return True
    if "transactional_id" in fields:
        return fields["transactional_id"] == name
    return fields.get("producer_id") in producers
