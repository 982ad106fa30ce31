"""The inspector over a small simulated cluster: sound while it is sound, broken by each thing that is made broken."""

import asyncio
import os

import pytest
from oncelog_robustness.checkers.cluster import CHECKERS
from oncelog_robustness.checkers.verdict import Answer
from oncelog_robustness.clients.aiokafka import AiokafkaClients
from oncelog_robustness.history import History
from oncelog_robustness.simulator import seams
from oncelog_robustness.simulator.inspector import Inspector, InvariantBroken
from tests.simulation import small_cluster

from oncelog_storage.core.producer_state import ProducerStates

TOPIC = "orders"
WAIT_S = 120
TIMEOUT_MS = 5_000


class SmallCluster(small_cluster.SmallCluster):
    """A cluster with an inspector, and a client that writes transactions."""

    def __init__(self, root, is_inspected=True):
        super().__init__(root, seed=4, storage_count=3)
        self.inspector = Inspector(self.world, self.cluster) if is_inspected else None
        self.client = self.world.new_process("client")
        self.raised = []
        self.world.loop.set_exception_handler(self.unhandled)

    def settings_of(self, member):
        is_storage = member.role == "storage"
        flushes = {"ONCELOG_STORAGE_FLUSH_POLICY": "always"} if is_storage else {}
        return super().settings_of(member) | flushes

    def unhandled(self, loop, context):
        self.raised.append(context.get("exception"))

    async def started(self):
        await self.cluster.start()
        if self.inspector is not None:
            self.inspector.start()
        await self.client.spawn(self.work("pay", 6), "work")

    async def work(self, transactional_id, count):
        clients = AiokafkaClients(self.cluster.bootstrap)
        admin = await clients.admin("admin")
        await admin.create_topic(TOPIC, 2, 3, {})
        await admin.close()
        await self.write(transactional_id, count)

    async def write(self, transactional_id, count):
        clients = AiokafkaClients(self.cluster.bootstrap)
        producer = await clients.producer("writer", transactional_id, TIMEOUT_MS)
        await producer.init_transactions()
        for number in range(count):
            await producer.begin()
            for partition in (0, 1):
                await producer.send((TOPIC, partition), f"{transactional_id} {number}")
            if number % 3 == 2:
                await producer.abort()
            else:
                await producer.commit()
        await producer.close()

    async def settled(self):
        async with asyncio.timeout(WAIT_S):
            while self.inspector.unsettled() is not None:  # noqa: ASYNC110
                await asyncio.sleep(0.25)

    def verdicts(self):
        found = [check(History(), self.inspector.observations) for check in CHECKERS]
        return {verdict.checker: verdict for verdict in found}


def result_of(steps, is_inspected=True):
    """What `steps(small)`, a coroutine function, returns; in a child of its own."""
    return small_cluster.result_of(_run_steps, steps, is_inspected)


def _run_steps(root, steps, is_inspected):
    small = SmallCluster(root, is_inspected)
    return small.world.loop.run_until_complete(steps(small))


def broken(verdicts):
    return {name for name, verdict in verdicts.items() if verdict.answer is Answer.BROKEN}


def test_a_sound_cluster_is_judged_sound_in_all_respects():
    async def steps(small):
        await small.started()
        small.cluster.kill("storage-2")
        small.disks.power_cut("storage-2")
        await asyncio.sleep(1)
        small.cluster.launch("storage-2")
        small.cluster.kill("coordinator-1")
        small.cluster.launch("coordinator-1")
        await small.settled()
        await small.inspector.finish()
        seen = small.inspector.observations
        counts = len(seen.replicas), small.inspector.sample_count
        return small.verdicts(), counts, small.raised

    verdicts, (kept, sampled), raised = result_of(steps)
    answers = {name: (verdict.answer, verdict.proof) for name, verdict in verdicts.items()}
    assert set(answers.values()) == {(Answer.OK, ())}, answers
    assert not [one for one in raised if isinstance(one, InvariantBroken)]
    assert kept < sampled


def test_looking_changes_nothing():
    async def steps(small):
        await small.started()
        await asyncio.sleep(3)
        return small.world.trace_log.digest

    assert result_of(steps) == result_of(steps, is_inspected=False)


