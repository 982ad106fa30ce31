"""Reads the batches of a running cluster, oncelog or Apache Kafka, for the audit. It fetches at read_uncommitted, so
markers and open transactions are among them.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Final

from oncelog.client.blocking.admin import Admin
from oncelog.client.cluster import SPOKEN, Cluster, NoSuchTopicError
from oncelog.client.connection import Connection, Deadline
from oncelog.client.core.admin_results import ConfigResource
from oncelog.client.core.log_places import (
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    READ_UNCOMMITTED,
)
from oncelog.client.core.login import properties_of
from oncelog.errors import ErrorCode, KafkaError, error_code_of
from oncelog.ids import Partition
from oncelog.protocol import versions
from oncelog.protocol.messages import schema_of
from oncelog.record.batch import crc_is_valid, iter_headers
from oncelog.spark.connecting import cluster_of
from oncelog.spark.offsets import OffsetRange
from oncelog.spark.options import SourceOptions, parse_source_options
from oncelog.spark.source import existing_partitions
from oncelog.spark.task_ranges import task_ranges
from oncelog_server.log_audit.core.rows import BatchRow
from oncelog_server.log_audit.reading import MARKER_BYTES_MAX, FoundBatch, Stretch, row_of

CLUSTER: Final = "cluster"
FETCH_BYTES: Final = 4 * 1024 * 1024
OFFSETS_OF_A_TASK: Final = 5_000_000
BYTES_OF_AN_OFFSET: Final = 100
"""A guess of how many bytes one offset of a running cluster has. By it, small ranges of offsets share a Spark task."""
MAX_WAIT_MS: Final = 500
_POLICY: Final = "cleanup.policy"
_SUBSCRIPTIONS: Final = frozenset({"subscribe", "subscribepattern", "assign"})


def admin_of(options: SourceOptions) -> Admin:
    """Return an admin client for the cluster of these options, with their login. Use it in a `with` block."""
    return Admin(",".join(map(str, options.bootstrap)), properties_of(options.login))


def parsed_options(options: Mapping[str, str]) -> SourceOptions:
    """Return the options of an audit of a cluster, given as for `spark.read.format("oncelog")`. If they name no topics,
    all topics are read. The internal ones are among them, because transactions of groups may hang there. Raises
    OncelogError, ClientError.
    """
    given = {**options, "isolation.level": "read_uncommitted"}
    if {name.lower() for name in given} & _SUBSCRIPTIONS:
        return parse_source_options(given)
    parsed = parse_source_options({**given, "subscribePattern": ".*"})
    with admin_of(parsed) as admin:
        topics = tuple(admin.list_topics(with_internal=True))
    return replace(parsed, topics=topics, topic_pattern=None)


def stretches_of_cluster(options: SourceOptions) -> list[Stretch]:
    """Return the offsets that the wanted partitions have now, cut into ranges of which each is the work of one task.

    Raises OncelogError, KafkaError, ClientError.
    """
    with cluster_of(options) as cluster:
        wanted = existing_partitions(cluster, options)
        starts = cluster.list_offsets(dict.fromkeys(wanted, EARLIEST_TIMESTAMP))
        ends = cluster.list_offsets(dict.fromkeys(wanted, LATEST_TIMESTAMP))
    ranges = [OffsetRange(one, starts[one], ends[one]) for one in wanted if starts[one] < ends[one]]
    compacted = _compacted(options, {one.topic for one in wanted})
    limit = options.max_records_per_partition or OFFSETS_OF_A_TASK
    return [
        Stretch(
            CLUSTER,
            *one.partition,
            one.start,
            one.end,
            "",
            (one.end - one.start) * BYTES_OF_AN_OFFSET,
            starts[one.partition],
            ends[one.partition],
            one.partition.topic in compacted,
        )
        for one in task_ranges(ranges, options.min_partitions, limit)
    ]


def _compacted(options: SourceOptions, topics: set[str]) -> set[str]:
    """Return those topics that are compacted. Their logs may have gaps that are no fault."""
    with admin_of(options) as admin:
        policies = {
            topic: admin.describe_configs(ConfigResource.TOPIC, topic)[_POLICY] for topic in topics
        }
    return {topic for topic, policy in policies.items() if "compact" in (policy.value or "")}


def rows_of_range(options: SourceOptions, stretch: Stretch) -> Iterator[BatchRow]:
    """Yield a row for each batch that begins in the range. Offsets that retention removes meanwhile are left out, and a
    topic that is deleted ends the rows.
    """
    with cluster_of(options) as cluster:
        reader = _Reader(cluster, stretch)
        try:
            yield from reader.rows()
        except NoSuchTopicError:
            # It was deleted meanwhile.
            return
        finally:
            reader.close()


class _Reader:
    def __init__(self, cluster: Cluster, stretch: Stretch) -> None:
        self._cluster = cluster
        self._stretch = stretch
        self._partition = Partition(stretch.topic, stretch.partition)
        self._position = stretch.segment
        self._connection: Connection | None = None

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def rows(self) -> Iterator[BatchRow]:
        number, is_first = 0, self._stretch.segment == self._stretch.log_start
        while self._position < self._stretch.end:
            records = self._next_records()
            begun = self._position
            for at, header in iter_headers(records):
                if header.base_offset >= self._stretch.end:
                    return
                self._position = max(self._position, header.next_offset)
                # A batch that begins before the range is another task's.
                if header.base_offset >= self._stretch.segment or is_first:
                    is_sound = crc_is_valid(records, header, at)
                    begin = bytes(records[at : at + min(header.size_bytes, MARKER_BYTES_MAX)])
                    found = FoundBatch(number, header.size_bytes, header, is_sound, begin)
                    yield row_of(self._stretch, found)
                    number += 1
            if self._position == begun:
                return

    def _next_records(self) -> bytes:
        """Return the next fetched batches. Empty means that nothing is left in the range, as behind the last batch of a
        compacted log.
        """
        try:
            return self._cluster.retrying(self._fetch)
        except KafkaError as error:
            if error.error_code is not ErrorCode.OFFSET_OUT_OF_RANGE:
                raise
            first = self._cluster.list_offsets({self._partition: EARLIEST_TIMESTAMP})
            if first[self._partition] <= self._position:
                raise
            self._position = first[self._partition]
        return self._cluster.retrying(self._fetch) if self._position < self._stretch.end else b""

    def _fetch(self) -> bytes:
        deadline = Deadline(self._cluster.settings.request_timeout_ms)
        try:
            if self._connection is None:
                leader = self._cluster.leader_of(self._partition)
                self._connection = self._cluster.open_connection(leader)
            connection = self._connection
            schema = self._cluster.schema(connection.address, versions.FETCH)
            connection.send(schema, self._request(), deadline)
            response = connection.receive(deadline)
            code = error_code_of(response.error_code.value)
            if code is not ErrorCode.NONE:
                raise KafkaError(code, f"fetch from {self._partition}")
            answer = response.responses[0].partitions[0]
            self._cluster.check_partition(self._partition, answer.error_code.value)
            if not answer.records and answer.high_watermark < self._stretch.end:
                # A leader that was just elected may not know yet how much is committed.
                raise KafkaError(ErrorCode.OFFSET_NOT_AVAILABLE, str(self._partition))
            return answer.records or b""
        except KafkaError:
            self.close()
            raise

    def _request(self) -> object:
        types = schema_of(versions.FETCH, SPOKEN[versions.FETCH]).request_types
        partition = types.FetchPartition(
            partition=self._partition.partition,
            fetch_offset=self._position,
            partition_max_bytes=FETCH_BYTES,
        )
        topic = types.FetchTopic(topic=self._partition.topic, partitions=(partition,))
        return types.FetchRequest(
            max_wait=timedelta(milliseconds=MAX_WAIT_MS),
            min_bytes=1,
            max_bytes=FETCH_BYTES,
            isolation_level=READ_UNCOMMITTED,
            topics=(topic,),
            forgotten_topics_data=(),
        )
