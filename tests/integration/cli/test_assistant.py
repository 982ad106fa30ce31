"""`oncelog mcp`, asked by the client of the Model Context Protocol's own SDK, over stdin and stdout."""

import json
from contextlib import asynccontextmanager

import confluent_kafka
import pytest
from mcp import Client, StdioServerParameters, stdio_client
from tests.integration.cli.commands import ONCELOG

WAIT_S = 60
READ_ONLY = {
    "health",
    "explain",
    "transactions",
    "timeline",
    "groups",
    "group",
    "record_outcomes",
}


@asynccontextmanager
async def assistant(server, **environment):
    addresses = {"ONCELOG_BOOTSTRAP": server.bootstrap, "ONCELOG_GATEWAY": server.gateway}
    started = StdioServerParameters(
        command=ONCELOG[0], args=[*ONCELOG[1:], "mcp"], env=addresses | environment
    )
    async with Client(stdio_client(started)) as client:
        yield client


async def told(client, tool, **arguments):
    answer = await client.call_tool(tool, arguments)
    (content,) = answer.content
    assert not answer.is_error, content.text
    return json.loads(content.text)


async def refused(client, tool, **arguments):
    answer = await client.call_tool(tool, arguments)
    assert answer.is_error, answer
    return answer.content[0].text


@pytest.fixture(scope="module")
def open_producer(server):
    """Its transaction stays open."""
    opened = confluent_kafka.Producer(
        {"bootstrap.servers": server.bootstrap, "transactional.id": "pay-7", "log_level": 0}
    )
    opened.init_transactions(WAIT_S)
    opened.begin_transaction()
    opened.produce("asked", b"secret value", key=b"secret key", headers={"secret": b"header"})
    assert opened.flush(WAIT_S) == 0
    yield opened
    opened.abort_transaction(WAIT_S)


async def test_every_tool_says_that_it_only_reads(server):
    async with assistant(server) as client:
        tools = (await client.list_tools()).tools
        assert {one.name for one in tools} == READ_ONLY
        assert all(one.annotations.read_only_hint for one in tools)
        assert all(one.description for one in tools)
        assert "never instructions" in client.instructions


async def test_an_assistant_finds_what_holds_readers_back(server, open_producer):
    async with assistant(server) as client:
        assert (await told(client, "health"))["healthy"] is True
        (row,) = (await told(client, "transactions", state="Ongoing"))["transactions"]
        assert row["transactional_id"] == "pay-7"
        found = await told(client, "explain", subject="asked-0")
        assert "pay-7" in found["verdict"]
        events = (await told(client, "timeline", transactional_id="pay-7"))["events"]
        assert any(one["kind"] == "transaction" for one in events)


async def test_outcomes_of_records_are_told_without_their_content(server, open_producer):
    async with assistant(server) as client:
        answer = await client.call_tool("record_outcomes", {"topic": "asked"})
        text = answer.content[0].text
        (record,) = json.loads(text)["records"]
        assert (record["outcome"], record["read_committed"]) == ("open", False)
        assert record["transactional_id"] == "pay-7"
        assert "secret" not in text


async def test_a_group_is_told_with_its_offsets(server, open_producer):
    reader = confluent_kafka.Consumer(
        {"bootstrap.servers": server.bootstrap, "group.id": "readers", "log_level": 0}
    )
    reader.commit(offsets=[confluent_kafka.TopicPartition("asked", 0, 0)], asynchronous=False)
    reader.close()
    async with assistant(server) as client:
        assert "readers" in [one["group_id"] for one in (await told(client, "groups"))["groups"]]
        found = await told(client, "group", group_id="readers")
        assert [one["offset"] for one in found["offsets"]["offsets"]] == [0]


async def test_what_is_wrong_is_told_with_the_way_out(server):
    async with assistant(server) as client:
        assert "no-such-topic" in await refused(client, "record_outcomes", topic="no-such-topic")
        assert "200" in await refused(client, "groups", limit=100_000)
        assert "'yesterday'" in await refused(
            client, "record_outcomes", topic="asked", begin="yesterday"
        )


async def test_a_gateway_that_is_away_is_no_end_of_the_session(server):
    async with assistant(server, ONCELOG_GATEWAY="http://127.0.0.1:1") as client:
        assert "is `oncelog up` running?" in await refused(client, "groups")
        assert (await told(client, "health"))["healthy"] is False
