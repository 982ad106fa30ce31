"""The process of the coordinator workloads: it fills shards with transactions, or loads them.

`python -m bench.coordinator_child fill FOLDER IDS FINISHED` writes what FINISHED transactions of IDS ids leave
behind, and one open transaction of each id. It writes record by record as coordinators do, into the shards of a
storage node that cleans them with default settings. `load FOLDER` starts a coordinator on them and prints, as
JSON, seconds and bytes.
"""

import asyncio
import contextlib
import json
import os
import sys
import time
import uuid
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from bench.brokers import resident_bytes
from oncelog.api.v1 import controller_pb2, storage_pb2, types_pb2
from oncelog.ids import (
    TRANSACTION_STATE_TOPIC,
    Millis,
    Partition,
    ProducerEpoch,
    ProducerId,
    TransactionalId,
    shard_of,
)
from oncelog.record.records import Record, encode_batch
from oncelog.rpc.direct import DirectStub
from oncelog.rpc.directory import LocalDirectory
from oncelog.rpc.metadata import TRANSACTION, MetadataFollower
from oncelog_controller.settings import ControllerSettings
from oncelog_controller.wiring import build_controller
from oncelog_coordinator.core.shard_machine import encode_shard_record
from oncelog_coordinator.core.txn_state import TxnMetadata, TxnState
from oncelog_coordinator.settings import CoordinatorSettings
from oncelog_coordinator.wiring import build_coordinator
from oncelog_storage.settings import StorageSettings
from oncelog_storage.wiring import build_storage

NODE = 1
TRANSACTIONS_A_BATCH = 5
"""The transactions of one shard that share a batch: group commit puts what is decided at one time into one batch."""
FINISHED_STATES = (
    TxnState.ONGOING,
    TxnState.PREPARE_COMMIT,
    TxnState.COMPLETE_COMMIT,
)


@asynccontextmanager
async def _storage(folder: Path) -> AsyncIterator[tuple[Any, MetadataFollower, LocalDirectory]]:
    """Yield a started controller and storage node, as (storage role, image, directory)."""
    async with AsyncExitStack() as stack:
        built = build_controller(ControllerSettings(database_url=f"sqlite:///{folder / 'c.db'}"))
        await built.start()
        stack.push_async_callback(built.stop)
        controller = DirectStub(built.servicer)
        node = controller_pb2.Node(
            node_id=NODE, roles=[controller_pb2.ROLE_STORAGE, controller_pb2.ROLE_COORDINATOR]
        )
        await controller.RegisterNode(
            controller_pb2.RegisterNodeRequest(node=node, incarnation_id=uuid.uuid4().hex)
        )
        follower = MetadataFollower(NODE, controller)
        following = asyncio.create_task(follower.run())
        stack.push_async_callback(_cancel, following)
        await follower.wait_until(0)
        stub = DirectStub()
        directory = LocalDirectory(
            storage=stub,
            coordinator=DirectStub(),
            group_coordinator=DirectStub(),
            marker_sender=DirectStub(),
            controller=controller,
        )
        storage = build_storage(
            StorageSettings(data_dir=folder / "logs"), NODE, follower, directory
        )
        stub.bind(storage.servicer)
        await storage.start()
        stack.push_async_callback(storage.stop)
        yield storage, follower, directory


async def _cancel(task: "asyncio.Task[None]") -> None:
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


def _metadata(number: int, state: TxnState) -> TxnMetadata:
    has_partitions = state in (TxnState.ONGOING, TxnState.PREPARE_COMMIT)
    return TxnMetadata(
        TransactionalId(f"transactional-id-{number}"),
        ProducerId(number),
        ProducerEpoch(0),
        state,
        Millis(3_600_000),
        (Partition("orders", number % 3),) if has_partitions else (),
        Millis(-1 if state is TxnState.EMPTY else time.time_ns() // 1_000_000),
        Millis(time.time_ns() // 1_000_000),
        ProducerId(number),
        client_transaction_version=2,
    )


class _Shard:
    """A shard to which records are appended as its coordinator does, one request at a time."""

    def __init__(self, storage: Any, number: int, coordinator_epoch: int) -> None:
        self._storage = storage
        self._partition = types_pb2.TopicPartition(topic=TRANSACTION_STATE_TOPIC, partition=number)
        self._coordinator_epoch = coordinator_epoch
        self._offset = 0

    async def append(self, states: Sequence[TxnMetadata]) -> None:
        now = time.time_ns() // 1_000_000
        records = [Record(*encode_shard_record(state, 1), now) for state in states]
        batch = encode_batch(
            records, producer_id=1_000_000, producer_epoch=0, base_sequence=self._offset
        )
        answer = await self._storage.Append(
            storage_pb2.AppendRequest(
                partition=self._partition,
                coordinator_epoch=self._coordinator_epoch,
                records=bytes(batch),
                timeout_ms=10_000,
                expected_base_offset=self._offset,
            ),
            None,
        )
        assert answer.error_code == 0, answer
        # A direct call does not suspend, and the node has other things to do.
        await asyncio.sleep(0)
        self._offset += len(records)


async def _write(shard: _Shard, ids: Sequence[int], rounds: int) -> None:
    """Write `rounds` finished transactions of each id, then an open one."""
    groups = [
        ids[first : first + TRANSACTIONS_A_BATCH]
        for first in range(0, len(ids), TRANSACTIONS_A_BATCH)
    ]
    for group in groups:
        await shard.append([_metadata(number, TxnState.EMPTY) for number in group])
    for _ in range(rounds):
        for group in groups:
            for state in FINISHED_STATES:
                await shard.append([_metadata(number, state) for number in group])
    for group in groups:
        await shard.append([_metadata(number, TxnState.ONGOING) for number in group])


async def fill(folder: Path, ids: int, finished: int) -> dict[str, float]:
    async with _storage(folder) as (storage, follower, _):
        image = follower.image
        count = image.shard_count(TRANSACTION)
        of_shard: dict[int, list[int]] = {}
        for number in range(ids):
            of_shard.setdefault(shard_of(f"transactional-id-{number}", count), []).append(number)
        await asyncio.gather(
            *(
                _write(
                    _Shard(
                        storage.servicer,
                        number,
                        image.shards[TRANSACTION, number].coordinator_epoch,
                    ),
                    members,
                    finished // ids,
                )
                for number, members in of_shard.items()
            )
        )
        metrics = storage.maintenance.cleaner.metrics
        return {
            "passes": metrics.passes,
            "bytes_saved": metrics.bytes_saved,
            "bytes_read": metrics.bytes_read,
        }


async def load(folder: Path) -> dict[str, float]:
    async with _storage(folder) as (_, follower, directory):
        coordinator = build_coordinator(CoordinatorSettings(), NODE, follower, directory)
        directory.coordinator(NODE).bind(coordinator.servicer)
        began = time.perf_counter()
        await coordinator.start()
        await coordinator.shards.wait_until_loaded()
        seconds = time.perf_counter() - began
        ids = sum(
            sum(1 for _ in driver.machine.txn.transactions)
            for _, driver in coordinator.shards.drivers()
        )
        resident = resident_bytes(os.getpid())
        await coordinator.stop()
        return {"seconds": seconds, "resident_bytes": resident, "ids": ids}


def main() -> None:
    command, folder, *numbers = sys.argv[1:]
    if command == "fill":
        result = asyncio.run(fill(Path(folder), int(numbers[0]), int(numbers[1])))
    else:
        result = asyncio.run(load(Path(folder)))
    print(json.dumps(result))


if __name__ == "__main__":
    main()
