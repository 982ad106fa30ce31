"""The counts that a storage node sends to gateways: its topics, and partitions whose LSO is behind the HW."""

from heapq import nlargest
from typing import Final

from oncelog.api.v1.process_pb2 import DescribeProcessResponse
from oncelog_storage.wiring import StorageRole

HELD_MAX: Final = 100


def tell_counts(role: StorageRole, answer: DescribeProcessResponse) -> None:
    for topic, counts in role.counts.used():
        answer.topics.add(
            topic=topic,
            produced_records=counts.produced_records,
            produced_bytes=counts.produced_bytes,
            consumed_records=counts.consumed_records,
            consumed_bytes=counts.consumed_bytes,
        )
    held = [
        (lag, *one.partition)
        for one in role.replicas()
        if one.leadership.is_here and (lag := one.high_watermark - one.last_stable_offset) > 0
    ]
    for lag, topic, partition in nlargest(HELD_MAX, held):
        answer.held.add(topic=topic, partition=partition, lso_lag=lag)
