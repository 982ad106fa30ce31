"""Private calls of one client, one after the other, down to the decisions of the sink's machine.

An input is a stream of frames. A request that breaks an assertion would stop the shard, for everybody.
"""

from dataclasses import replace

from google.protobuf.message import DecodeError
from tests.worlds.sink.sink_shell import MINUTE_MS, SinkShell, nonce, replayed, snapshot

from oncelog.api.v1 import coordinator_pb2 as pb
from oncelog.ids import ProducerId, acl_name_of
from oncelog.protocol.frames import (
    FrameError,
    FrameSplitter,
    framed_bytes,
    read_client_id,
    read_request_prefix,
    write_request_head,
)
from oncelog.protocol.private_api import KEY_OF_METHOD, PRIVATE_CALLS, PRIVATE_VERSION
from oncelog_coordinator.sink_servicer import SinkCalls

SIZE_MAX = 65_536
CALLS_MAX = 20


class Shards:
    """The coordinator's shards, where they are one machine in memory."""

    def __init__(self):
        self.shell = SinkShell()

    async def ask(self, _name, event):
        request, machine = event(self.shell.next_request_id()), self.shell.machine
        if machine.wants_producer_id(request):
            request = replace(request, producer_id=ProducerId(self.shell.next_producer_id))
            self.shell.next_producer_id += 1
        return self.shell.submit(request)


def fed(data):
    shards = Shards()
    calls, shell = SinkCalls(shards), shards.shell
    try:
        frames = FrameSplitter(SIZE_MAX).feed(data)[:CALLS_MAX]
        accepted = [answered(calls, frame) for frame in frames]
    except (FrameError, DecodeError):
        return False
    shell.deliver()
    shell.advance(60 * MINUTE_MS)
    shell.deliver()
    assert snapshot(replayed(shell.log)) == snapshot(shell.machine)
    return bool(accepted) and all(accepted)


def answered(calls, frame):
    key, version, _ = read_request_prefix(frame)
    call = PRIVATE_CALLS.get(key)
    if call is None or version != PRIVATE_VERSION:
        return False
    _, position = read_client_id(frame, is_flexible=True)
    request = call.request.FromString(bytes(frame[position:]))
    acl_name_of(request.sink)
    if not request.sink:
        return False
    # As it comes to the coordinator.
    arrived = call.request.FromString(request.SerializeToString())
    answer = finished(getattr(calls, call.method)(arrived, None))
    answer.SerializeToString()
    return answer.error_code == 0


def finished(coroutine):
    """Of a coroutine that waits for nothing."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        return end.value
    raise AssertionError("the call waits for something")


def frame_of(method, **values):
    request = PRIVATE_CALLS[KEY_OF_METHOD[method]].request(**values)
    head = write_request_head(KEY_OF_METHOD[method], PRIVATE_VERSION, 7, "fuzz", True)
    return framed_bytes(head + request.SerializeToString())


def seeds():
    """A batch of two tasks to its commit; an attempt that is aborted; one that the next replaces."""
    sink, query = "pay", "query"
    opened = frame_of("OpenAttempt", sink=sink, nonce=nonce(1))
    attempt = {"sink": sink, "nonce": nonce(1)}
    joins, seals, messages = b"", b"", []
    for task, producer_id in enumerate((100, 101)):
        joins += frame_of(
            "JoinAttempt",
            **attempt,
            query_id=query,
            run_id="run",
            batch_id=0,
            task_partition=task,
            task_attempt_id=task,
        )
        last = [pb.PartitionSequence(topic="orders", partition=task, last_sequence=9)]
        identity = {"producer_id": producer_id, "producer_epoch": 0, "row_count": 10}
        seals += frame_of("SealBranch", **attempt, **identity, last_sequences=last, row_checksum=3)
        messages.append(
            pb.BranchMessage(nonce=nonce(1), query_id=query, task_partition=task, **identity)
        )
    commit = frame_of("CommitBatch", sink=sink, batch_id=0, messages=messages)
    described = frame_of("DescribeSink", sink=sink)
    aborted = frame_of("AbortAttempt", sink=sink, nonces=[nonce(1)])
    return [
        opened + joins + seals + commit + described,
        opened + joins + aborted + described,
        opened + joins + frame_of("OpenAttempt", sink=sink, nonce=nonce(2), timeout_ms=60_000),
    ]
