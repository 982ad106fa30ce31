"""A seeded storm over three replicas: whatever happens to nodes, what acks=all acknowledged stays, and replicas agree.

A schedule appends plain and transactional batches, ends transactions, deletes records, and takes checkpoints. It kills
nodes without checkpoints, cuts the tail off logs of nodes outside the ISR, and cuts nodes off. It lets images fall
behind, moves leaders, and loses answers of the controller. Then everything heals; a bit flips in an old segment, and
that heals too. The replicas are compared part by part once they stand still in one leader epoch.
"""

import asyncio
import contextlib
import random
from pathlib import Path

import pytest
from tests.integration.storage.replica_cluster import Cluster, contents, differences
from tests.integration.storage.storage_node import batch, txn_batch, until

from oncelog.errors import KafkaError
from oncelog.record.batch import iter_headers
from oncelog.record.records import decode_batch
from oncelog.rpc.sessions import PeerUnavailable

NODES = (1, 2, 3)
STEPS = 120


class Storm:
    def __init__(self, cluster, seed):
        self.cluster = cluster
        self.random = random.Random(seed)
        self.acknowledged = {}
        self.written = 0
        self.producers = {}
        self.tasks = set()
        self.transition_log = []
        self.deleted_before = 0

    async def run(self):
        actions = (
            [self.append] * 14
            + [self.append_transactional] * 8
            + [self.end_transaction] * 4
            + [self.checkpoint] * 2
            + [self.move_leader] * 2
            + [self.cut_off, self.heal, self.kill, self.kill_unnoticed, self.start, self.start]
            + [self.delete_records]
            + [self.stop_telling, self.tell_again, self.tell_again]
        )
        for _ in range(STEPS):
            action = self.random.choice(actions)
            self.transition_log.append(action.__name__)
            await action()
            self.check_order()
            if self.random.random() < 0.6:
                await asyncio.sleep(self.random.choice((0, 0, 0.002, 0.01)))
        await self.calm()

    # What clients do.

    def spawn(self, coroutine):
        task = asyncio.create_task(coroutine)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def append(self):
        value = b"value %d" % self.written
        self.written += 1
        self.spawn(self._append(batch(self.random.randint(1, 3), value=value), value))

    async def append_transactional(self):
        producer_id = self.random.choice((100, 101, 102))
        state = self.producers.setdefault(producer_id, [0, 0, False, False])
        if state[3]:
            return
        state[3] = True
        value = b"value %d" % self.written
        self.written += 1
        records = txn_batch(producer_id, state[1], 2, producer_epoch=state[0], value=value)
        self.spawn(self._append(records, value, state))

    async def _append(self, records, value, state=None):
        fields = {"transactional_id": "t"} if state else {}
        answer = None
        with contextlib.suppress(AttributeError, KafkaError, PeerUnavailable):
            # No leader, in the controller's eyes, is an AttributeError of None.
            answer = await self.cluster.produce(records, timeout_ms=300, **fields)
        if state is not None:
            if answer is not None and not answer.error_code:
                state[1] += 2
                state[2] = True
            else:
                # It may be there or not: go on under a new epoch, as a client does that gives up.
                state[0], state[1], state[2] = state[0] + 1, 0, True
            state[3] = False
        if answer is not None and not answer.error_code:
            self.acknowledged[answer.base_offset] = value

    async def end_transaction(self):
        for producer_id, state in self.producers.items():
            if state[2] and not state[3]:
                state[3] = True
                self.spawn(self._end(producer_id, state, self.random.random() < 0.5))
                return

    async def _end(self, producer_id, state, commit):
        with contextlib.suppress(AttributeError, KafkaError, PeerUnavailable):
            code = await self.cluster.mark(producer_id, state[0], commit)
            state[2] = bool(code)
        state[3] = False

    async def delete_records(self):
        self.spawn(self._delete())

    async def _delete(self):
        with contextlib.suppress(AttributeError, KafkaError, PeerUnavailable):
            held = self.cluster.leader().held()
            before = self.random.randint(0, held.high_watermark)
            await self.cluster.delete_records(before, timeout_ms=300)
            # Whatever was answered, the start may have moved.
            self.deleted_before = max(self.deleted_before, before)

    # What happens to nodes.

    async def damage(self):
        """A bit flips in an old segment of one replica while the others are sound, and the scrub finds it."""
        node = self._some_node()
        held = self.cluster.nodes[node].held()
        if len(held.log.segments) > 1:
            flip_a_bit(Path(held.log.segments[0].log_path), self.random)
            await self.cluster.nodes[node].role.replication.scrub_all(1 << 40)

    def _some_node(self):
        return self.random.choice(sorted(self.cluster.nodes)) if self.cluster.nodes else None

    async def checkpoint(self):
        node = self._some_node()
        if node is not None:
            await self.cluster.nodes[node].role.maintenance.checkpoint_all()

    async def move_leader(self):
        found = self.cluster.controller.partition()
        alive = [node for node in found.isr if node in self.cluster.nodes]
        if alive:
            self.cluster.controller.change(leader=self.random.choice(alive))

    async def cut_off(self):
        node = self.random.choice(NODES)
        self.cluster.cut_off.add(node)
        if self.random.random() < 0.7:
            self.cluster.controller.fence(node)

    async def heal(self):
        self.cluster.controller.fenced -= self.cluster.cut_off
        self.cluster.cut_off.clear()
        self._elect()

    async def kill(self):
        node = self._some_node()
        if node is not None:
            await self.cluster.kill(node)

    async def kill_unnoticed(self):
        node = self._some_node()
        if node is not None:
            await self.cluster.kill(node, fence=False)
            await self.cluster.start(node)

    async def start(self):
        away = [node for node in NODES if node not in self.cluster.nodes]
        if away:
            node = self.random.choice(away)
            if node not in self.cluster.controller.partition().isr:
                self.lose_tail(node)
            await self.cluster.start(node)

    def lose_tail(self, node):
        """A power cut: what no checkpoint has synced is gone, or part of it."""
        folder = self.cluster.path / str(node)
        points = folder / "recovery-point-offset-checkpoint"
        if not points.exists() or self.random.random() < 0.5:
            return
        safe = {
            line.rsplit(" ", 1)[0]: int(line.rsplit(" ", 1)[1])
            for line in points.read_text().splitlines()[2:]
        }.get("orders 0", 0)
        for path in sorted((folder / "orders-0").glob("*.log"), reverse=True):
            data = path.read_bytes()
            keep = 0
            for position, header in iter_headers(data):
                if header.next_offset <= safe:
                    keep = position + header.size_bytes
            if keep < len(data):
                cut = self.random.randint(keep, len(data))
                path.write_bytes(data[:cut])
                self.transition_log.append(f"lost {len(data) - cut} bytes of node {node}")
            return

    async def stop_telling(self):
        node = self._some_node()
        if node is not None:
            self.cluster.controller.stop_telling(node)

    async def tell_again(self):
        for node in list(self.cluster.nodes):
            self.cluster.controller.tell_again(node)

    def _elect(self):
        found = self.cluster.controller.partition()
        alive = [node for node in found.isr if node in self.cluster.nodes]
        if found.leader not in self.cluster.nodes and alive:
            self.cluster.controller.change(leader=alive[0])

    # What must hold.

    def check_order(self):
        for node in self.cluster.nodes.values():
            held = node.held()
            ends = (held.last_stable_offset, held.high_watermark, held.log.log_end_offset)
            assert list(ends) == sorted(ends), (node.node_id, ends)

    def is_whole(self):
        return len(self.cluster.controller.partition().isr) == len(NODES) and all(
            node.held().offline is None for node in self.cluster.nodes.values()
        )

    async def calm(self):
        cluster = self.cluster
        cluster.cut_off.clear()
        for node in NODES:
            if node not in cluster.nodes:
                await cluster.start(node)
        cluster.controller.fenced.clear()
        for node in NODES:
            cluster.controller.tell_again(node)
        self._elect()
        await asyncio.gather(*self.tasks)
        await until(self.is_whole, 20)
        await cluster.caught_up()
        await self.damage()
        await until(self.is_whole, 20)
        await cluster.caught_up()
        assert differences(cluster) == {}
        start = cluster.leader().held().log.log_start_offset
        assert start <= self.deleted_before
        found = {}
        for _, header in iter_headers(data := contents(cluster.leader().held())["bytes"]):
            if not header.is_control:
                at = next(p for p, h in iter_headers(data) if h.base_offset == header.base_offset)
                found[header.base_offset] = next(iter(decode_batch(data, at))).value
        lost = {
            offset: value
            for offset, value in self.acknowledged.items()
            if offset >= start and found.get(offset) != value
        }
        assert not lost


def flip_a_bit(path, source):
    data = bytearray(path.read_bytes())
    data[source.randrange(len(data))] ^= 1 << source.randrange(8)
    path.write_bytes(data)


@pytest.mark.parametrize("seed", range(8))
async def test_a_storm_loses_nothing_that_was_acknowledged(tmp_path, seed):
    cluster = Cluster(
        tmp_path,
        replica_lag_time_max_ms=150,
        replica_fetch_wait_max_ms=50,
        checkpoint_bytes=2048,
        flush_policy="always" if seed % 4 == 3 else "os",
    )
    cluster.controller.topic(min_insync_replicas=2, segment_bytes=4096)
    for node in NODES:
        await cluster.start(node)
    storm = Storm(cluster, seed)
    cluster.controller.loses_answer = lambda: storm.random.random() < 0.2
    try:
        await storm.run()
    except BaseException:
        print("\n".join(storm.transition_log))
        raise
    finally:
        for task in storm.tasks:
            task.cancel()
        for node in list(cluster.nodes):
            await cluster.nodes.pop(node).role.stop()
    assert storm.acknowledged
