"""The listeners that a client is told of as brokers, and which of them "leads" which partition (ADR 0017).

Any listener serves any partition. So partitions are spread over the live ones by hash, the same on every listener and
moving little when one comes or goes. A client is told of all of them, by the addresses of the listener that it came in
by. A client that reached this listener by another address than the registered one (a port-forward, a tunnel) would not
reach the others by theirs: it is told of this one only.
"""

from collections.abc import Callable
from typing import Final, NamedTuple
from zlib import crc32

from oncelog.api.v1 import controller_pb2
from oncelog.rpc.metadata import MetadataImage
from oncelog_listener import advertised
from oncelog_listener.call import Call
from oncelog_listener.cluster import Cluster

_64_BITS: Final = (1 << 64) - 1


class Broker(NamedTuple):
    node_id: int
    host: str
    port: int
    rack: str | None


class Brokers(NamedTuple):
    live: tuple[Broker, ...]
    """The live listeners, ascending by node id; never empty."""
    departed: tuple[Broker, ...] = ()
    """The listeners that went away a moment ago and may soon be back. Clients are told of them, but they lead nothing.

    A client that forgets a listener does not come back to it when it loses the next one, and takes seconds to begin
    anew.
    """

    @property
    def all(self) -> tuple[Broker, ...]:
        return self.live if not self.departed else tuple(sorted((*self.live, *self.departed)))

    def listener_for(self, topic: str, partition: int) -> int:
        """Return the listener that clients are told leads this partition; its true leader is a storage node."""
        return self.place(f"{topic}-{partition}").node_id

    def place(self, name: str) -> Broker:
        """Return the listener that clients are told leads this partition, group or transaction. It is found by
        rendezvous hashing of the name: when a listener goes, only its own names move."""
        if len(self.live) == 1:
            return self.live[0]
        hashed = crc32(name.encode()) << 32
        return max(self.live, key=lambda broker: (_mixed(hashed | broker.node_id), broker))


def _mixed(number: int) -> int:
    """Return the number with its bits mixed: each bit of the result depends on every bit given (the finalizer of
    splitmix64).

    A CRC alone is linear: the CRCs of one name with two node ids differ by the same bits for every name. So one of
    three brokers led half of all partitions, and one of five led none of a topic of 50.
    """
    number = ((number ^ (number >> 30)) * 0xBF58476D1CE4E5B9) & _64_BITS
    number = ((number ^ (number >> 27)) * 0x94D049BB133111EB) & _64_BITS
    return number ^ (number >> 31)


def listed_here(call: Call) -> Callable[[str], bool]:
    """Return a predicate: given the name of a transaction or group, is this listener the one that lists it?

    Clients ask every broker for its list and put the lists together. Every listener could list everything, so each
    lists the names that hash to it: together they list each name once (ADR 0017).
    """
    brokers, itself = brokers_for(call), call.cluster.node_id
    return lambda name: brokers.place(name).node_id == itself


def brokers_for(call: Call) -> Brokers:
    cluster = call.cluster
    image = cluster.image
    address = call.session.advertised(cluster)
    node = image.nodes.get(cluster.node_id)
    itself = Broker(cluster.node_id, address.host, address.port, (node and node.rack) or None)
    listener, is_main = call.session.listener, call.session.is_main(cluster)
    is_configured = not is_main and call.session.configured(cluster) is not None
    if node is None or not (
        is_configured or address == _registered(node, listener, is_main=is_main)
    ):
        return Brokers((itself,))
    known = live_listeners(image, cluster.node_id)
    others = tuple(one for one in known if one.node_id not in cluster.suspects)
    there = {one.node_id for one in others}
    departed = tuple(
        Broker(*one) for node_id, one in cluster.departed.items() if node_id not in there
    )
    if not is_main:
        others, departed = _by(listener, others, image), _by(listener, departed, image)
    if not others:
        return Brokers((itself,), departed)
    if node.draining or cluster.ending.is_set():
        return Brokers(others, departed)
    return Brokers(tuple(sorted((itself, *others))), departed)


def is_leaving(cluster: Cluster) -> bool:
    """True if this listener is about to stop, and other listeners can take its clients.

    It then answers with the errors of a broker that has given its partitions away, so clients go to those listeners. A
    client that is only cut off looks for the listener again, at an address that may be gone.
    """
    node = cluster.image.nodes.get(cluster.node_id)
    return (
        node is not None and node.draining and bool(live_listeners(cluster.image, cluster.node_id))
    )


def _registered(
    node: controller_pb2.Node, listener: str, *, is_main: bool
) -> tuple[str, int] | None:
    """Return the address that the node registered for this listener, as host and port; None: it registered none.
    `is_main`: the listener is the first one of the settings, whose address is the node's own."""
    if is_main:
        return node.kafka_host, node.kafka_port
    return advertised.read(node.configs, listener)


def _by(listener: str, brokers: tuple[Broker, ...], image: MetadataImage) -> tuple[Broker, ...]:
    """Return the brokers with the addresses that they have under this listener name. A node without such a listener is
    left out."""
    found = []
    for one in brokers:
        node = image.nodes.get(one.node_id)
        address = advertised.read(node.configs, listener) if node is not None else None
        if address is not None:
            found.append(Broker(one.node_id, *address, one.rack))
    return tuple(found)


def live_listeners(image: MetadataImage, but: int) -> tuple[Broker, ...]:
    def is_live(node: controller_pb2.Node) -> bool:
        return (
            controller_pb2.ROLE_LISTENER in node.roles
            and node.kafka_port > 0
            and bool(node.kafka_host)
            and not node.fenced
            and not node.draining
            and node.node_id != but
        )

    return tuple(
        sorted(
            Broker(node.node_id, node.kafka_host, node.kafka_port, node.rack or None)
            for node in image.nodes.values()
            if is_live(node)
        )
    )
