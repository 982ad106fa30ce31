"""The HTML page of a report of `oncelog verify`. First comes the verdict, then each anomaly with its proof, then
Kafka's promises and which of them held. Plots follow of when and for how long nothing could be committed."""

import json
from collections.abc import Iterator, Mapping
from html import escape
from pathlib import Path
from typing import Any, Final

from oncelog_robustness.chaos.measures import Measures
from oncelog_robustness.chaos.page.build import card, document, legend, ms_label, table, tiles_of
from oncelog_robustness.chaos.page.plots import availability, lag, latency, recovery
from oncelog_robustness.chaos.page.svg import tag
from oncelog_robustness.checkers.verdict import Answer

STYLE: Final = Path(__file__).parent / "style.css"
CLASSES: Final = {Answer.OK: "sound", Answer.BROKEN: "broken", Answer.UNKNOWN: "no-verdict"}
WORDS: Final = {
    Answer.OK: ("ok", "none found"),
    Answer.BROKEN: ("broken-word", "broken"),
    Answer.UNKNOWN: ("unknown", "not judged"),
}

_IN_HEAD: Final = ("operation", "client", "invoked_ms", "completed_ms")


def verify_page(content: dict[str, Any], measures: Measures) -> str:
    """Return the page of a report of `oncelog verify` as HTML. `content` is the report as JSON has it; the plots also
    need the measures."""
    parts = [*_head(content), _tiles(content)]
    if content["anomalies"]:
        parts.append(_anomalies(content["anomalies"]))
    parts.append(_promises(content["promises"]))
    if measures.commits:
        parts += _plots(measures)
    if content["fault_list"]:
        parts.append(_faults(content["fault_list"]))
    parts += _rest(content)
    style = tag("style", STYLE.read_text())
    return document(f"oncelog verify: {content['headline']}", style + "".join(parts))


def _head(content: dict[str, Any]) -> Iterator[str]:
    yield f'<header class="{CLASSES[Answer(content["answer"])]}">'
    yield tag("h1", f'<span class="mark"></span>{escape(content["headline"])}')
    yield tag("p", escape(content["means"]), class_="means")
    run = f" · run {content['run']}" if content["run"] else ""
    stopped = " · stopped by Ctrl-C" if content["is_stopped"] else ""
    clients = f" · clients: {', '.join(content['clients'])}" if content["clients"] else ""
    yield tag("p", escape(f"{content['target']}{run}{clients}{stopped}"), class_="soft")
    yield tag("p", f"Judge it again: <code>{escape(content['again'])}</code>", class_="soft")
    yield "</header>"


def _tiles(content: dict[str, Any]) -> str:
    pulse = content["pulse"]
    lasted_s = content["duration_s"]
    tiles = [
        (f"{lasted_s / 60:.1f} min" if lasted_s >= 120 else f"{lasted_s:.0f} s", "of work"),
        (f"{sum(content['transactions'].values()):,}", "transactions"),
        (f"{content['records_read']:,}", "records read"),
        (str(content["faults"]["planned"]), "faults"),
    ]
    if pulse["commits"]:
        tiles += [
            (f"{pulse['availability']:.1%}", "of the time no gap of a second"),
            (
                ms_label(pulse["commit_p50_ms"]),
                f"a commit; p99 {ms_label(pulse['commit_p99_ms'])}",
            ),
        ]
    return tiles_of(tiles)


def _promises(promises: list[dict[str, Any]]) -> str:
    rows = []
    for one in promises:
        css, word = WORDS[Answer(one["answer"])]
        name = f"<b>{escape(one['name'])}</b><br>{escape(one['text'])}"
        checkers = "<br>".join(_checker(checker) for checker in one["checkers"])
        rows.append(
            (
                tag("td", name + tag("span", escape(one["source"]), class_="source")),
                tag("td", word, class_=css + " name"),
                tag("td", f"{one['judged']:,}", class_="n"),
                tag("td", checkers, class_="proof"),
            )
        )
    text = (
        "What Kafka's documentation promises, which checkers answer it, and how many things they "
        "held against it. “None found” is no proof. “Not judged” says why."
    )
    titles = ("promise", "answer", "judged", "anomalies looked for")
    return card("Promises", text, table(titles, rows))


