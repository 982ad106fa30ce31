"""circular-information-flow: no committed transactions each know what the other wrote (G1c).

An edge leads from the transaction that wrote a value to the one that read it at read_committed: the first was decided
before the second was. An edge leads as well from each answered transaction of a client to its next one. Decisions have
one order in time, so no cycle can be. Edges by the order of writes are left out on purpose: transactions interleave in
a Kafka log, so the first writer of one offset may well be decided last, and cycles with such edges prove nothing.
"""

from itertools import pairwise

from oncelog_robustness.checkers.evidence import must_not_be_there, writer_of
from oncelog_robustness.checkers.findings import Findings, seen, writer
from oncelog_robustness.checkers.verdict import Verdict
from oncelog_robustness.history import History, Outcome, Transaction
from oncelog_robustness.observations import Observations

Graph = list[dict[int, str]]
"""For each transaction, whom its edges lead to, and why."""


def check(history: History, observations: Observations) -> Verdict:
    findings = Findings("circular-information-flow")
    nodes = [one for one in history.all(Transaction) if not must_not_be_there(one)]
    graph: Graph = [{} for _ in nodes]
    findings.judged = _add_reads(history, nodes, graph)
    _add_sessions(nodes, graph)
    for component in _components(graph):
        if len(component) > 1:
            findings.broken.append(_proof(nodes, graph, component))
    return findings.verdict("no transaction read what another one wrote")


def _add_reads(history: History, nodes: list[Transaction], graph: Graph) -> int:
    numbers = {id_of(one): number for number, one in enumerate(nodes)}
    writers = writer_of(history)
    count = 0
    for number, one in enumerate(nodes):
        for read in one.reads:
            written = writers.get(read.value or "")
            if written is None or not isinstance(written.by, Transaction):
                continue
            source = numbers.get(id_of(written.by))
            if source is not None and source != number:
                count += 1
                graph[source].setdefault(number, f"whose {seen(read)} was read by")
    return count


def id_of(one: Transaction) -> tuple[str, str, int, str]:
    """Values are unique, so the first one tells transactions of one millisecond apart."""
    first = one.sends[0].value if one.sends else ""
    return one.client, one.transactional_id, one.invoked_ms, first


def _add_sessions(nodes: list[Transaction], graph: Graph) -> None:
    last: dict[str, int] = {}
    for number, one in enumerate(nodes):
        before = last.get(one.client)
        ended_ms = None if before is None else nodes[before].completed_ms
        if before is not None and ended_ms is not None and ended_ms <= one.invoked_ms:
            graph[before].setdefault(number, "before")
        if one.outcome is Outcome.OK:
            last[one.client] = number


def _components(graph: Graph) -> list[list[int]]:
    """Strongly connected ones, by Tarjan's algorithm with a stack of its own instead of recursion."""
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


def _proof(nodes: list[Transaction], graph: Graph, component: list[int]) -> str:
    """A shortest cycle through the first transaction of the component."""
    start = min(component)
    members = dict.fromkeys(component)
    came_from: dict[int, int] = {}
    reached = [start]
    for node in reached:
        for target in graph[node]:
            if target == start:
                path = [node]
                while path[-1] != start:
                    path.append(came_from[path[-1]])
                steps = [*reversed(path), start]
                return (
                    " ".join(
                        f"{writer(nodes[one])} {graph[one][next_one]}"
                        for one, next_one in pairwise(steps)
                    )
                    + f" {writer(nodes[start])}"
                )
            if target in members and target not in came_from:
                came_from[target] = node
                reached.append(target)
    raise AssertionError("a component of more than one has a cycle through each of its members")
