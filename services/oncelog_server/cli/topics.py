"""`oncelog topics`: topics and their configs, through Kafka's own admin protocol."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, TypedDict

import typer

from oncelog.client.core.admin_results import ConfigResource, NewTopic
from oncelog.client.errors import RefusedError
from oncelog.errors import ErrorCode
from oncelog.ids import INTERNAL_TOPICS
from oncelog.wording import counted
from oncelog_server.cli.kafka_clients import admin, existing_topic, told
from oncelog_server.cli.lazy import command_group
from oncelog_server.cli.options import AsOutput, Bootstrap, Yes, confirmed
from oncelog_server.cli.tables import printed_as_json, say, show_rows

if TYPE_CHECKING:
    from oncelog.client.blocking import Admin

app = command_group("List, create, change and delete topics.")
Name = Annotated[str, typer.Argument(help="the topic")]


@app.command("list")
def list_topics(
    internal: Annotated[bool, typer.Option("--internal", help="also Kafka's own topics")] = False,
    bootstrap: Bootstrap = "",
    output: AsOutput = None,
) -> None:
    """List topics and their partition counts. `oncelog partitions TOPIC` shows leaders and replicas."""
    with admin(bootstrap) as client:
        found = client.describe_topics()
    rows = [
        {
            "name": name,
            "partitions": len(found[name].partitions),
            "internal": name in INTERNAL_TOPICS,
        }
        for name in sorted(found)
        if internal or name not in INTERNAL_TOPICS
    ]
    if printed_as_json(rows, output):
        return
    show_rows(
        {"topic": "name", ">partitions": "partitions"},
        rows,
        empty="No topics yet; make one with: oncelog topics create NAME",
    )


@app.command("create")
def create_topic(
    name: Name,
    partitions: Annotated[
        int, typer.Option("--partitions", "-p", min=1, max=10_000, help="number of partitions")
    ] = 1,
    replication_factor: Annotated[
        int, typer.Option(min=-1, max=32_767, help="-1: the cluster's default")
    ] = -1,
    config: Annotated[
        list[str] | None, typer.Option("--config", "-c", metavar="NAME=VALUE", help="repeatable")
    ] = None,
    if_not_exists: Annotated[
        bool, typer.Option("--if-not-exists", help="do nothing if the topic exists")
    ] = False,
    bootstrap: Bootstrap = "",
) -> None:
    """Create a topic."""
    wanted = NewTopic(
        name, partitions, replication_factor, configs=_pairs(config or (), "--config")
    )
    with admin(bootstrap) as client, told("was not made", item=f"topic {name!r}"):
        try:
            client.create_topic(wanted)
        except RefusedError as error:
            if error.error_code is not ErrorCode.TOPIC_ALREADY_EXISTS or not if_not_exists:
                raise
            say(f"topic {name} is there already")
            return
    say(f"topic {name} made with {counted(partitions, 'partition')}")


@app.command("describe")
def describe_topic(name: Name, bootstrap: Bootstrap = "", output: AsOutput = None) -> None:
    """Show the configs that are not the default, and the node through which Kafka clients reach each partition.

    On a cluster that is a listener, which passes on to the leader; `oncelog partitions TOPIC` shows who leads.
    """
    with admin(bootstrap) as client:
        topic = existing_topic(client, name)
        found = _configs(client, name)
    changed = {one["name"]: one["value"] for one in found if not one["is_default"]}
    rows: list[dict[str, int | None]] = [
        {
            "partition": one.partition,
            "reached_through": one.leader if one.leader >= 0 else None,
        }
        for one in topic.partitions
    ]
    if printed_as_json({"name": name, "configs": changed, "partitions": rows}, output):
        return
    settings = ", ".join(f"{key}={value}" for key, value in changed.items())
    say(f"{name}: {counted(len(rows), 'partition')}; {settings or 'default configuration'}")
    columns = {">partition": "partition", ">reached through node": "reached_through"}
    show_rows(columns, rows, empty="")
    say(f"leaders and replicas: oncelog partitions {name}")


@app.command("delete")
def delete_topic(name: Name, yes: Yes = False, bootstrap: Bootstrap = "") -> None:
    """Delete a topic with all its records. This cannot be undone."""
    with admin(bootstrap) as client:
        existing_topic(client, name)
        confirmed(f"Delete topic {name} with all its records?", yes=yes)
        with told("was not deleted", item=f"topic {name!r}"):
            client.delete_topic(name)
    say(f"topic {name} deleted")


@app.command("add-partitions")
def add_partitions(
    name: Name,
    total: Annotated[int, typer.Argument(min=1, max=10_000, help="the new number of partitions")],
    bootstrap: Bootstrap = "",
) -> None:
    """Give a topic more partitions. Keys may go to other partitions from then on."""
    with admin(bootstrap) as client:
        before = len(existing_topic(client, name).partitions)
        with told("got no more partitions", item=f"topic {name!r}"):
            client.create_partitions({name: total}).check()
    say(f"topic {name} has {counted(total, 'partition')}, before {before}")


@app.command("configs")
def configs(
    name: Name,
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="repeatable")
    ] = None,
    unset: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="set it back to the default; repeatable"),
    ] = None,
    bootstrap: Bootstrap = "",
    output: AsOutput = None,
) -> None:
    """Show a topic's configuration. --set and --unset change it first."""
    changed: dict[str, str | None] = {
        **_pairs(set_ or (), "--set"),
        **dict.fromkeys(unset or ()),
    }
    with admin(bootstrap) as client:
        existing_topic(client, name)
        if changed:
            with told("were not changed", item=f"configs of topic {name!r}"):
                client.alter_configs(ConfigResource.TOPIC, name, changed)
        found = _configs(client, name)
    if printed_as_json(found, output):
        return
    show_rows(
        {
            "config": "name",
            "value": "value",
            "": lambda one: "" if one["is_default"] else "changed",
        },
        found,
        empty="The cluster tells no configuration of this topic",
    )


class _ShownConfig(TypedDict):
    name: str
    value: str | None
    is_default: bool


def _configs(client: "Admin", name: str) -> list["_ShownConfig"]:
    found = client.describe_configs(ConfigResource.TOPIC, name)
    return [
        {"name": key, "value": found[key].value, "is_default": found[key].is_default}
        for key in sorted(found)
    ]


def _pairs(given: Sequence[str], option: str) -> dict[str, str]:
    pairs = {}
    for one in given:
        name, equals, value = one.partition("=")
        if not equals or not name:
            raise typer.BadParameter(f"{option} {one!r} is not NAME=VALUE")
        pairs[name.strip()] = value.strip()
    return pairs
