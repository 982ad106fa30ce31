"""`oncelog topics`: through Kafka's own admin protocol."""

from collections.abc import Callable, Sequence
from typing import Annotated, Any

import typer
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
)

from oncelog.errors import OncelogError
from oncelog.ids import INTERNAL_TOPICS
from oncelog.wording import counted
from oncelog_server.cli.lazy import command_group
from oncelog_server.cli.librdkafka_clients import (
    CALL_TIMEOUT_S,
    admin,
    existing_topic,
    topics,
    words,
)
from oncelog_server.cli.options import AsOutput, Bootstrap, Yes, confirmed
from oncelog_server.cli.tables import printed_as_json, say, show_rows

app = command_group("List, create, change and delete topics.")
Name = Annotated[str, typer.Argument(help="the topic")]


@app.command("list")
def list_topics(
    internal: Annotated[bool, typer.Option("--internal", help="also Kafka's own topics")] = False,
    bootstrap: Bootstrap = "",
    output: AsOutput = None,
) -> None:
    """List topics and their partition counts. `oncelog partitions TOPIC` shows leaders and replicas."""
    found = topics(admin(bootstrap))
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
        name,
        num_partitions=partitions,
        replication_factor=replication_factor,
        config=_pairs(config or (), "--config"),
    )
    # The client must live until the answer is here, hence a name of its own.
    client = admin(bootstrap)
    futures = client.create_topics([wanted], operation_timeout=CALL_TIMEOUT_S)
    try:
        futures[name].result(CALL_TIMEOUT_S)
    except KafkaException as error:
        if error.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS and if_not_exists:
            say(f"topic {name} is there already")
            return
        raise OncelogError(f"topic {name!r} was not made: {words(error.args[0])}") from None
    except TimeoutError:
        raise OncelogError(_unanswered(f"making topic {name!r}")) from None
    say(f"topic {name} made with {counted(partitions, 'partition')}")


@app.command("describe")
def describe_topic(name: Name, bootstrap: Bootstrap = "", output: AsOutput = None) -> None:
    """What is configured differently, and the node through which Kafka clients reach each partition.

    On a cluster that is a listener, which passes on to the leader; `oncelog partitions TOPIC` shows who leads.
    """
    client = admin(bootstrap)
    topic = existing_topic(client, name)
    changed = {one["name"]: one["value"] for one in _configs(client, name) if not one["is_default"]}
    rows: list[dict[str, Any]] = [
        {
            "partition": one.id,
            "reached_through": one.leader if one.leader >= 0 else None,
        }
        for one in sorted(topic.partitions.values(), key=lambda one: one.id)
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
    client = admin(bootstrap)
    existing_topic(client, name)
    confirmed(f"Delete topic {name} with all its records?", yes=yes)
    futures = client.delete_topics([name], operation_timeout=CALL_TIMEOUT_S)
    _wait(futures[name].result, f"deleting topic {name!r}")
    say(f"topic {name} deleted")


@app.command("add-partitions")
def add_partitions(
    name: Name,
    total: Annotated[int, typer.Argument(min=1, max=10_000, help="the new number of partitions")],
    bootstrap: Bootstrap = "",
) -> None:
    """Give a topic more partitions. Keys may go to other partitions from then on."""
    client = admin(bootstrap)
    before = len(existing_topic(client, name).partitions)
    futures = client.create_partitions(
        [NewPartitions(name, total)], operation_timeout=CALL_TIMEOUT_S
    )
    _wait(futures[name].result, f"adding partitions to topic {name!r}")
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
    client = admin(bootstrap)
    existing_topic(client, name)
    if set_ or unset:
        _alter(client, name, _pairs(set_ or (), "--set"), unset or ())
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


def _alter(
    client: "AdminClient", name: str, changed: dict[str, str], removed: Sequence[str]
) -> None:
    entries = [
        ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
        for key, value in changed.items()
    ]
    entries += [
        ConfigEntry(key, None, incremental_operation=AlterConfigOpType.DELETE) for key in removed
    ]
    resource = ConfigResource(ConfigResource.Type.TOPIC, name, incremental_configs=entries)
    for answer in client.incremental_alter_configs([resource]).values():
        _wait(answer.result, f"configuring topic {name!r}")


def _configs(client: "AdminClient", name: str) -> list[dict[str, Any]]:
    answers = client.describe_configs([ConfigResource(ConfigResource.Type.TOPIC, name)])
    (answer,) = answers.values()
    found = _wait(answer.result, f"reading the configuration of topic {name!r}")
    return [
        {"name": key, "value": found[key].value, "is_default": bool(found[key].is_default)}
        for key in sorted(found)
    ]


def _wait(result: Callable[[float], Any], what: str) -> Any:
    try:
        return result(CALL_TIMEOUT_S)
    except KafkaException as error:
        raise OncelogError(f"{what} failed: {words(error.args[0])}") from None
    except TimeoutError:
        raise OncelogError(_unanswered(what)) from None


def _unanswered(what: str) -> str:
    return f"{what} was not answered in time; whether it happened is not known: look before you repeat it"


def _pairs(given: Sequence[str], option: str) -> dict[str, str]:
    pairs = {}
    for one in given:
        name, equals, value = one.partition("=")
        if not equals or not name:
            raise typer.BadParameter(f"{option} {one!r} is not NAME=VALUE")
        pairs[name.strip()] = value.strip()
    return pairs
