"""Where a listener listens, what it says when it cannot, and which address its clients are told."""

import pytest
from pydantic import ValidationError
from tests.free_ports import free_block
from tests.worlds.listener.listener_image import topic
from tests.worlds.listener.listener_world import World
from tests.worlds.listener.wire_client import WireClient

from oncelog.api.v1 import controller_pb2
from oncelog.errors import OncelogError
from oncelog_listener import advertised
from oncelog_listener.settings import ListenerSettings
from oncelog_listener.wiring import build_listener

FETCH, PRODUCE, METADATA, API_VERSIONS, END_TXN = 1, 0, 3, 18, 26


async def test_a_port_in_use_is_named_with_the_way_out(world):
    async with world.listening() as role:
        second = build_listener(
            ListenerSettings(port=role.port), 1, world.metadata, world.directory
        )
        with pytest.raises(OncelogError, match=f"port {role.port} .* in use.*ONCELOG_PORT"):
            await second.start()
        await second.stop()


async def test_a_host_that_is_not_ours_is_named_with_the_way_out(world):
    settings = ListenerSettings(host="192.0.2.1", port=0)
    with pytest.raises(OncelogError, match=r"192\.0\.2\.1.*ONCELOG_HOST"):
        await build_listener(settings, 1, world.metadata, world.directory).start()


@pytest.mark.parametrize(
    ("settings", "connect_to", "expected"),
    [
        ({}, "127.0.0.1", "127.0.0.1"),
        ({"host": "0.0.0.0"}, "127.0.0.1", "127.0.0.1"),
        ({"host": "0.0.0.0"}, "127.0.0.2", "127.0.0.2"),
        ({"host": "localhost"}, "127.0.0.1", "127.0.0.1"),
        ({"advertised_host": "log.example.org"}, "127.0.0.1", "log.example.org"),
    ],
)
async def test_clients_are_told_an_address_that_works_for_them(settings, connect_to, expected):
    world = World(topic("orders", 1), **settings)
    async with world.listening() as role:
        client = await WireClient.connect(role.port, connect_to)
        (broker,) = (await client.call(METADATA, 1, topics=())).brokers
        assert (broker.host, broker.port, broker.node_id) == (expected, role.port, 1)
        place = await client.call(10, 2, key="pay", key_type=1)
        assert (place.host, place.port, place.node_id) == (expected, role.port, 1)


async def test_a_forwarded_client_is_told_the_port_it_used():
    inside, outside = free_block(2)
    world = World(
        topic("orders", 1),
        host="0.0.0.0",
        advertised_host="listener-1.internal",
        port=inside,
        external_port=outside,
        external_advertised="1=log.example.org:9094",
        loopback_forwarded=True,
    )
    world.metadata.image.nodes[1] = _node(1, inside, ("log.example.org", 9_094))
    world.metadata.image.nodes[1].kafka_host = "listener-1.internal"
    world.metadata.image.nodes[2] = _node(2, inside + 1, ("log.example.org", 9_095))
    async with world.listening():
        for port in (inside, outside):
            client = await WireClient.connect(port)
            (broker,) = (await client.call(METADATA, 1, topics=())).brokers
            assert (broker.node_id, broker.host, broker.port) == (1, "127.0.0.1", port)
            place = await client.call(10, 2, key="pay", key_type=1)
            assert (place.host, place.port, place.node_id) == ("127.0.0.1", port, 1)


@pytest.mark.parametrize("port_name", ["CLIENTS", "EXTERNAL"])
async def test_a_forwarded_client_is_told_no_named_address(port_name):
    ports = dict(zip(("CLIENTS", "EXTERNAL"), free_block(2), strict=True))
    world = World(
        topic("orders", 1),
        listeners=",".join(f"{name}://0.0.0.0:{port}" for name, port in ports.items()),
        listener_security_protocol_map="CLIENTS:PLAINTEXT,EXTERNAL:PLAINTEXT",
        advertised_listeners="CLIENTS://listener-1.internal:9092",
        external_advertised="1=log.example.org:9094",
        loopback_forwarded=True,
    )
    async with world.listening():
        client = await WireClient.connect(ports[port_name])
        (broker,) = (await client.call(METADATA, 1, topics=())).brokers
        assert (broker.host, broker.port) == ("127.0.0.1", ports[port_name])


async def test_an_advertised_port_is_told():
    world = World(topic("orders", 1), advertised_port=19_092)
    async with world.connected() as (_, client):
        (broker,) = (await client.call(METADATA, 1, topics=None)).brokers
        assert broker.port == 19_092


def _node(node_id, port, outside=None):
    by_name = {"PLAINTEXT": ("127.0.0.1", port), "EXTERNAL": outside}
    configs = advertised.configs_of(by_name) if outside else {}
    return controller_pb2.Node(
        configs=configs,
        node_id=node_id,
        roles=[controller_pb2.ROLE_LISTENER],
        kafka_host="127.0.0.1",
        kafka_port=port,
        node_epoch=node_id,
    )


@pytest.mark.parametrize(("is_shared", "expected"), [(False, 129), (True, 0)])
async def test_a_client_that_meant_another_live_listener_is_told(is_shared, expected):
    """Behind one address for all, whichever answers is right."""
    (port,) = free_block(1)
    world = World(topic("orders", 1), port=port)
    world.metadata.image.nodes[1] = _node(1, port)
    world.metadata.image.nodes[2] = _node(2, port if is_shared else port + 1)
    async with world.listening():
        client = await WireClient.connect(port)
        meant = {"cluster_id": "test-cluster", "node_id": 2}
        software = {"client_software_name": "x", "client_software_version": "1"}
        assert (await client.call(API_VERSIONS, 5, **meant, **software)).error_code == expected


async def test_the_external_port_tells_external_addresses_only():
    outside, inside = free_block(2)
    addresses = "1=a.example.org:30094,2=not.what.node.2.says:1"

    settings = {"external_port": outside, "external_advertised": addresses, "port": inside}
    world = World(topic("orders", 1), **settings)
    world.metadata.image.nodes[1] = _node(1, inside)
    world.metadata.image.nodes[2] = _node(2, inside + 1, ("2001:db8::2", 30_095))
    world.metadata.image.nodes[3] = _node(3, inside + 2)
    async with world.listening():
        client = await WireClient.connect(outside)
        found = {
            (one.node_id, one.host, one.port)
            for one in (await client.call(METADATA, 1, topics=())).brokers
        }
        assert found == {(1, "a.example.org", 30_094), (2, "2001:db8::2", 30_095)}
        place = await client.call(10, 2, key="pay", key_type=1)
        assert (place.host, place.port, place.node_id) == ("a.example.org", 30_094, 1)
        within = await WireClient.connect(inside)
        ports = [one.port for one in (await within.call(METADATA, 1, topics=())).brokers]
        assert ports == [inside, inside + 1, inside + 2]


@pytest.mark.parametrize(
    "text",
    ["a.example.org:9094", "1=a.example.org", "x=a:1", "1=a:0", "1=a:70000", "1=:9", "1=a:1,1=b:2"],
)
def test_an_external_address_that_cannot_be_is_refused(text):
    with pytest.raises(ValidationError, match="external_advertised"):
        ListenerSettings(external_advertised=text)
