"""A machine driven by hand: decide, apply, answer. Shared by this room's tests."""

from itertools import count
from typing import Any

from oncelog.ids import Millis, Offset
from oncelog.machine import Reply, Send
from oncelog_controller.core.events import RegisterNode
from oncelog_controller.core.machine import MetadataMachine, MetadataRules
from oncelog_controller.core.records import decode_record, encode_record

ALL_ROLES = ("controller", "coordinator", "storage", "marker_sender", "listener", "gateway")
RULES = MetadataRules(controller=1, incarnation_id="controller-a")
SMALL = MetadataRules(
    controller=1, incarnation_id="controller-a", transaction_shard_count=3, group_shard_count=2
)


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

    def ask(self, make_event) -> Any:
        """The answer to `make_event(request_id)`."""
        decision = self.machine.decide(make_event(self.request_id()), Millis(0))
        for record in decision.records:
            decoded = decode_record(*encode_record(record))
            assert decoded == record
            self.machine.apply(Offset(len(self.records)), decoded)
            self.records.append(decoded)
        self.labels.append(decision.label)
        self.committed += [
            effect.message for effect in decision.effects if isinstance(effect, Send)
        ]
        (answer,) = [effect.answer for effect in decision.effects if isinstance(effect, Reply)]
        return answer

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