def _checker(one: dict[str, Any]) -> str:
    name = f"<code>{escape(one['checker'])}</code>"
    if one["answer"] == Answer.UNKNOWN:
        return f"{name} not judged: {escape('; '.join(one['why'][:1]))}"
    return f"{name} {one['judged']:,}"


def _anomalies(anomalies: list[dict[str, Any]]) -> str:
    inside = []
    for number, one in enumerate(anomalies):
        operations = "".join(_operation(operation) for operation in one["operations"])
        count = len(one["operations"])
        summary = tag("summary", f"{count} operation{'' if count == 1 else 's'} of the history")
        opened = {"open": "open"} if number < 3 else {}
        shown = tag("details", summary + tag("ol", operations), **opened) if count else ""
        sentence = f"<code>{escape(one['checker'])}</code> {escape(one['sentence'])}"
        inside.append(tag("div", tag("p", sentence) + shown, class_="anomaly"))
    text = (
        "Each is a sentence that the operations below it prove. Times are milliseconds of the run; "
        "names are shown without the run's prefix."
    )
    return card("Anomalies", text, "".join(inside))


def _operation(one: dict[str, Any]) -> str:
    ended = "never answered" if one["completed_ms"] is None else f"to {one['completed_ms']}"
    head = f"<b>{escape(one['operation'])}</b> {escape(one['client'])}, {one['invoked_ms']} {ended}"
    facts = {name: value for name, value in without_empty(one).items() if name not in _IN_HEAD}
    written = json.dumps(facts, default=str, ensure_ascii=False)
    return tag("li", f"{head}<br><code>{escape(written)}</code>")


def without_empty(operation: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of an operation that say something. A 0 does."""
    return {
        name: value
        for name, value in operation.items()
        if value or (value == 0 and value is not False)
    }


def _plots(measures: Measures) -> Iterator[str]:
    yield card(
        "Availability",
        "Commits a second of one producer that never pauses. Below: every fault by what it struck; the thin line "
        "under it reaches to the next commit of a transaction begun after it.",
        legend() + availability(measures),
    )
    yield card(
        "Commit latency",
        "From commit_transaction() to its answer, of every transaction of that producer.",
        latency(measures),
    )
    if measures.recoveries:
        yield card(
            "Unavailability by fault",
            "From the begin of each fault to the next commit of a transaction begun after it.",
            recovery(measures),
        )
    if measures.lags:
        yield card(
            "LSO lag",
            "Records between the last stable offset and the high watermark, of the partition farthest behind.",
            lag(measures),
        )


def _faults(faults: list[dict[str, Any]]) -> str:
    rows = [
        (
            tag("td", f"{one['at_s']:.1f} s", class_="n"),
            tag("td", escape(f"{one['kind']} {one['target']}"), class_="name"),
            tag("td", escape(one["what"]), class_="proof"),
            tag("td", f"{one['lasted_s']:.1f} s", class_="n"),
            tag("td", ms_label(one["next_commit_ms"]), class_="n"),
        )
        for one in faults
    ]
    titles = ("at", "fault", "what was done", "lasted", "next commit after")
    return card("Faults", "", f'<div class="long">{table(titles, rows)}</div>')


def _rest(content: dict[str, Any]) -> Iterator[str]:
    done = [
        *content["operations"].items(),
        *((f"transactions: {name}", count) for name, count in content["transactions"].items()),
    ]
    rows = [(tag("td", escape(name)), tag("td", f"{count:,}", class_="n")) for name, count in done]
    yield '<div class="columns">'
    yield card("Operations", "", table(("of clients", "count"), rows))
    limits = "".join(tag("li", escape(one)) for one in content["limits"]) or tag("li", "None.")
    yield card("Limits of this run", "", tag("ul", limits, class_="limits"))
    yield "</div>"
