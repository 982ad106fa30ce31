"""circular-information-flow: committed transactions have one order that all reads and the time agree with (G1c).

An edge leads from a transaction that was decided earlier to one that was decided later, of three kinds:

- from the transaction that wrote a value to the one that read it at read_committed;
- from each answered transaction of a client to its next one;
- in real time: from an answered transaction to every one that any client began after that answer.

Decisions have one order in time, so no cycle can be. Edges by the order of writes are left out on purpose:
transactions interleave in a Kafka log, so the first writer of one offset may well be decided last, and cycles with such
edges prove nothing.

Pairs in real time are too many to write down. So each moment of an answer is a node of its own, a *barrier*: the
answered transactions lead to it, it leads to the next barrier, and the last barrier before a begin leads to that begin.

Most edges lead from an earlier moment to a later one, and every cycle needs one that leads back. A cycle lies within
the times that such edges span, so only these transactions make a graph.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from oncelog_robustness.checkers.evidence import must_not_be_there, writer_of
from oncelog_robustness.checkers.findings import Findings, seen, writer
from oncelog_robustness.checkers.verdict import Verdict
from oncelog_robustness.history import History, Outcome, Read, Transaction
from oncelog_robustness.observations import Observations

Graph = list[dict[int, str]]
"""A graph: for each transaction, and after them for each barrier, the nodes that its edges lead to,
each with the edge's reason."""
_ANSWERED: Final = "was answered before the begin of"


class _Flow(NamedTuple):
    source: int
    target: int
    read: Read


def check(history: History, observations: Observations) -> Verdict:
    findings = Findings("circular-information-flow")
    nodes = [one for one in history.all(Transaction) if not must_not_be_there(one)]
    flows = _flows(history, nodes)
    findings.judged = len(flows)
    for members in _suspects(nodes, flows):
        few = [nodes[number] for number in members]
        graph = _graph(few, _within(members, flows))
        for component in _components(graph):
            if len(component) > 1:
                findings.broken.append(_proof(few, graph, component))
    return findings.verdict("no transaction read what another one wrote")


def _flows(history: History, nodes: Sequence[Transaction]) -> list[_Flow]:
    numbers = {id_of(one): number for number, one in enumerate(nodes)}
    writers = writer_of(history)
    found = []
    for number, one in enumerate(nodes):
        for read in one.reads:
            written = writers.get(read.value or "")
            if written is None or not isinstance(written.by, Transaction):
                continue
            source = numbers.get(id_of(written.by))
            if source is not None and source != number:
                found.append(_Flow(source, number, read))
    return found


def id_of(one: Transaction) -> tuple[str, str, int, str]:
    """Return a key that no other transaction of the history has. Its last part is the first value that the
    transaction sent, because values are unique."""
    first = one.sends[0].value if one.sends else ""
    return one.client, one.transactional_id, one.invoked_ms, first


def _moment(one: Transaction) -> int:
    """Return the moment, in milliseconds, at which the graph places this transaction: its answer if that was OK, or
    else its begin. Edges between a client's own transactions, and edges of real time, never lead to an earlier
    moment."""
    is_answered = one.outcome is Outcome.OK and one.completed_ms is not None
    return one.completed_ms if is_answered and one.completed_ms is not None else one.invoked_ms


def _suspects(nodes: Sequence[Transaction], flows: Iterable[_Flow]) -> list[list[int]]:
    """Return, for each span of time in which a cycle may lie, the numbers of its transactions in the order of their
    begin.

    A span goes from the reader's moment to the writer's, where a read value was written at a later moment. Spans
    that overlap are one.
    """
    backward = sorted(
        (_moment(nodes[flow.target]), _moment(nodes[flow.source]))
        for flow in flows
        if _moment(nodes[flow.source]) >= _moment(nodes[flow.target])
    )
    spans: list[tuple[int, int]] = []
    for since, until in backward:
        if spans and since <= spans[-1][1]:
            spans[-1] = (spans[-1][0], max(until, spans[-1][1]))
        else:
            spans.append((since, until))
    if not spans:
        return []
    by_moment = sorted(range(len(nodes)), key=lambda number: _moment(nodes[number]))
    found: list[list[int]] = [[] for _ in spans]
    at = 0
    for number in by_moment:
        moment = _moment(nodes[number])
        while at < len(spans) and spans[at][1] < moment:
            at += 1
        if at < len(spans) and spans[at][0] <= moment:
            found[at].append(number)
    return [sorted(members) for members in found]


