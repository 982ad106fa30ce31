"""`oncelog groups`: who reads what and how far behind, through the gateway; offsets are moved through Kafka."""

from typing import TYPE_CHECKING, Annotated, Any, Final, get_args

import typer

from oncelog.errors import OncelogError
from oncelog.wording import counted
from oncelog_server.cli.options import (
    AsOutput,
    Bootstrap,
    Gateway,
    Output,
    Yes,
    as_spelled,
    confirmed,
    not_empty,
)

if TYPE_CHECKING:
    from confluent_kafka import Consumer

app = typer.Typer(
    add_completion=False,
    help="See consumer groups, their lag and offsets; move or delete them.",
    no_args_is_help=True,
)
PAGE: Final = 10_000

GroupId = Annotated[str, typer.Argument(callback=not_empty, help="the group.id")]


def _states(given: list[str] | None) -> list[str] | None:
    from oncelog_gateway.routes.groups import GroupState

    return given and as_spelled(given, get_args(GroupState))


@app.command("list")
def list_groups(
    state: Annotated[
        list[str] | None,
        typer.Option(
            callback=_states,
            help="Empty, PreparingRebalance, CompletingRebalance, Assigning, Reconciling, Stable or Dead; repeatable",
        ),
    ] = None,
    gateway: Gateway = "",
    output: AsOutput = None,
) -> None:
    """Every group that a coordinator knows."""
    from oncelog_server.cli.rest import Rest
    from oncelog_server.cli.tables import say, show_json, show_table, warn

    page = Rest(gateway).get("/v1/groups", {"state": state, "limit": PAGE})
    rows = page["groups"]
    if output == Output.JSON:
        show_json(rows)
    else:
        show_table(
            ["group", "state", "kind"],
            [(row["group_id"], row["state"], row["protocol_type"] or "–") for row in rows],
            empty="No group matches" if state else "No groups yet",
        )
        if page["total"] > len(rows):
            say(f"{len(rows)} of {page['total']}")
    for failure in page["incomplete"]:
        warn(f"not complete: {failure['kafka_error_name']}, {failure['detail']}")
    if page["incomplete"]:
        raise typer.Exit(1)


@app.command("describe")
def describe_group(group_id: GroupId, gateway: Gateway = "", output: AsOutput = None) -> None:
    """One group: its state, its members and what each reads."""
    from oncelog_server.cli.rest import Rest, quoted
    from oncelog_server.cli.tables import show_fields, show_json, show_table

    found = Rest(gateway).get(f"/v1/groups/{quoted(group_id)}")
    if output == Output.JSON:
        show_json(found)
        return
    show_fields(
        [
            ("group", found["group_id"]),
            ("state", found["state"]),
            ("assignor", found["protocol_name"] or "–"),
            ("coordinator", f"node {found['coordinator']}"),
        ]
    )
    show_table(
        ["member", "client", "host", "partitions"],
        [
            (
                one["group_instance_id"] or one["member_id"],
                one["client_id"],
                one["client_host"].lstrip("/"),
                _assigned(one["assignments"]),
            )
            for one in found["members"]
        ],
        empty="no members",
    )


@app.command("offsets")
def group_offsets(group_id: GroupId, gateway: Gateway = "", output: AsOutput = None) -> None:
    """What a group has committed, and how many offsets come after it (commit markers count)."""
    from oncelog_server.cli.rest import Rest, quoted
    from oncelog_server.cli.tables import number, say, show_json, show_table

    found = Rest(gateway).get(f"/v1/groups/{quoted(group_id)}/offsets")
    if output == Output.JSON:
        show_json(found)
        return
    show_table(
        ["partition", ">offset", ">end", ">lag", "note"],
        [
            (
                f"{one['topic']}-{one['partition']}",
                number(one["offset"]),
                number(one["log_end_offset"]),
                number(one["lag"]),
                one["metadata"],
            )
            for one in found["offsets"]
        ],
        empty=f"Group {group_id} has committed nothing",
    )
    if found["offsets"]:
        say(f"{counted(found['total_lag'], 'offset')} behind (commit markers count)")