@pytest.mark.parametrize(
    ("damage", "checker"),
    [
        ("a high watermark beyond the end", "offsets-out-of-order"),
        ("a high watermark that goes back", "high-watermark-went-back"),
        ("a second leader", "two-leaders-of-an-epoch"),
        ("a leader without what was committed", "committed-records-gone"),
    ],
)
def test_what_breaks_is_seen_at_its_step(damage, checker):
    async def steps(small):
        await small.started()
        (process, leader), (_, follower) = replicas_of(small)
        if damage == "a high watermark beyond the end":
            leader.high_watermark = leader.log.log_end_offset + 1
            process.context().run(leader.high_watermark_moved)
        elif damage == "a high watermark that goes back":
            leader.high_watermark -= 1
            process.context().run(leader.high_watermark_moved)
        elif damage == "a second leader":
            follower.leadership = follower.leadership._replace(is_here=True)
        else:
            later = leader.leadership.leader_epoch + 1
            follower.leadership = follower.leadership._replace(is_here=True, leader_epoch=later)
            follower.log.log_end_offset = follower.high_watermark = 1
        # Where nobody was told, the next look at everything finds it.
        await asyncio.sleep(1)
        raised = [str(one) for one in small.raised if isinstance(one, InvariantBroken)]
        return small.verdicts(), raised

    verdicts, raised = result_of(steps)
    assert checker in broken(verdicts), verdicts
    assert raised or damage == "a high watermark that goes back"
    assert f"{TOPIC}-0" in verdicts[checker].proof[0]


def test_a_stable_offset_that_was_too_early_is_seen():
    async def steps(small):
        end = ProducerStates.apply_marker

        def end_at_once(producers, **marker):
            completed = end(producers, **marker)
            producers.high_watermark_moved(marker["marker_offset"] + 1)
            return completed

        seams.replace(ProducerStates, "apply_marker", end_at_once)
        await small.started()
        await small.settled()
        await small.inspector.finish()
        return small.verdicts()

    verdicts = result_of(steps)
    assert broken(verdicts) == {"lso-passed-undecided"}


def replicas_of(small):
    """The leader of the topic's first partition, and one of its followers, each with its process."""
    held = [
        (process, replica)
        for process, role in small.cluster.running("storage")
        for replica in role.replicas()
        if replica.partition == (TOPIC, 0)
    ]
    leading = next(one for one in held if one[1].leadership.is_here)
    return leading, next(one for one in held if one is not leading)


async def start_without_the_last_bytes(small, name):
    """As if they had never reached the platter."""
    small.cluster.kill(name)
    newest = max(small.disks.folder(name).glob(f"{TOPIC}-0/*.log"))
    os.truncate(newest, newest.stat().st_size - 100)
    small.cluster.launch(name)
    await small.settled()
    await small.inspector.finish()


def test_a_disk_that_lied_about_fsync_is_seen_at_the_next_start():
    async def steps(small):
        await small.started()
        (process, _), _ = replicas_of(small)
        await start_without_the_last_bytes(small, process.name)
        return small.verdicts()

    verdicts = result_of(steps)
    assert broken(verdicts) == {"fsync-lie"}
    assert "synced and committed up to" in verdicts["fsync-lie"].proof[0]


def test_a_follower_that_told_what_it_had_not_synced_is_seen():
    async def steps(small):
        await small.started()
        _, (process, replica) = replicas_of(small)
        # From here on it syncs nothing, and calls nothing synced.
        replica._flushes_always = False
        await small.client.spawn(small.write("more", 3), "more work")
        await small.settled()
        end_offset = replica.log.log_end_offset
        await start_without_the_last_bytes(small, process.name)
        return end_offset, small.verdicts()

    end_offset, verdicts = result_of(steps)
    assert broken(verdicts) == {"fsync-lie"}
    assert f"committed up to {end_offset} " in verdicts["fsync-lie"].proof[0]


def test_what_is_open_is_named():
    async def steps(small):
        await small.started()
        clients = AiokafkaClients(small.cluster.bootstrap)
        producer = await small.client.spawn(
            clients.producer("late", "open", TIMEOUT_MS), "producer"
        )

        async def begin():
            await producer.init_transactions()
            await producer.begin()
            await producer.send((TOPIC, 0), "open")

        await small.client.spawn(begin(), "begin")
        while_open = small.inspector.unsettled()
        await small.inspector.finish()
        stuck = small.verdicts()["transaction-left-open"]
        small.client.end()
        await small.settled()
        small.cluster.kill("listener-1")
        return while_open, stuck, small.inspector.unsettled()

    while_open, stuck, without_listener = result_of(steps)
    assert while_open == "open is Ongoing"
    assert stuck.answer is Answer.BROKEN
    assert any("open is still Ongoing" in sentence for sentence in stuck.proof)
    assert without_listener == "a listener does not run"
