"""Builds the HTML page of a report: first the findings, then when they happened, how bad they were, and all
the rest."""

from collections.abc import Iterable, Iterator
from html import escape
from pathlib import Path
from typing import Any, Final

from oncelog_robustness.chaos.measures import Measures
from oncelog_robustness.chaos.page.plots import availability, lag, latency, recovery
from oncelog_robustness.chaos.page.svg import milliseconds_label, tag
from oncelog_robustness.checkers.verdict import Answer
from oncelog_robustness.fault_plan import FAMILIES

HERE: Final = Path(__file__).parent


def build_page(content: dict[str, Any], measures: Measures) -> str:
    """Return the page as HTML. `content` is the report as JSON has it; the plots also need the measures."""
    body = "".join(
        [
            *_head(content),
            *_tiles(content),
            card(
                "Availability",
                "Commits a second of one producer that never pauses. Below: every fault by the role it struck; the "
                "thin line under it reaches to the next commit of a transaction begun after it.",
                legend() + availability(measures),
            ),
            card(
                "Recovery by role",
                "From the begin of each fault to the next commit of a transaction begun after it. Faults overlap: a "
                "long one of one role shows in the others, too.",
                recovery(measures),
            ),
            card(
                "Commit latency",
                "From commit_transaction() to its answer, of every transaction of that producer.",
                latency(measures),
            ),
            card(
                "LSO lag",
                "Records between the last stable offset and the high watermark, of the partition farthest behind. "
                "A sample a second; none where nobody answered.",
                lag(measures),
            ),
            _verdicts(content["verdicts"]),
            *_rest(content),
        ]
    )
    return document(f"Chaos, seed {content['seed']}", body)


def document(title: str, body: str) -> str:
    """Return a whole HTML page that needs no other file."""
    style, script = (HERE / "style.css").read_text(), (HERE / "script.js").read_text()
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{style}</style></head>"
        f'<body><main>{body}</main><div id="tip"></div><script>{script}</script></body></html>\n'
    )


def _head(content: dict[str, Any]) -> Iterator[str]:
    broken = [one["checker"] for one in content["verdicts"] if one["answer"] == Answer.BROKEN]
    judged = sum(one["judged"] for one in content["verdicts"])
    title = f"Broken: {', '.join(broken)}" if broken else "Nothing is broken"
    yield f'<header class="{"broken" if broken else "sound"}">'
    yield tag("h1", f'<span class="mark"></span>{escape(title)}')
    yield tag(
        "p",
        escape(
            f"{content['target']} · seed {content['seed']} · scenario {content['scenario']} · "
            f"{', '.join(content['libraries'])} · {judged:,} things judged"
        ),
        class_="soft",
    )
    yield tag("p", f"Again: <code>{escape(content['replay'])}</code>", class_="soft")
    yield "</header>"


def _tiles(content: dict[str, Any]) -> Iterator[str]:
    pulse = content["pulse"]
    operations = sum(content["operations"].values())
    tiles = (
        (f"{content['duration_s'] / 60:.1f} min", "of work under faults"),
        (str(content["faults"]["planned"]), "faults by the plan"),
        (f"{operations:,}", "operations of clients"),
        (f"{content['records_read']:,}", "records read"),
        (f"{pulse['availability']:.1%}", "of the time no gap of a second"),
        (ms_label(pulse["commit_p50_ms"]), f"a commit; p99 {ms_label(pulse['commit_p99_ms'])}"),
        (str(content["lso_lag_max"] or 0), "records: greatest LSO lag"),
    )
    yield tiles_of(tiles)


def tiles_of(tiles: Iterable[tuple[str, str]]) -> str:
    """Return the HTML of the page's tiles, each a value and the words for what it means."""
    inside = "".join(
        tag("div", f"<b>{escape(value)}</b><span>{escape(meaning)}</span>", class_="tile")
        for value, meaning in tiles
    )
    return tag("div", inside, class_="tiles")


def legend() -> str:
    entries = [
        f'<span><i class="f-{name.split()[0]}"></i>{escape(name)}</span>' for name in FAMILIES
    ]
    return tag("div", "".join(entries), class_="legend")


def card(title: str, text: str, inside: str) -> str:
    head = tag("h2", escape(title)) + (tag("p", escape(text)) if text else "")
    return tag("section", head + inside, class_="card")


