"""Small Produce requests that came together are one call to their leader, and each has its own answer."""

from tests.worlds.listener.listener_image import topic
from tests.worlds.listener.listener_requests import batch, produce_request
from tests.worlds.listener.listener_world import World

from oncelog.protocol.frames import write_request_head
from oncelog.protocol.messages import schema_of
from oncelog.protocol.small_produce import SmallProduce
from oncelog.rpc.directory import Directory
from oncelog_listener.produced_together import TOGETHER_MAX, that_go_together

PRODUCE, METADATA = 0, 3
OF_A_PRODUCER = batch(producer_id=5)
TRANSACTIONAL = 0x10


class Elsewhere(Directory):
    """The roles are of other processes."""

    def __init__(self, directory):
        self.directory = directory

    def stub(self, node_id, service_name):
        return self.directory.stub(node_id, service_name)

    def controller(self):
        return self.directory.controller()

    def marker_sender(self):
        return self.directory.marker_sender()


def world_elsewhere(*topics):
    world = World(*topics)
    world.directory = Elsewhere(world.directory)
    return world


def request(partition, name="orders", records=OF_A_PRODUCER, version=9, **fields):
    types = schema_of(PRODUCE, version).request_types
    made = produce_request(version, name=name, records=[records], **fields)
    data = types.PartitionProduceData(index=partition, records=records)
    topic_data = (types.TopicProduceData(name=name, partition_data=(data,)),)
    return types.ProduceRequest(
        transactional_id=made.transactional_id,
        acks=made.acks,
        timeout=made.timeout,
        topic_data=topic_data,
    )


def frame(partition, client_id="test", version=9, **fields):
    schema = schema_of(PRODUCE, version)
    head = write_request_head(PRODUCE, version, partition, client_id, version >= 9)
    return b"".join([head, *schema.write_request(request(partition, version=version, **fields))])


def together(*frames):
    return [one.partition for one in that_go_together(frames)]


def told(answer):
    (of_topic,) = answer.responses
    (one,) = of_topic.partition_responses
    return of_topic.name, one.index, one.error_code, one.base_offset


async def answers_of(world, *requests):
    async with world.connected() as (role, client):
        schemas = [client.send(PRODUCE, 9, request=one) for one in requests]
        schemas.append(client.send(METADATA, 1, topics=()))
        answers = [await client.receive(schema) for schema in schemas]
        assert [number for number, _ in answers] == list(range(1, len(requests) + 2))
        assert role.counters.latencies["Produce"].count == len(requests)
        assert role.queued_bytes == 0
        return [told(answer) for _, answer in answers[:-1]]


def places(world):
    return [
        [(one.topic, one.partition) for one in asked.partitions]
        for asked in world.storage.received("Produce")
    ]


async def test_those_that_came_together_are_one_call_to_a_leader():
    world = world_elsewhere(topic("orders", 4), topic("bills", 1))
    wanted = [("orders", 0), ("orders", 2), ("bills", 0), ("orders", 3)]
    requests = [request(partition, name) for name, partition in wanted]
    assert await answers_of(world, *requests) == [(*place, 0, 0) for place in wanted]
    assert places(world) == [wanted]


async def test_a_second_batch_for_a_partition_waits_for_the_first():
    world = world_elsewhere(topic("orders", 4))
    requests = [request(partition) for partition in (0, 1, 0, 1, 2)]
    found = await answers_of(world, *requests)
    assert [offset for *_, offset in found] == [0, 0, 1, 1, 0]
    orders = [("orders", 0), ("orders", 1), ("orders", 2)]
    assert places(world) == [orders[:2], orders]


async def test_one_that_is_refused_holds_up_no_other():
    world = world_elsewhere(topic("orders", 4))
    requests = [request(0), request(9), request(1, "gone"), request(1)]
    found = await answers_of(world, *requests)
    assert [code for _, _, code, _ in found] == [0, 3, 3, 0]
    assert places(world) == [[("orders", 0), ("orders", 1)]]


async def test_in_one_process_each_goes_for_itself():
    world = World(topic("orders", 4))
    await answers_of(world, *(request(partition) for partition in range(3)))
    assert [len(one) for one in places(world)] == [1, 1, 1]


def test_what_differs_by_more_than_its_place_ends_the_row():
    assert together(frame(0), frame(1), frame(2)) == [0, 1, 2]
    other_producer = batch(producer_id=6)
    for other in (
        frame(1, acks=1),
        frame(1, acks=0),
        frame(1, transactional_id="t"),
        frame(1, client_id="other"),
        frame(1, version=8),
        frame(1, version=10),
        frame(1, records=other_producer),
        frame(1, records=batch(extra=9_000, producer_id=5)),
        frame(1, records=batch(TRANSACTIONAL, producer_id=5)),
        b"\0\3\0\1",
        b"",
    ):
        assert together(frame(0), other, frame(2)) == [0]
    assert together(frame(0, acks=0), frame(1, acks=0)) == []


def test_no_more_than_some_go_together():
    assert len(together(*(frame(partition) for partition in range(20)))) == TOGETHER_MAX
    assert isinstance(that_go_together([frame(0)])[0], SmallProduce)
