"""Describes a process, whatever its role: its version, the resources that it uses, and the numbers of its role."""

import os
import time
from collections.abc import Callable
from functools import cache
from importlib.metadata import version

from oncelog.api.v1 import process_pb2 as pb


class ProcessServicer:
    """Answers the `Process` service, which gateways call every few seconds. So a role only copies numbers that it
    has.
    """

    def __init__(
        self, node_id: int, tell: Callable[[pb.DescribeProcessResponse], None] = lambda answer: None
    ) -> None:
        """`tell` is called for each answer, and writes the numbers of the process's role into it."""
        self._node_id = node_id
        self._tell = tell
        self._started_ms = time.time_ns() // 1_000_000

    async def DescribeProcess(
        self, request: pb.DescribeProcessRequest, context: object
    ) -> pb.DescribeProcessResponse:
        answer = pb.DescribeProcessResponse(
            node_id=self._node_id,
            version=_version(),
            started_ms=self._started_ms,
            cpu_seconds=time.process_time(),
            resident_bytes=resident_bytes(),
        )
        self._tell(answer)
        return answer


@cache
def _version() -> str:
    """Return oncelog's version. It is cached, because reading it costs milliseconds."""
    return version("oncelog")


def resident_bytes() -> int:
    """Return the resident memory of this process in bytes; 0 if the system has no /proc, as outside Linux."""
    try:
        with open("/proc/self/statm", "rb") as found:
            return int(found.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0
