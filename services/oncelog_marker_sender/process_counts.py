"""The count that a marker sender answers to gateways: how many markers wait."""

from oncelog.api.v1.process_pb2 import DescribeProcessResponse
from oncelog_marker_sender.wiring import MarkerSenderRole


def tell_counts(role: MarkerSenderRole, answer: DescribeProcessResponse) -> None:
    answer.queued_markers = sum(queue.depth for queue in role.sender.depths())
