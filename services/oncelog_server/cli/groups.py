"""`oncelog groups`: shows groups with their members and lag, through the gateway; resets offsets through Kafka's
protocol.
"""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Final, TypedDict, get_args

import typer

from oncelog.errors import OncelogError
from oncelog.ids import Partition
from oncelog.times import milliseconds_of
from oncelog.wording import counted
from oncelog_gateway.core.endings import shell_word
from oncelog_gateway.core.held_back import Holder
from oncelog_server.cli.cluster_answers import (
    Group,
    GroupAssignment,
    GroupDetail,
    GroupOffset,
    GroupOffsetPage,
    GroupPage,
    LsoHolder,
)
from oncelog_server.cli.lazy import command_group
from oncelog_server.cli.options import (
    AsOutput,
    Bootstrap,
    Execute,
    Gateway,
    Yes,
    as_spelled,
    confirmed,
    not_empty,
)
from oncelog_server.cli.rest import Rest, quoted
from oncelog_server.cli.tables import (
    of_partition,
    printed_as_json,
    say,
    show_fields,
    show_rows,
    show_table,
    warn_of_incomplete,
)

if TYPE_CHECKING:
    from oncelog.client.blocking import Admin


app = command_group("Show consumer groups, their lag and offsets; reset or delete them.")
PAGE: Final = 10_000
LAGS_MAX: Final = 500
"""Groups whose lag is read at most: each takes a request of its own."""
LAGS_AT_ONCE: Final = 8

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
    """List the groups of every coordinator, the lag of each, and the transaction that blocks it."""
    rest = Rest(gateway)
    page: GroupPage = rest.get("/v1/groups", {"state": state, "limit": PAGE})
    groups = page["groups"]
    offsets = _offsets(rest, [group["group_id"] for group in groups])
    rows = [_listed(*one) for one in zip(groups, offsets, strict=True)]
    if not printed_as_json(rows, output):
        show_rows(
            {
                "group": "group_id",
                "state": "state",
                "kind": lambda row: row["protocol_type"] or None,
                ">lag": "total_lag",
                "stands": "stands",
            },
            rows,
            empty="No group matches" if state else "No groups yet",
        )
        if len(rows) > LAGS_MAX:
            say(f"lag of the first {LAGS_MAX}; of another: oncelog groups offsets GROUP")
        if page["total"] > len(rows):
            say(f"{len(rows)} of {page['total']}")
    warn_of_incomplete(page["incomplete"])


class ListedGroup(Group):
    """A group in the list of groups, with sums over its partitions, such as the lag; None where they are not known."""

    total_lag: int | None
    total_readable: int | None
    total_held_back: int | None
    blocked_by: LsoHolder | None
    stands: str | None


def _listed(group: Group, offsets: GroupOffsetPage | None) -> ListedGroup:
    """Return a row of the list: the group, with its lag and what blocks it. Lag and block are None without `offsets`,
    and where an older gateway does not tell them.
    """
    return {
        **group,
        "total_lag": offsets and offsets.get("total_lag"),
        "total_readable": offsets and offsets.get("total_readable"),
        "total_held_back": offsets and offsets.get("total_held_back"),
        "blocked_by": offsets and offsets.get("blocked_by"),
        "stands": offsets and offsets.get("stands"),
    }


def _offsets(rest: "Rest", group_ids: list[str]) -> list[GroupOffsetPage | None]:
    """Return the committed offsets of each group. It is None where they cannot be read, and for groups after the first
    `LAGS_MAX`.
    """

    def offsets_of(group_id: str) -> GroupOffsetPage | None:
        try:
            found: GroupOffsetPage = rest.get(f"/v1/groups/{quoted(group_id)}/offsets")
        except OncelogError:
            return None  # It was deleted meanwhile, or its coordinator is away: the list says so itself.
        return found

    with ThreadPoolExecutor(LAGS_AT_ONCE) as pool:
        found = list(pool.map(offsets_of, group_ids[:LAGS_MAX]))
    return found + [None] * (len(group_ids) - len(found))