@app.command("delete")
def delete_group(group_id: GroupId, yes: Yes = False, gateway: Gateway = "") -> None:
    """Delete a group without members, with its offsets."""
    from oncelog_server.cli.rest import Rest, quoted
    from oncelog_server.cli.tables import say

    confirmed(f"Delete group {group_id} and its offsets?", yes=yes)
    Rest(gateway).delete(f"/v1/groups/{quoted(group_id)}")
    say(f"group {group_id} is deleted")


@app.command("reset-offsets")
def reset_offsets(
    group_id: GroupId,
    topic: Annotated[str, typer.Option(help="its partitions are moved")],
    to: Annotated[str, typer.Option(metavar="beginning|end|N", help="where reading goes on")],
    partition: Annotated[
        list[int] | None, typer.Option(min=0, help="only this one; repeatable")
    ] = None,
    execute: Annotated[
        bool, typer.Option("--execute", help="do it; without this, only show what would happen")
    ] = False,
    bootstrap: Bootstrap = "",
    output: AsOutput = None,
) -> None:
    """Move a group that has no members. A number outside the log moves to its nearer end."""
    from oncelog_server.cli import kafka_clients
    from oncelog_server.cli.tables import say, show_json, show_table

    if to not in ("beginning", "end") and not (to.isascii() and to.isdigit()):
        raise typer.BadParameter(f"--to {to!r} is neither beginning, end nor a number")
    client = kafka_clients.consumer(bootstrap, {"group.id": group_id, "enable.auto.commit": False})
    try:
        chosen = kafka_clients.existing_partitions(client, topic, partition)
        with kafka_clients.kafka_errors():
            moves = [_move(client, topic, one, to) for one in chosen]
    finally:
        client.close()
    if execute:
        _commit(bootstrap, group_id, topic, moves)
    if output == Output.JSON:
        show_json({"group_id": group_id, "executed": execute, "offsets": moves})
        return
    show_table(
        ["partition", ">from", ">to"],
        [(f"{topic}-{one['partition']}", one["from"], one["to"]) for one in moves],
        empty="no partitions",
    )
    if not execute:
        say("nothing was moved; add --execute to do it")


def _move(client: "Consumer", topic: str, partition: int, to: str) -> dict[str, Any]:
    from confluent_kafka import TopicPartition

    from oncelog_server.cli.kafka_clients import CALL_TIMEOUT_S

    place = TopicPartition(topic, partition)
    first, end = client.get_watermark_offsets(place, timeout=CALL_TIMEOUT_S)
    (committed,) = client.committed([place], timeout=CALL_TIMEOUT_S)
    target = {"beginning": first, "end": end}.get(to)
    return {
        "partition": partition,
        "from": committed.offset if committed.offset >= 0 else None,
        "to": min(max(int(to), first), end) if target is None else target,
    }


def _commit(bootstrap: str, group_id: str, topic: str, moves: list[dict[str, Any]]) -> None:
    from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition

    from oncelog_server.cli import kafka_clients

    wanted = ConsumerGroupTopicPartitions(
        group_id, [TopicPartition(topic, one["partition"], one["to"]) for one in moves]
    )
    admin = kafka_clients.admin(bootstrap)
    with kafka_clients.kafka_errors():
        answer = admin.alter_consumer_group_offsets([wanted])[group_id]
        for one in answer.result(kafka_clients.CALL_TIMEOUT_S).topic_partitions or ():
            if one.error is not None:
                raise OncelogError(
                    f"group {group_id} was not moved in {topic}-{one.partition}: {kafka_clients.words(one.error)}"
                )


def _assigned(assignments: list[dict[str, Any]] | None) -> str:
    if assignments is None:
        return "not a consumer's assignment"
    return ", ".join(f"{one['topic']} {_ranges(one['partitions'])}" for one in assignments) or "–"


def _ranges(numbers: list[int]) -> str:
    """0-3,7: a member may have hundreds."""
    ranges: list[list[int]] = []
    for one in numbers:
        if ranges and ranges[-1][1] == one - 1:
            ranges[-1][1] = one
        else:
            ranges.append([one, one])
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in ranges)
