"""Draws the spans of one trace as a tree, for a terminal and for tests."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from rich.text import Text
from rich.tree import Tree

from oncelog_server.tracing.receiver import ReceivedSpan

_NS_PER_MS: Final = 1_000_000
_SHOWN: Final = {
    "oncelog.decision": "",
    "oncelog.state": "",
    "oncelog.outcome": "",
    "oncelog.producer_epoch": "epoch ",
    "oncelog.shard": "shard ",
    "oncelog.coordinator_epoch": "coordinator epoch ",
    "oncelog.leader": "to node ",
    "oncelog.attempt": "attempt ",
    "messaging.client.id": "client ",
}


@dataclass(frozen=True, slots=True)
class Trace:
    """All received spans of one trace id."""

    trace_id: str
    spans: tuple[ReceivedSpan, ...]

    @property
    def roots(self) -> list[ReceivedSpan]:
        return [one for one in self.spans if not one.parent_id]

    @property
    def orphans(self) -> list[ReceivedSpan]:
        """Spans whose parent span is not in the trace."""
        known = {one.span_id for one in self.spans}
        return [one for one in self.spans if one.parent_id and one.parent_id not in known]

    @property
    def is_connected(self) -> bool:
        return len(self.roots) == 1 and not self.orphans

    def children(self, parent: ReceivedSpan) -> list[ReceivedSpan]:
        """Return the children of a span, in order of their start."""
        return sorted(
            (one for one in self.spans if one.parent_id == parent.span_id),
            key=lambda one: one.start_ns,
        )


def traces_of(spans: Iterable[ReceivedSpan]) -> list[Trace]:
    """Return the spans grouped by trace, in order of the start of their first span. A span that was received twice
    counts once, because two coordinators may report one root.
    """
    found: dict[str, dict[str, ReceivedSpan]] = {}
    for one in spans:
        found.setdefault(one.trace_id, {}).setdefault(one.span_id, one)
    traces = [Trace(trace_id, tuple(own.values())) for trace_id, own in found.items()]
    return sorted(traces, key=lambda trace: min(one.start_ns for one in trace.spans))


def trace_of(spans: Iterable[ReceivedSpan], transactional_id: str) -> Trace | None:
    """Return the newest trace of a transaction of this id whose root span was received; None: there is none."""
    wanted = f"transaction {transactional_id}"
    whole = [trace for trace in traces_of(spans) if any(one.name == wanted for one in trace.roots)]
    return whole[-1] if whole else None


def drawn(trace: Trace) -> Tree:
    """Return the trace as a `rich` tree that can be printed. Raises IndexError for a trace without a root span."""
    root = trace.roots[0]
    tree = Tree(_line(root, root.start_ns), guide_style="dim")
    _grow(tree, trace, trace.children(root), root.start_ns)
    for orphan in trace.orphans:
        tree.add(Text("parent missing: ", style="red").append(_line(orphan, root.start_ns)))
    return tree


def _grow(tree: Tree, trace: Trace, spans: Sequence[ReceivedSpan], start_ns: int) -> None:
    for one in spans:
        branch = tree.add(_line(one, start_ns))
        _grow(branch, trace, trace.children(one), start_ns)


def _line(span: ReceivedSpan, start_ns: int) -> Text:
    began_ms = (span.start_ns - start_ns) / _NS_PER_MS
    lasted_ms = (span.end_ns - span.start_ns) / _NS_PER_MS
    line = Text(f"{span.name}  ", style="bold red" if span.error else "bold")
    where = span.service.removeprefix("oncelog-")
    line.append(f"{where} {span.instance}  ", style="cyan")
    line.append(f"+{began_ms:.1f} ms, {lasted_ms:.1f} ms", style="green")
    said = [
        f"{prefix}{span.attributes[name]}"
        for name, prefix in _SHOWN.items()
        if name in span.attributes
    ]
    if span.error:
        said.append(span.error)
    if said:
        line.append("  " + ", ".join(said), style="dim")
    return line