@app.command("describe")
def describe_group(group_id: GroupId, gateway: Gateway = "", output: AsOutput = None) -> None:
    """Show one group: its state, its members and their assignments."""
    found: GroupDetail = Rest(gateway).get(f"/v1/groups/{quoted(group_id)}")
    if printed_as_json(found, output):
        return
    show_fields(
        [
            ("group", found["group_id"]),
            ("state", found["state"]),
            ("assignor", found["protocol_name"] or "–"),
            ("coordinator", f"node {found['coordinator']}"),
        ]
    )
    show_rows(
        {
            "member": lambda one: one["group_instance_id"] or one["member_id"],
            "client": "client_id",
            "host": lambda one: one["client_host"].lstrip("/"),
            "partitions": lambda one: _assigned(one["assignments"]),
        },
        found["members"],
        empty="no members",
    )


@app.command("offsets")
def group_offsets(group_id: GroupId, gateway: Gateway = "", output: AsOutput = None) -> None:
    """Show a group's committed offsets, its lag, and what an open transaction holds back. Commit markers count."""
    query = {"limit": PAGE, "count_records": "true"}
    found: GroupOffsetPage = Rest(gateway).get(f"/v1/groups/{quoted(group_id)}/offsets", query)
    if printed_as_json(found, output):
        return
    show_rows(
        {
            "partition": of_partition,
            ">offset": "offset",
            ">end": "log_end_offset",
            ">lag": "lag",
            ">records": _records,
            ">held": lambda one: one.get("held_back"),
            "note": _note,
        },
        found["offsets"],
        empty=f"Group {group_id} has committed nothing",
    )
    if found["offsets"]:
        say(f"{counted(found['total_lag'], 'offset')} behind (commit markers count)" + _held(found))


def _held(found: GroupOffsetPage) -> str:
    """Return in words how much of a group's lag open transactions hold back, and the command that explains it. Empty if
    nothing is held back.
    """
    if not found.get("total_held_back"):
        return ""
    held = f", {found['total_held_back']} of them held back by open transactions"
    if not found["blocked_by"]:
        return held
    group = shell_word(found["group_id"])
    return f"{held}; {found['stands']}: oncelog transactions explain {group}"


def _records(offset: GroupOffset) -> str:
    """Return as text how many records a read_committed reader would get after this offset. A `+` says that more follows
    than was read.
    """
    if offset["lag"] == 0:
        return "0"
    behind = offset["behind"]
    if behind is None:
        return "–"
    return f"{behind['records']}{'' if behind['is_whole'] else '+'}"


def _note(offset: GroupOffset) -> str:
    """Return the last column of an offset's row. It names the transaction that holds the group back, open transactions
    that are about to change the offset, and the metadata committed with it.
    """
    holder = offset.get("held_by")
    unstable = [
        f"unstable: {one['transactional_id'] or 'producer {}'.format(one['producer_id'])}, "
        f"{one['coordinator_state'] or 'unknown to every coordinator'}"
        for one in offset["unstable_by"]
    ]
    held = []
    if holder:
        word = _holder(holder).holding if offset["is_blocked"] else "held"
        held = [f"{word} by {_holder(holder).words}"]
    return "; ".join(filter(None, [*held, *unstable, offset["metadata"]]))


def _holder(found: LsoHolder) -> Holder:
    return Holder(
        found["transactional_id"],
        found["producer_id"],
        found["age_ms"],
        found["idle_ms"],
        found["hanging"],
    )


@app.command("delete")
def delete_group(group_id: GroupId, yes: Yes = False, gateway: Gateway = "") -> None:
    """Delete a group without members, with its offsets."""
    confirmed(f"Delete group {group_id} and its offsets?", yes=yes)
    Rest(gateway).delete(f"/v1/groups/{quoted(group_id)}")
    say(f"group {group_id} is deleted")


