"""A machine driven by hand: decide, apply, answer. Shared by this room's tests."""

from dataclasses import replace
from itertools import count
from typing import Any

from oncelog.api.v1 import controller_pb2
from oncelog.errors import ErrorCode
from oncelog.ids import Millis, Offset
from oncelog.machine import Reply, Send
from oncelog.rpc.metadata import MetadataImage
from oncelog_controller.core.events import (
    AlterPartition,
    CreateTopics,
    NewTopic,
    NodeHeartbeat,
    ProposedIsr,
    Reassignment,
    ReassignPartitions,
    RegisterNode,
    SessionsEnded,
)
from oncelog_controller.core.history import NOWHERE
from oncelog_controller.core.image import ClusterImage
from oncelog_controller.core.machine import MetadataMachine, MetadataRules
from oncelog_controller.core.records import Snapshot, decode_record, encode_record
from oncelog_controller.messages import delta_message, snapshot_message

ALL_ROLES = ("controller", "coordinator", "storage", "marker_sender", "listener", "gateway")
RULES = MetadataRules(controller=1, incarnation_id="controller-a")
SMALL = replace(RULES, transaction_shard_count=3, group_shard_count=2)


class Bench:
    """Keeps every record, as JSON gave it back, and every committed change."""

    def __init__(self, rules=SMALL):
        self.machine = MetadataMachine(rules)
        self.records = []
        self.committed = []
        self.labels = []
        self._request_ids = count(1)

    @property
    def image(self):
        return self.machine.image

    def request_id(self):
        return next(self._request_ids)

    def ask(self, make_event, *fields, **named) -> Any:
        """The answer to `make_event(request_id, …)`."""
        decision = self._decide(make_event(self.request_id(), *fields, **named))
        (answer,) = [effect.answer for effect in decision.effects if isinstance(effect, Reply)]
        return answer

    def tell(self, event):
        """Decide an event that nobody waits for; the label of what was decided."""
        decision = self._decide(event)
        assert not any(isinstance(effect, Reply) for effect in decision.effects)
        return decision.label

    def _decide(self, event):
        decision = self.machine.decide(event, Millis(0))
        for record in decision.records:
            decoded = decode_record(*encode_record(record))
            assert decoded == record
            self.machine.apply(Offset(len(self.records)), decoded)
            self.records.append(decoded)
        self.labels.append(decision.label)
        self.committed += [
            effect.message for effect in decision.effects if isinstance(effect, Send)
        ]
        return decision

    def join(self, node_id, *roles, incarnation_id="first"):
        """A node of a cluster: registered, and alive by its first heartbeat. Returns its node epoch."""
        answer = self.register(node_id, incarnation_id, roles, rpc_address=f"node-{node_id}:1")
        assert answer.error_code is ErrorCode.NONE, answer
        beat = self.beat(node_id)
        assert (beat.error_code, beat.fenced) == (ErrorCode.NONE, False)
        return answer.node_epoch

    def beat(self, node_id, *, want_drain=False):
        node_epoch = self.image.nodes[node_id].node_epoch
        return self.ask(
            lambda rid: NodeHeartbeat(rid, node_id, node_epoch, want_drain, f"{rid:032x}", "f" * 32)
        )

    def fence(self, *node_ids):
        nodes = tuple((node_id, self.image.nodes[node_id].node_epoch) for node_id in node_ids)
        return self.tell(SessionsEnded(nodes))

    def create(self, name, *assignment, **configs):
        """A topic with these replicas."""
        assigned = dict(enumerate(assignment))
        topic = NewTopic(
            name, f"{self.request_id():032x}", configs=dots(configs), assignment=assigned
        )
        (result,) = self.ask(CreateTopics, (topic,)).results
        assert result.error_code is ErrorCode.NONE, result

    def partition(self, name, number=0):
        return self.image.topics[name].partitions[number]

    def propose(self, name, isr, *, number=0, node_id=None, **epochs):
        """A leader's proposal, by default of the current leader under current epochs; the partition's error code."""
        partition = self.partition(name, number)
        node_id = partition.leader if node_id is None else node_id
        proposal = ProposedIsr(
            name,
            number,
            epochs.get("leader_epoch", partition.leader_epoch),
            epochs.get("partition_epoch", partition.partition_epoch),
            tuple(isr),
        )
        node_epoch = epochs.get("node_epoch", self.image.nodes[node_id].node_epoch)
        seen = epochs.get("seen", NOWHERE)
        answer = self.ask(AlterPartition, node_id, node_epoch, (proposal,), seen)
        return answer.error_code or answer.results[0].error_code

    def reassign(self, name, *replicas, number=0):
        """The partition's error code."""
        wanted = (Reassignment(name, number, replicas),)
        return self.ask(ReassignPartitions, wanted).results[0].error_code

    def register(self, node_id=1, incarnation_id="first", roles=ALL_ROLES, **fields):
        return self.ask(
            lambda request_id: registration(
                node_id, incarnation_id, roles, request_id=request_id, **fields
            )
        )

    def replayed(self, rules=SMALL):
        """A fresh machine on the same records."""
        machine = MetadataMachine(rules)
        for offset, record in enumerate(self.records):
            machine.apply(Offset(offset), record)
        return machine


def dots(configs):
    """Keyword arguments as names of topic configs."""
    return {name.replace("_", "."): str(value).lower() for name, value in configs.items()}


def registration(node_id=1, incarnation_id="first", roles=ALL_ROLES, *, request_id=1, **fields):
    values = {
        "rpc_address": "",
        "kafka_host": "localhost",
        "kafka_port": 9092,
        "rack": "",
        "cluster_id": "cluster",
        "transaction_topic_id": f"{node_id:031x}a",
        "group_topic_id": f"{node_id:031x}b",
        **fields,
    }
    return RegisterNode(request_id, node_id, incarnation_id, roles, **values)


def restored(image):
    """What a controller has that reads a snapshot of this image."""
    found = ClusterImage()
    found.apply(Offset(99), Snapshot(image.to_state()))
    return found


def security_everywhere(bench):
    """What followers of the stream have after all deltas, and after one snapshot, and controllers after a start: it
    must be the same."""
    assert restored(bench.image).security == bench.image.security
    image, follower = ClusterImage(), MetadataImage()
    for offset, record in enumerate(bench.records):
        delta = delta_message(image, [image.apply(offset, record)])
        update = controller_pb2.MetadataUpdate(metadata_offset=offset, delta=delta)
        follower = follower.updated(update)
    snapshot = snapshot_message(bench.image)
    update = controller_pb2.MetadataUpdate(metadata_offset=99, snapshot=snapshot)
    fresh = MetadataImage().updated(update)
    assert follower.security == fresh.security
    return fresh.security


def codes(answer):
    return [result.error_code for result in answer.results]
