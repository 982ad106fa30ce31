"""The checks of a healed cluster through REST. The requests are made inside the gateway's pod, so it need not be
reachable from here. The files of nodes are not read; `make chaos` on processes judges those."""

import json
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from oncelog.errors import OncelogError
from oncelog.wording import counted
from oncelog_robustness.checkers.verdict import Answer, Verdict

if TYPE_CHECKING:
    from oncelog_robustness.chaos.pods.api import Kubernetes

CHECKER: Final = "not-settled"
LOOK_S: Final = 1.0
_UNDECIDED: Final = "&".join(
    f"state={one}" for one in ("Ongoing", "PrepareCommit", "PrepareAbort", "PrepareEpochFence")
)
_ASK: Final = """\
import os, pathlib, sys, urllib.request
request = urllib.request.Request("http://127.0.0.1:8080" + sys.argv[1])
if token := os.environ.get("ONCELOG_GATEWAY_ADMIN_TOKEN_FILE"):
    request.add_header("Authorization", "Bearer " + pathlib.Path(token).read_text().strip())
print(urllib.request.urlopen(request, timeout=15).read().decode())
"""
"""A script for the gateway's pod that requests REST with the pod's own token, if it has one; the
token never leaves the pod."""
QUESTIONS: Final = (
    "/v1/cluster",
    "/v1/partitions?troubled=true&limit=1000",
    f"/v1/transactions?{_UNDECIDED}&limit=1000",
    "/v1/hanging-transactions",
    "/v1/marker-queues",
)


def ask_gateway(kubernetes: "Kubernetes", path: str) -> Any:
    """Return the REST response to a GET of `path`.
    Raises OncelogError when no gateway is there, or it does not answer."""
    gateways = [one for one in kubernetes.pods() if one.role == "gateway" and one.is_ready]
    if not gateways:
        raise OncelogError("no pod of the gateway is ready")
    pod = gateways[0]
    said = kubernetes.execute(pod, pod.container, "python", "-c", _ASK, path)
    try:
        return json.loads(said.text)
    except ValueError as error:
        last = (said.text.strip().splitlines() or ["nothing"])[-1]
        raise OncelogError(f"{pod.name} answered to {path}: {last}") from error


def unsettled(answers: Sequence[Any], node_count: int) -> list[str]:
    """Return a sentence for each thing that is not as it must be in a healed cluster of `node_count` nodes. `answers`
    are the responses to QUESTIONS, in order.

    A transaction may be open, but not for longer than its timeout: the cluster may have other clients than those of the
    run.
    """
    cluster, partitions, transactions, hanging, queues = answers
    problems = []
    # A node whose id was given to it does not come back: its pod's successor gets another one.
    fenced = [str(one["node_id"]) for one in cluster["nodes"] if one["fenced"] and not one["given"]]
    if fenced:
        problems.append(f"nodes out of service: {', '.join(fenced)}")
    serving = sum(not one["fenced"] for one in cluster["nodes"])
    if serving < node_count:
        problems.append(f"{serving} of {node_count} nodes are in service")
    for what in ("leaderless_partition_count", "unowned_shard_count"):
        if cluster[what]:
            problems.append(f"{what.removesuffix('_count').replace('_', ' ')}s: {cluster[what]}")
    for row in partitions["partitions"]:
        name = f"{row['topic']}-{row['partition']}"
        if row["failure"]:
            problems.append(f"{name} does not answer: {row['failure']['detail']}")
        elif row["under_replicated"]:
            problems.append(f"{name} has replicas {row['replicas']}, in sync {row['isr']}")
    problems += [
        f"{one['transactional_id']} is in {one['state']}"
        for one in transactions["transactions"]
        if one["is_late"] or one["state"] != "Ongoing"
    ]
    problems += [
        f"{one['topic']}-{one['partition']} has a hanging transaction of producer {one['producer_id']}"
        for one in hanging["hanging"]
    ]
    problems += [
        f"{counted(one['marker_count'], 'marker')} wait for node {one['node']}"
        for one in queues["marker_queues"]
    ]
    for page in (partitions, transactions, hanging, queues):
        problems += [f"not complete: {one['detail']}" for one in page["incomplete"]]
    return problems


def settled(ask: Callable[[str], Any], node_count: int, timeout_s: float) -> Verdict:
    """Ask the gateway until the cluster of `node_count` nodes has settled, and return the verdict ok. `ask` returns the
    REST response to a GET of a path. After `timeout_s` seconds the verdict is broken, with what has not settled as its
    proof."""
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            problems = unsettled([ask(one) for one in QUESTIONS], node_count)
        except OncelogError as error:
            problems = [str(error)]
        if not problems:
            return Verdict(CHECKER, Answer.OK, len(QUESTIONS))
        if time.monotonic() > deadline:
            late = f"still so {timeout_s:.0f} s after the last reads"
            return Verdict(CHECKER, Answer.BROKEN, len(QUESTIONS), (*problems, late))
        time.sleep(LOOK_S)
