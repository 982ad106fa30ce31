"""The twelfth incident (docs/operations.md): a prepared transaction holds readers, and its application stays away."""

import asyncio
import json

import pytest
from confluent_kafka import TopicPartition
from tests.incidents.scenes import (
    WAIT_S,
    consumer,
    eventually,
    explained,
    new_topic,
    producer,
    shown,
    text_of,
    write,
)
from tests.incidents.two_phase import keep_and_die, leave_prepared, two_phase_target
from tests.integration.cli.commands import calling
from tests.integration.client.writers import fresh

from oncelog.client import Admin, Partition


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with two_phase_target(tmp_path_factory.mktemp("oncelog")) as running:
        yield running


@pytest.fixture(scope="module")
def oncelog(server):
    with calling(server.bootstrap, server.gateway, COLUMNS="100") as call:
        yield call


@pytest.fixture
def name():
    return fresh("pay")


@pytest.fixture
def topic(server, name):
    return new_topic(server.bootstrap, f"t-{name}")


def values_of(reader, count):
    """So many, or what comes in some seconds."""
    found = reader.consume(count, 2 if count > 1 else 1)
    return [one.value() for one in found if not one.error()]


@pytest.mark.parametrize("outcome", ["commit", "abort"])
def test_an_orphan_holds_a_group_until_an_operator_ends_it(server, oncelog, topic, name, outcome):
    group = f"g-{name}"
    prepared = leave_prepared(server.bootstrap, name, topic, b"a", b"b", b"c")
    behind = producer(server.bootstrap, f"{name}-behind")
    write(behind, topic, b"behind")
    behind.commit_transaction(WAIT_S)
    reader = consumer(server.bootstrap, group, topic)
    eventually(lambda: reader.assignment() or reader.poll(0.1))
    assert values_of(reader, 1) == []
    reader.commit(offsets=[TopicPartition(topic, 0, 0)], asynchronous=False)
    for subject in (group, f"{topic}-0", name):
        found = explained(server.gateway, subject)
        assert found["incident"] == "two-phase-undecided", found
        assert f"two-phase transaction {prepared}" in found["verdict"]
        assert "No time-out ends it" in found["verdict"]
        assert f"Compare that text with {prepared}" in text_of(found)
    shown(
        server.gateway,
        group,
        "two-phase-undecided",
        f"oncelog transactions complete --prepared {prepared} --{outcome} {name}",
        "Stop the application before you decide",
    )
    command = next(
        one["command"].split()[1:]
        for one in found["next_commands"]
        if f"--{outcome}" in one["command"]
    )
    assert "would be" in oncelog(*command)
    assert explained(server.gateway, name)["incident"] == "two-phase-undecided"
    assert "audit" in oncelog(*command, "--execute")
    seen = []
    expected = [b"a", b"b", b"c"] * (outcome == "commit") + [b"behind"]
    eventually(lambda: seen.extend(values_of(reader, 4)) or len(seen) >= len(expected))
    assert seen == expected
    reader.close()
    # The next producer of this id finds nothing open: what the operator did stays.
    assert keep_and_die(server.bootstrap, name) == "None"


def test_commands_show_whose_it_is_and_what_it_holds(server, oncelog, topic, name):
    prepared = leave_prepared(server.bootstrap, name, topic, b"a", b"b")
    assert keep_and_die(server.bootstrap, name) == prepared
    table = oncelog("transactions", "prepared")
    assert max(map(len, table.splitlines())) <= 100
    row = next(line for line in table.splitlines() if line.startswith(name))
    assert prepared in row
    assert "kept" in row
    assert f"{topic}-0" in row
    assert row.split()[-2] == "2"
    (found,) = [
        one
        for one in json.loads(oncelog("transactions", "prepared", "-o", "json"))
        if one["transactional_id"] == name
    ]
    assert (found["prepared"], found["held_back"], found["is_kept"]) == (prepared, 2, True)
    described = oncelog("transactions", "describe", name)
    assert prepared in described
    assert "none, two-phase" in described
    explained_text = oncelog("transactions", "explain", name)
    assert "It was kept for the newer producer" in " ".join(explained_text.split())
    complete = ("transactions", "complete", name, "--prepared", prepared)
    assert "give --commit if" in " ".join(oncelog(*complete, code=2).replace("│", " ").split())
    other = ("transactions", "complete", name, "--prepared", "1:0", "--commit")
    assert f"that is {prepared}" in oncelog(*other, code=1)
    assert "is aborted" in oncelog(*complete, "--abort", "--execute")
    assert "nothing is left to decide" in oncelog(*complete, "--abort", code=1)
    assert name not in oncelog("transactions", "prepared")


@pytest.mark.parametrize("is_kept", [False, True])
def test_the_admin_client_sees_and_terminates_it(server, topic, name, is_kept):
    """Kafka's forceTerminateTransaction aborts: it is for who has no text to compare."""
    prepared = leave_prepared(server.bootstrap, name, topic, b"a")
    if is_kept:
        assert keep_and_die(server.bootstrap, name) == prepared

    async def terminate():
        async with Admin(server.bootstrap) as admin:
            described = (await admin.describe_transactions([name]))[name]
            assert described.state == "Ongoing"
            assert Partition(topic, 0) in described.partitions
            assert name in [one.transactional_id for one in await admin.list_transactions()]
            return await admin.force_terminate_transaction(name)

    fenced = asyncio.run(terminate())
    assert fenced.producer_id >= 0
    eventually(lambda: explained(server.gateway, name)["incident"] != "two-phase-undecided")
    assert keep_and_die(server.bootstrap, name) == "None"
    reader = consumer(server.bootstrap, f"g-{name}", topic)
    assert values_of(reader, 1) == []
    reader.close()