def _within(members: Sequence[int], flows: Iterable[_Flow]) -> list[_Flow]:
    """Return the flows (a value that one transaction wrote and another read) whose two transactions are both among
    `members`. Transactions get new numbers: their places in `members`."""
    places = {number: place for place, number in enumerate(members)}
    return [
        _Flow(places[flow.source], places[flow.target], flow.read)
        for flow in flows
        if flow.source in places and flow.target in places
    ]


def _graph(nodes: Sequence[Transaction], flows: Iterable[_Flow]) -> Graph:
    graph: Graph = [{} for _ in nodes]
    for source, target, read in flows:
        graph[source].setdefault(target, f"whose {seen(read)} was read by")
    _add_sessions(nodes, graph)
    _add_real_time(nodes, graph)
    return graph


def _add_sessions(nodes: Sequence[Transaction], graph: Graph) -> None:
    last: dict[str, int] = {}
    for number, one in enumerate(nodes):
        before = last.get(one.client)
        ended_ms = None if before is None else nodes[before].completed_ms
        if before is not None and ended_ms is not None and ended_ms <= one.invoked_ms:
            graph[before].setdefault(number, "before")
        if one.outcome is Outcome.OK:
            last[one.client] = number


def _add_real_time(nodes: Sequence[Transaction], graph: Graph) -> None:
    """Add the edges of real time, over one barrier node for each moment at which a transaction was answered. A
    barrier leads to no transaction that began in the same millisecond."""
    answered: dict[int, list[int]] = {}
    for number, one in enumerate(nodes):
        if one.outcome is Outcome.OK and one.completed_ms is not None:
            answered.setdefault(one.completed_ms, []).append(number)
    moments = sorted(answered)
    at, barrier = 0, -1
    for number in sorted(range(len(nodes)), key=lambda one: nodes[one].invoked_ms):
        while at < len(moments) and moments[at] < nodes[number].invoked_ms:
            graph.append({})
            if barrier >= 0:
                graph[barrier][len(graph) - 1] = _ANSWERED
            barrier = len(graph) - 1
            for source in answered[moments[at]]:
                graph[source].setdefault(barrier, _ANSWERED)
            at += 1
        if barrier >= 0:
            graph[barrier].setdefault(number, _ANSWERED)


def _components(graph: Graph) -> list[list[int]]:
    """Return the strongly connected components, each as the numbers of its nodes, by Tarjan's algorithm. An explicit
    stack replaces its recursion."""
    order: list[int | None] = [None] * len(graph)
    low = [0] * len(graph)
    is_open = [False] * len(graph)
    opened: list[int] = []
    found: list[list[int]] = []
    count = 0
    for root in range(len(graph)):
        if order[root] is not None:
            continue
        walk = [(root, iter(graph[root]))]
        order[root] = low[root] = count
        count += 1
        opened.append(root)
        is_open[root] = True
        while walk:
            node, targets = walk[-1]
            for target in targets:
                seen_at = order[target]
                if seen_at is None:
                    order[target] = low[target] = count
                    count += 1
                    opened.append(target)
                    is_open[target] = True
                    walk.append((target, iter(graph[target])))
                    break
                if is_open[target]:
                    low[node] = min(low[node], seen_at)
            else:
                walk.pop()
                if walk:
                    low[walk[-1][0]] = min(low[walk[-1][0]], low[node])
                if low[node] == order[node]:
                    component: list[int] = []
                    while not component or component[-1] != node:
                        component.append(opened.pop())
                        is_open[component[-1]] = False
                    found.append(component)
    return found


def _proof(nodes: Sequence[Transaction], graph: Graph, component: list[int]) -> str:
    """Return the sentence of a verdict: a shortest cycle through the first transaction of a strongly connected
    component of the graph."""
    start = min(component)
    members = dict.fromkeys(component)
    came_from: dict[int, int] = {}
    reached = deque([start])
    done: dict[int, None] = {}
    while reached:
        node = reached.popleft()
        if node in done:
            continue
        done[node] = None
        if start in graph[node]:
            path = [node]
            while path[-1] != start:
                path.append(came_from[path[-1]])
            return _told(nodes, graph, [*reversed(path), start])
        for target in graph[node]:
            if target not in members or target in done:
                continue
            # A barrier costs nothing, so it comes first.
            if target >= len(nodes):
                came_from[target] = node
                reached.appendleft(target)
            elif target not in came_from:
                came_from[target] = node
                reached.append(target)
    raise AssertionError("a component of more than one has a cycle through each of its members")


def _told(nodes: Sequence[Transaction], graph: Graph, steps: Sequence[int]) -> str:
    words = [
        f"{writer(nodes[one])} {graph[one][next_one]}"
        for one, next_one in pairwise(steps)
        if one < len(nodes)
    ]
    return " ".join([*words, writer(nodes[steps[-1]])])