def _verdicts(verdicts: list[dict[str, Any]]) -> str:
    """Return the verdicts as HTML: broken ones with proofs, sound ones as a list, unknown ones with reasons."""
    inside = [_broken(verdicts)]
    sound = [
        tag("li", f"<span>{escape(one['checker'])}</span><b>{one['judged']:,}</b>")
        for one in verdicts
        if one["answer"] == Answer.OK
    ]
    inside.append(
        tag("p", "ok: none found, and how many things were held against the rule", class_="ok")
    )
    inside.append(tag("ul", "".join(sound), class_="sound-list"))
    heading = "unknown: nothing of the kind happened, or what it needs cannot be seen here"
    inside.append(tag("p", heading, class_="unknown"))
    unknown = [
        (
            tag("td", escape(one["checker"]), class_="name"),
            tag("td", "<br>".join(map(escape, one["proof"])), class_="proof"),
        )
        for one in verdicts
        if one["answer"] == Answer.UNKNOWN
    ]
    inside.append(table(("anomaly looked for", "why nobody can tell"), unknown))
    return card("Verdicts", "", "".join(inside))


def _broken(verdicts: list[dict[str, Any]]) -> str:
    rows = [
        (
            tag("td", escape(one["checker"]), class_="name"),
            tag("td", escape(one["answer"]), class_="broken-word"),
            tag("td", f"{one['judged']:,}", class_="n"),
            tag("td", _proof(one), class_="proof"),
        )
        for one in verdicts
        if one["answer"] == Answer.BROKEN
    ]
    return table(("anomaly looked for", "answer", "judged", "proof"), rows) if rows else ""


def _proof(one: dict[str, Any]) -> str:
    lines = [escape(text) for text in one["proof"]]
    more = one["proofs"] - len(lines)
    if more > 0:
        lines.append(f"and {more} more")
    items = "".join(tag("li", text) for text in lines)
    return f"<details open><summary>{one['proofs']} found</summary><ul>{items}</ul></details>"


def _rest(content: dict[str, Any]) -> Iterator[str]:
    yield '<div class="columns">'
    faults = content["faults"]
    counted = [
        *faults["by_kind"].items(),
        ("clients killed by their workloads", faults["by_workloads"]),
    ]
    yield card("Faults", "", _counts("kind", counted))
    done = [
        *content["operations"].items(),
        *((f"transactions: {name}", count) for name, count in content["transactions"].items()),
    ]
    yield card("Operations", "", _counts("of clients", done))
    roles = [
        (
            tag("td", escape(one["role"])),
            tag("td", str(one["hits"]), class_="n"),
            tag("td", ms_label(one["p50_ms"]), class_="n"),
            tag("td", ms_label(one["p99_ms"]), class_="n"),
            tag("td", ms_label(one["max_ms"]), class_="n"),
            tag("td", str(one["kills"]), class_="n"),
            tag("td", ms_label(one["kills_p99_ms"]), class_="n"),
        )
        for one in content["roles"]
    ]
    yield card(
        "Roles", "", table(("role", "hits", "p50", "p99", "max", "kills", "their p99"), roles)
    )
    missed = [
        (tag("td", escape(what)), tag("td", escape(", ".join(names) or "none"), class_="proof"))
        for what, names in content["never_reached"].items()
    ]
    missed += [
        (tag("td", "limits"), tag("td", escape(one), class_="proof")) for one in content["limits"]
    ]
    yield "</div>"
    yield card("Never reached", "What this run shows nothing about.", table(("", ""), missed))


def _counts(what: str, counted: Iterable[tuple[str, int]]) -> str:
    rows = [
        (tag("td", escape(name)), tag("td", f"{count:,}", class_="n")) for name, count in counted
    ]
    return table((what, "count"), rows)


_NUMBERS: Final = frozenset(
    (
        *("judged", "count", "hits", "p50", "p99", "max", "kills", "their p99"),
        *("at", "lasted", "next commit after"),
    )
)


def table(titles: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    head = "".join(tag("th", title, class_="n" if title in _NUMBERS else "") for title in titles)
    body = "".join(tag("tr", "".join(cells)) for cells in rows)
    table = f"<table><thead>{tag('tr', head)}</thead><tbody>{body}</tbody></table>"
    return tag("div", table, class_="scroll")


def ms_label(ms: int | None) -> str:
    if ms is None:
        return "–"
    return milliseconds_label(round(ms, -1) if ms >= 1000 else ms)
