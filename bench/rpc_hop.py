"""The cost of one hop between two processes: a session against a plain unary gRPC call, in turns of one run.

python -m bench.rpc_hop
"""

import asyncio
import json
import statistics
import sys
import time

import grpc.aio
import uvloop

from oncelog.api.v1 import storage_pb2 as pb
from oncelog.rpc.channel import PlainStub
from oncelog.rpc.contract import STORAGE
from oncelog.rpc.server import RpcServer
from oncelog.rpc.session_client import PeerSession, SessionStub
from oncelog.rpc.sessions import SessionLimits

ROUNDS = 4
SINGLE_CALLS = 1500
IN_FLIGHT = 64
PARALLEL_CALLS = 8000
RECORDS_BYTES = 500


class Echo:
    """A servicer that does the least that a storage node could do."""

    async def Produce(self, request, context):  # noqa: N802
        return pb.ProduceResponse(partitions=[pb.PartitionProduced(base_offset=1)])


async def serve():
    server = RpcServer("127.0.0.1", 0, SessionLimits())
    server.served.add(STORAGE, Echo())
    await server.start()
    print(server.port, flush=True)
    await asyncio.to_thread(sys.stdin.read)
    await server.stop(0)


def request():
    records = pb.PartitionRecords(topic="orders", partition=1, records=b"r" * RECORDS_BYTES)
    return pb.ProduceRequest(acks=-1, partitions=[records])


async def one_after_the_other(stub):
    message, took = request(), []
    for _ in range(SINGLE_CALLS):
        began = time.perf_counter()
        await stub.Produce(message, timeout=5)
        took.append(time.perf_counter() - began)
    return statistics.median(took) * 1e6


async def in_parallel(stub):
    message, left = request(), iter(range(PARALLEL_CALLS))

    async def caller():
        for _ in left:
            await stub.Produce(message, timeout=5)

    began = time.perf_counter()
    await asyncio.gather(*(caller() for _ in range(IN_FLIGHT)))
    return PARALLEL_CALLS / (time.perf_counter() - began)


async def measure():
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "bench.rpc_hop",
        "serve",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    address = f"127.0.0.1:{int(await process.stdout.readline())}"
    session = PeerSession(address, SessionLimits())
    results = {"session": [], "unary": []}
    async with grpc.aio.insecure_channel(address) as channel:
        stubs = {
            "session": SessionStub(session, STORAGE),
            "unary": PlainStub(channel, STORAGE),
        }
        for _ in range(ROUNDS):
            for name, stub in stubs.items():
                results[name].append((await one_after_the_other(stub), await in_parallel(stub)))
    await session.close()
    process.stdin.close()
    await process.wait()
    for name, rounds in results.items():
        # The first round warms up.
        latencies, rates = zip(*rounds[1:], strict=True)
        print(
            json.dumps(
                {
                    "kind": name,
                    "p50_us": round(statistics.median(latencies)),
                    f"calls_per_s_{IN_FLIGHT}_in_flight": round(statistics.median(rates)),
                }
            )
        )


if __name__ == "__main__":
    uvloop.run(serve() if sys.argv[1:] == ["serve"] else measure())
