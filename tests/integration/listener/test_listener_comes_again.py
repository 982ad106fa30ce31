"""Of a client that was refused for its connection and comes again, a listener says so (ADR 0018)."""

from tests.worlds.listener.wire_client import WireClient

from oncelog.api.v1 import coordinator_pb2, types_pb2
from oncelog.protocol.frames import framed, write_request_head
from oncelog.protocol.messages import schema_of

NEWEST = types_pb2.RequestNumber(listener=6, connection=2, request=9)
REFUSALS = [
    ("EndTxn", coordinator_pb2.EndTxnResponse(error_code=51, delayed_by=NEWEST)),
    ("EndTxn", coordinator_pb2.EndTxnResponse(error_code=51)),
    (
        "AddOffsetsToTxn",
        coordinator_pb2.AddOffsetsToTxnResponse(error_code=51, delayed_by=NEWEST),
    ),
    (
        "AddPartitionsToTxn",
        coordinator_pb2.AddPartitionsToTxnResponse(
            results=[
                coordinator_pb2.AddPartitionsToTxnResponse.Result(error_code=51, delayed_by=NEWEST)
            ]
        ),
    ),
]


async def test_a_listener_says_for_which_request_it_refused_a_client(world):
    """Until it has read that, a request may be a late copy, of which nobody reads the answer (ADR 0018)."""
    types = schema_of(24, 3).request_types
    producer = {"producer_id": 4000, "producer_epoch": 3}
    v3_producer = {f"v3_and_below_{name}": value for name, value in producer.items()}
    wanted = types.AddPartitionsToTxnTopic(name="orders", partitions=(0,))

    async def call(client, method, transactional_id="pay"):
        if method == "EndTxn":
            fields = {"transactional_id": transactional_id, "committed": True, **producer}
            await client.call(26, 3, **fields)
        elif method == "AddOffsetsToTxn":
            fields = {"transactional_id": transactional_id, "group_id": "g", **producer}
            await client.call(25, 3, **fields)
        else:
            fields = {"v3_and_below_transactional_id": transactional_id, **v3_producer}
            await client.call(24, 3, **fields, v3_and_below_topics=(wanted,))

    async def asked_after(method, answer):
        """The origins of its repetition, of one of another id, of one of another API, and of one on another
        connection."""
        async with world.listening() as role:
            client, other = [await WireClient.connect(role.port) for _ in range(2)]
            world.coordinator.canned = {method: answer}
            await call(client, method)
            world.coordinator.canned = {}
            world.coordinator.calls.clear()
            await call(client, method)
            await call(client, method, "bill")
            await call(client, "AddOffsetsToTxn" if method == "EndTxn" else "EndTxn")
            await call(other, method)
            return [origin_of(request) for _, request in world.coordinator.calls]

    def origin_of(request):
        origin = getattr(request, "transactions", [request])[0].origin
        return origin.delayed_by if origin.HasField("delayed_by") else None

    def told_with_the_end(answer):
        """What an EndTxn says of the addition before it."""
        (ended,) = world.coordinator.received("EndTxn")
        return (
            ended.origin.addition_delayed_by == answer
            if answer
            else not ended.origin.HasField("addition_delayed_by")
        )

    for method, answer in REFUSALS:
        result = answer.results[0] if method == "AddPartitionsToTxn" else answer
        delayed_by = NEWEST if result.HasField("delayed_by") else None
        assert await asked_after(method, answer) == [delayed_by, None, None, None], method
        if method != "EndTxn":
            assert told_with_the_end(delayed_by), method


async def test_what_was_here_before_the_refusal_is_no_repetition(world):
    """Two copies on a connection that its client has left come in together, and nobody reads the first one's answer."""
    world.coordinator.canned["EndTxn"] = coordinator_pb2.EndTxnResponse(
        error_code=51, delayed_by=NEWEST
    )
    schema = schema_of(26, 3)
    request = schema.request(
        transactional_id="pay", producer_id=4000, producer_epoch=3, committed=True
    )
    head = write_request_head(26, 3, 1, "late", is_flexible=True)
    frame = framed([head, *schema.write_request(request)])

    async with world.connected() as (_, client):
        for copies in (2, 1):
            client.writer.write(frame * copies)
            for _ in range(copies):
                await client.receive(schema)
    origins = [one.origin for one in world.coordinator.received("EndTxn")]
    assert [one.HasField("delayed_by") for one in origins] == [False, False, True]
