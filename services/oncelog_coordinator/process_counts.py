"""The counts that a coordinator reports to gateways: ended transactions, and how long their markers took."""

from oncelog.api.v1.process_pb2 import DescribeProcessResponse
from oncelog_coordinator.wiring import CoordinatorRole


def tell_counts(role: CoordinatorRole, answer: DescribeProcessResponse) -> None:
    times = role.shards.times
    for outcome, whole in times.open_to_complete.items():
        answer.transactions.add(
            outcome=outcome,
            ended=whole.count,
            marker_buckets=times.end_to_complete[outcome].counts,
        )
