"""`oncelog nodes`: shows what nodes lead and own, and moves it elsewhere before a node stops."""

import sys
import time
from typing import Annotated, Final

import typer

from oncelog.errors import OncelogError
from oncelog.wording import counted
from oncelog_server.cli.cluster_answers import NodePage, NodeStatus
from oncelog_server.cli.lazy import command_group
from oncelog_server.cli.node_moves import MoveCommand, await_fenced, selected
from oncelog_server.cli.options import AsOutput, Gateway, Output, Yes, confirmed
from oncelog_server.cli.rest import Rest
from oncelog_server.cli.tables import (
    printed_as_json,
    say,
    show_json,
    show_rows,
    warn_of_incomplete,
)

app = command_group(
    "Show nodes; drain them, move replicas off storage nodes, balance replicas, remove stopped nodes."
)
POLL_S: Final = 0.2
ROLE_COUNT: Final = 6

REMOVABLE_ROLES: Final = ("storage", "coordinator", "listener", "marker_sender", "gateway")

NodeId = Annotated[int, typer.Argument(min=1, help="as `oncelog nodes list` shows it")]
NodeIds = Annotated[
    list[int] | None, typer.Argument(min=1, help="as `oncelog nodes list` shows them")
]
SelectedRole = Annotated[
    str | None,
    typer.Option("--role", help="instead of node ids: the nodes of this role", show_default=False),
]
FromId = Annotated[
    int | None,
    typer.Option("--from-id", min=1, help="with --role: from this node id on", show_default=False),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="only show the moves")]
WaitForMoves = Annotated[
    bool,
    typer.Option("--wait/--no-wait", help="wait until all is moved, or only begin the first moves"),
]
MoveTimeout = Annotated[float, typer.Option("--timeout", min=0, help="seconds to wait at most")]
InMotion = Annotated[
    int, typer.Option("--in-motion", min=1, max=1000, help="partitions that copy replicas at once")
]


@app.command("list")
def list_nodes(gateway: Gateway = "", output: AsOutput = None) -> None:
    """List the nodes, their partitions and shards, and the active controller."""
    found: NodePage = Rest(gateway).get("/v1/nodes", {"limit": 10_000})
    if not printed_as_json(found, output):
        show_rows(
            {
                ">node": "node_id",
                "roles": _roles,
                "address": lambda one: one["rpc_address"] or one["kafka_address"],
                "state": _state,
                ">leads": "leader_count",
                ">replicas": "replica_count",
                ">shards": _shards,
            },
            found["nodes"],
            empty="No node is registered",
        )
        active = found["controller"]
        if active:
            place = f" at {active['rpc_address']}" if active["rpc_address"] else ""
            say(f"controller {active['controller_id']}{place}, epoch {active['controller_epoch']}")
    warn_of_incomplete(found["incomplete"], "no controller")


@app.command("drain")
def drain_node(
    node_id: NodeId,
    wait: Annotated[
        bool, typer.Option("--wait/--no-wait", help="until nothing is left to be moved")
    ] = True,
    timeout_s: Annotated[
        float, typer.Option("--timeout", min=0, help="seconds to wait at most")
    ] = 120.0,
    gateway: Gateway = "",
    output: AsOutput = None,
) -> None:
    """Move leaders and shards off a node. Its replicas stay. A restart of the node ends the drain."""
    rest = Rest(gateway)
    node: NodeStatus = rest.post(f"/v1/nodes/{node_id}/drain")["node"]
    if wait:
        node = _drained(rest, node, timeout_s)
    if output == Output.JSON:
        show_json(node)
    elif not node["drained"]:
        say(f"node {node_id} is draining; `oncelog nodes list` shows how far it is")
    elif node["leader_count"] or _shards(node):
        say(f"node {node_id} is drained but for what no other node could take: {_left(node)}")
    else:
        say(f"node {node_id} is drained: it leads nothing and owns no shard")


@app.command("undrain")
def undrain_node(node_id: NodeId, gateway: Gateway = "", output: AsOutput = None) -> None:
    """End a drain. Leaders return within some ten seconds."""
    node: NodeStatus = Rest(gateway).delete(f"/v1/nodes/{node_id}/drain")["node"]
    if not printed_as_json(node, output):
        say(f"node {node_id} is in service again; leaders and shards come back to it")