@app.command("reset-offsets")
def reset_offsets(
    group_id: GroupId,
    topic: Annotated[str, typer.Option(help="topic whose offsets are reset")],
    to: Annotated[
        str | None, typer.Option(metavar="beginning|end|N", help="the new committed offset")
    ] = None,
    to_datetime: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="instead: at the first record from then on, 2026-01-31T14:00:00Z or milliseconds since 1970",
        ),
    ] = None,
    partition: Annotated[
        list[int] | None, typer.Option(min=0, help="only this partition; repeatable")
    ] = None,
    execute: Execute = False,
    bootstrap: Bootstrap = "",
    output: AsOutput = None,
) -> None:
    """Reset the offsets of a group without members. An offset outside the log becomes its nearer end."""
    # Imported late: the other commands talk REST.
    from oncelog_server.cli.kafka_clients import admin, existing_partitions, told

    target = _target(to, to_datetime)
    with admin(bootstrap) as client:
        chosen = [Partition(topic, one) for one in existing_partitions(client, topic, partition)]
        moves = _moves(client, group_id, chosen, target)
        if execute:
            with told(f"group {group_id} was not moved"):
                client.alter_group_offsets(
                    group_id, {Partition(topic, one["partition"]): one["to"] for one in moves}
                ).check()
    if printed_as_json({"group_id": group_id, "executed": execute, "offsets": moves}, output):
        return
    show_table(
        ["partition", ">from", ">to"],
        [(f"{topic}-{one['partition']}", one["from"], one["to"]) for one in moves],
        empty="no partitions",
    )
    if not execute:
        say("nothing was moved; add --execute to do it")


Move = TypedDict("Move", {"partition": int, "from": int | None, "to": int})
"""A partition whose committed offset is reset, as the command prints it in JSON."""


@dataclass(frozen=True, slots=True)
class Target:
    """The offset to reset to: `beginning` or `end`, an offset, or a time."""

    end: str | None = None
    offset: int = 0
    from_ms: int | None = None


def _target(to: str | None, to_datetime: str | None) -> Target:
    if (to is None) == (to_datetime is None):
        raise typer.BadParameter("give either --to or --to-datetime")
    if to_datetime is not None:
        try:
            return Target(from_ms=milliseconds_of(to_datetime))
        except ValueError as error:
            raise typer.BadParameter(f"--to-datetime {error}") from None
    assert to is not None, "one of both is given"
    if to in ("beginning", "end"):
        return Target(end=to)
    if not (to.isascii() and to.isdigit()):
        raise typer.BadParameter(f"--to {to!r} is neither beginning, end nor a number")
    return Target(offset=int(to))


def _moves(
    client: "Admin", group_id: str, partitions: list[Partition], target: Target
) -> list[Move]:
    from oncelog.client.admin import EARLIEST, LATEST

    def offsets(at: int) -> dict[Partition, int]:
        found = client.list_offsets(dict.fromkeys(partitions, at))
        return {one: place.offset for one, place in found.items() if place is not None}

    first, end = offsets(EARLIEST), offsets(LATEST)
    if target.from_ms is not None:
        wanted = {**end, **offsets(target.from_ms)}
    else:
        ends = {"beginning": first, "end": end}
        wanted = ends.get(target.end or "", dict.fromkeys(partitions, target.offset))
    committed = client.list_group_offsets(group_id, partitions)
    return [
        {
            "partition": one.partition,
            "from": committed[one].offset if one in committed else None,
            "to": min(max(wanted[one], first[one]), end[one]),
        }
        for one in partitions
    ]


def _assigned(assignments: list[GroupAssignment] | None) -> str:
    if assignments is None:
        return "not a consumer's assignment"
    return ", ".join(f"{one['topic']} {_ranges(one['partitions'])}" for one in assignments) or "–"


def _ranges(numbers: list[int]) -> str:
    """Return sorted partition numbers as ranges, `0-3,7`, because a member may have hundreds."""
    ranges: list[list[int]] = []
    for one in numbers:
        if ranges and ranges[-1][1] == one - 1:
            ranges[-1][1] = one
        else:
            ranges.append([one, one])
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in ranges)
