"""Requests as bytes, to whichever broker: what no client library would send."""

import time
from dataclasses import replace
from datetime import timedelta

from tests.integration.listener.requests_by_vocabulary import request_of

from oncelog.client.connection import Connection, Deadline
from oncelog.client.core.addresses import Address, parse_addresses
from oncelog.protocol import versions
from oncelog.protocol.messages import schema_of
from oncelog.protocol.versions import APIS

CALL_TIMEOUT_MS = 20_000
LATEST, EARLIEST, MAX_TIMESTAMP = -1, -2, -3
_WORDS = {
    "acks": -1,
    "assignments": (),
    "configs": (),
    "current_leader_epoch": -1,
    "num_partitions": 1,
    "replica_id": -1,
    "replication_factor": 1,
    "timeout": timedelta(seconds=10),
    "timeout_ms": timedelta(seconds=10),
    "transactional_id": None,
    "validate_only": False,
}


class Wire:
    """A broker without logins. Topics have one partition."""

    def __init__(self, bootstrap):
        self._bootstrap = parse_addresses(bootstrap)[0]
        self._connections = {}
        self._leaders = {}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for one in self._connections.values():
            one.close()

    def ask(self, api_key, version, *, address=None, topics=None, **words):
        address = address or self._bootstrap
        if address not in self._connections:
            deadline = Deadline(CALL_TIMEOUT_MS)
            self._connections[address] = Connection.connect(address, "raw", deadline)
        request = request_of(APIS[api_key], version, _WORDS | words)
        if topics is not None:
            request = replace(request, topics=topics)
        schema = schema_of(api_key, version)
        return self._connections[address].call(schema, request, Deadline(CALL_TIMEOUT_MS))

    def create_topic(self, name, **configs):
        types = schema_of(versions.CREATE_TOPICS, 7).request_types
        topic = types.CreatableTopic(
            name=name,
            num_partitions=1,
            replication_factor=1,
            assignments=(),
            configs=tuple(
                types.CreatableTopicConfig(name=key.replace("_", "."), value=str(value))
                for key, value in configs.items()
            ),
        )
        (made,) = self.ask(versions.CREATE_TOPICS, 7, topics=(topic,)).topics
        assert not made.error_code, made
        return name

    def leader(self, name):
        """Its address, once it has one."""
        deadline = time.monotonic() + CALL_TIMEOUT_MS / 1000
        while name not in self._leaders:
            found = self.ask(versions.METADATA, 8, name=name, allow_auto_topic_creation=False)
            places = {one.node_id: Address(one.host, one.port) for one in found.brokers}
            (topic,) = found.topics
            for partition in topic.partitions:
                if partition.leader_id in places:
                    self._leaders[name] = places[partition.leader_id]
            assert time.monotonic() < deadline, found
        return self._leaders[name]

    def produce(self, name, records):
        """(error code, base offset)."""
        words = {"name": name, "index": 0, "records": records}
        found = self.ask(versions.PRODUCE, 9, address=self.leader(name), **words)
        (answer,) = found.responses[0].partition_responses
        return int(answer.error_code), answer.base_offset

    def listed(self, name, timestamp):
        """(timestamp in ms, offset)."""
        words = {"name": name, "partition_index": 0, "timestamp": timestamp, "isolation_level": 0}
        found = self.ask(versions.LIST_OFFSETS, 7, address=self.leader(name), **words)
        (answer,) = found.topics[0].partitions
        assert not answer.error_code, answer
        return answer.timestamp, answer.offset

    def await_start(self, name, offset):
        """Until retention has moved the log's start there."""
        deadline = time.monotonic() + CALL_TIMEOUT_MS / 1000
        while self.listed(name, EARLIEST)[1] < offset:
            assert time.monotonic() < deadline, self.listed(name, EARLIEST)
            time.sleep(0.1)