@app.command("evacuate")
def evacuate_nodes(
    node_ids: NodeIds = None,
    role: SelectedRole = None,
    from_id: FromId = None,
    dry_run: DryRun = False,
    wait: WaitForMoves = True,
    timeout_s: MoveTimeout = 600.0,
    in_motion_max: InMotion = 10,
    gateway: Gateway = "",
    output: AsOutput = None,
) -> None:
    """Move every replica off storage nodes to other live ones. Then the nodes are drained and may be stopped.

    Clients may write meanwhile. After an interruption, moves that have begun go on; run the command again for the rest.
    """
    rest = Rest(gateway)
    chosen = selected(rest, node_ids, role, from_id, ("storage",), output)
    if chosen:
        names = (
            "node " + str(chosen[0]) if len(chosen) == 1 else "nodes " + ", ".join(map(str, chosen))
        )
        command = MoveCommand(rest, "evacuate", {"node_ids": chosen}, f"evacuating {names}", output)
        command.run(in_motion_max, timeout_s, dry_run=dry_run, wait=wait)


@app.command("balance")
def balance_nodes(
    dry_run: DryRun = False,
    wait: WaitForMoves = True,
    timeout_s: MoveTimeout = 600.0,
    in_motion_max: InMotion = 10,
    gateway: Gateway = "",
    output: AsOutput = None,
) -> None:
    """Spread replicas and preferred leaders evenly over all live storage nodes that do not drain.

    Clients may write meanwhile. Leaders move within some ten seconds.
    """
    command = MoveCommand(Rest(gateway), "balance", {}, "balancing", output)
    command.run(in_motion_max, timeout_s, dry_run=dry_run, wait=wait)


@app.command("remove")
def remove_nodes(
    node_ids: NodeIds = None,
    role: SelectedRole = None,
    from_id: FromId = None,
    timeout_s: Annotated[
        float | None,
        typer.Option(
            "--timeout",
            min=0,
            help="seconds to wait for them to stop (default: 120 with --from-id, else 0)",
            show_default=False,
        ),
    ] = None,
    yes: Yes = False,
    gateway: Gateway = "",
) -> None:
    """Remove stopped nodes without replicas from the metadata."""
    rest = Rest(gateway)
    chosen = selected(rest, node_ids, role, from_id, REMOVABLE_ROLES, None)
    if not chosen:
        return
    names = "node " + str(chosen[0]) if len(chosen) == 1 else "nodes " + ", ".join(map(str, chosen))
    confirmed(f"Forget {names}?", yes=yes)
    await_fenced(rest, chosen, (0.0 if node_ids else 120.0) if timeout_s is None else timeout_s)
    for node_id in chosen:
        rest.delete(f"/v1/nodes/{node_id}")
        say(f"node {node_id} is forgotten")


def _roles(node: NodeStatus) -> str:
    """Return the roles of a node, or `all`: the names of all of them would take a screen's width."""
    return "all" if len(node["roles"]) == ROLE_COUNT else ", ".join(node["roles"])


def _drained(rest: "Rest", node: NodeStatus, timeout_s: float) -> NodeStatus:
    """Wait until the node is drained, and return its status. On a terminal a line shows what is still to be moved."""
    node_id = node["node_id"]
    deadline = time.monotonic() + timeout_s
    shown = ""
    while node["draining"] and not node["drained"]:
        if time.monotonic() >= deadline:
            _progress(None)
            raise OncelogError(
                f"node {node_id} is still draining after {timeout_s:g} s ({_left(node)}) and goes on; "
                f"`oncelog nodes undrain {node_id}` takes it back"
            )
        text = f"draining node {node_id}: {_left(node)}"
        if text != shown:
            _progress(text)
            shown = text
        time.sleep(POLL_S)
        node = rest.get(f"/v1/nodes/{node_id}")
    _progress(None)
    if not node["draining"]:
        raise OncelogError(
            f"node {node_id} is not draining any more: it was restarted, or somebody took it back"
        )
    return node


def _progress(text: str | None) -> None:
    """Show a line of progress on the terminal, in place of the last one; None removes it."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\x1b[K{(text or '')[:79]}")
    elif text is not None:
        sys.stderr.write(text + "\n")
    sys.stderr.flush()


def _left(node: NodeStatus) -> str:
    return f"leads {node['leader_count']}, owns {counted(_shards(node), 'shard')}"


def _shards(node: NodeStatus) -> int:
    return node["transaction_shard_count"] + node["group_shard_count"]


def _state(node: NodeStatus) -> str:
    if node["fenced"]:
        return "fenced"
    if node["drained"]:
        return "drained"
    return "draining" if node["draining"] else "live"
