"""A group that shows what a stream has read never stops the stream, unless it is somebody else's."""

import socket

import pytest
from kio.schema.errors import ErrorCode as KioError
from tests.unit.client.kafka_peer import NO_THROTTLE, KafkaPeer

from oncelog.errors import OncelogError
from oncelog.ids import Partition
from oncelog.protocol import versions
from oncelog.protocol.messages import schema_of
from oncelog.spark.group_progress import PAUSE_S, GroupProgress
from oncelog.spark.options import parse_source_options

FIRST, SECOND = Partition("orders", 0), Partition("orders", 1)


class Coordinator(KafkaPeer):
    """A peer that is the coordinator of every group, at `found_at`, and answers commits with `code`."""

    def __init__(self):
        super().__init__({"orders": 2})
        self.code = KioError.none
        self.found_at = None
        self.committed = []
        self.instead[versions.FIND_COORDINATOR] = self._found
        self.instead[versions.OFFSET_COMMIT] = self._taken

    def _found(self, request):
        types = schema_of(versions.FIND_COORDINATOR, 3).response_types
        host, port = self.found_at or self.address
        words = {"error_code": KioError.none, "error_message": None, "node_id": 1}
        return types.FindCoordinatorResponse(
            throttle_time=NO_THROTTLE, host=host, port=port, **words
        )

    def _taken(self, request):
        types = schema_of(versions.OFFSET_COMMIT, 8).response_types
        topics = []
        for topic in request.topics:
            parts = [
                types.OffsetCommitResponsePartition(
                    partition_index=one.partition_index, error_code=self.code
                )
                for one in topic.partitions
            ]
            for one in topic.partitions:
                self.committed.append((request.group_id, one.partition_index, one.committed_offset))
            topics.append(types.OffsetCommitResponseTopic(name=topic.name, partitions=tuple(parts)))
        return types.OffsetCommitResponse(throttle_time=NO_THROTTLE, topics=tuple(topics))


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def peer():
    with Coordinator() as peer:
        yield peer


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def progress(peer, clock):
    given = {
        "bootstrap.servers": str(peer.address),
        "subscribe": "orders",
        "kafka.group.id": "etl",
    }
    progress = GroupProgress(parse_source_options(given), clock)
    yield progress
    progress.close()


def test_what_has_changed_is_committed(peer, progress):
    progress.show({FIRST: 5, SECOND: 2}, pytest.fail)
    progress.show({FIRST: 5, SECOND: 2}, pytest.fail)
    progress.show({FIRST: 5, SECOND: 9}, pytest.fail)
    assert peer.committed == [("etl", 0, 5), ("etl", 1, 2), ("etl", 1, 9)]


def test_a_group_out_of_reach_is_left_alone_for_a_while(peer, clock, progress):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        peer.found_at = silent.getsockname()
        warnings = []
        progress.show({FIRST: 5}, warnings.append)
        assert len(warnings) == 1
        asked = len(peer.requests)
        clock.now = PAUSE_S - 1
        progress.show({FIRST: 6}, pytest.fail)
        assert len(peer.requests) == asked
    peer.found_at = None
    clock.now = PAUSE_S
    progress.show({FIRST: 7}, pytest.fail)
    assert peer.committed == [("etl", 0, 7)]


def test_a_group_of_others_ends_the_query(peer, progress):
    peer.code = KioError.unknown_member_id
    with pytest.raises(OncelogError, match=r"kafka.group.id is 'etl': .*choose a name of its own"):
        progress.show({FIRST: 5}, pytest.fail)
