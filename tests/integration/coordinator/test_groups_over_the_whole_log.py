"""Groups over a real storage role: what a group was told outlives the process that told it."""

import asyncio

import pytest
from tests.integration.coordinator.group_client import GroupClient, group_on

from oncelog.api.v1 import groups_pb2 as pb
from oncelog.errors import ErrorCode

SHARDS = "__consumer_offsets"


async def test_a_restart_keeps_members_assignments_and_offsets(tmp_path):
    async with group_on(tmp_path) as (_, client):
        joined = await client.join()
        assert (joined.generation_id, joined.leader) == (1, joined.member_id)
        synced = await client.sync(joined, {joined.member_id: b"all of it"})
        assert (synced.error_code, synced.assignment) == (0, b"all of it")
        assert await client.heartbeat(joined) == 0
        assert await client.commit(joined, 42) == [0]
    async with group_on(tmp_path) as (_, client):
        described = await client.describe()
        assert (described.state, len(described.members)) == ("Stable", 1)
        assert described.members[0].assignment == b"all of it"
        assert await client.heartbeat(joined) == 0
        assert await client.fetch() == [(42, 0)]
        assert await client.commit(joined, 43) == [0]
        assert await client.fetch() == [(43, 0)]
        assert await client.commit(joined, 44, generation=0) == [ErrorCode.ILLEGAL_GENERATION]
        assert await client.leave(joined) == [0]
        assert (await client.describe()).state == "Empty"
        assert await client.delete() == 0
        assert await client.fetch() == [(-1, 0)]
    async with group_on(tmp_path) as (_, client):
        assert (await client.describe()).error_code == ErrorCode.GROUP_ID_NOT_FOUND
        assert await client.fetch() == [(-1, 0)]


async def test_names_that_no_record_can_hold_are_refused(tmp_path):
    async with group_on(tmp_path) as (_, client):
        joined = await client.join()
        servicer = client.groups
        long_id = "g" * 32_768
        fields = {"session_timeout_ms": 10_000, "protocol_type": "consumer"}
        refused = await servicer.JoinGroup(pb.JoinGroupRequest(group_id=long_id, **fields), None)
        assert refused.error_code == ErrorCode.INVALID_GROUP_ID
        refused = await servicer.JoinGroup(
            pb.JoinGroupRequest(group_id="other", group_instance_id=long_id, **fields), None
        )
        assert refused.error_code == ErrorCode.INVALID_REQUEST
        named = await servicer.JoinGroup(
            pb.JoinGroupRequest(
                group_id="other", client_id=long_id, requires_known_member_id=True, **fields
            ),
            None,
        )
        assert len(named.member_id) < 1_100
        assert await client.heartbeat(joined) in (0, ErrorCode.REBALANCE_IN_PROGRESS)


async def test_two_members_share_a_generation_and_one_leads_it(tmp_path):
    async with group_on(tmp_path, group_initial_rebalance_delay_ms=50) as (_, client):
        first, second = await asyncio.gather(client.join(), client.join())
        assert first.generation_id == second.generation_id
        assert first.leader == second.leader
        leader, follower = (first, second) if first.leader == first.member_id else (second, first)
        assert (len(leader.members), len(follower.members)) == (2, 0)
        waiting = asyncio.create_task(client.sync(follower))
        response = await client.sync(
            leader, {leader.member_id: b"left", follower.member_id: b"right"}
        )
        assert (response.assignment, (await waiting).assignment) == (b"left", b"right")
        assert await client.leave(follower) == [0]
        assert await client.heartbeat(leader) == ErrorCode.REBALANCE_IN_PROGRESS
        again = await client.join(leader.member_id)
        assert again.generation_id == leader.generation_id + 1


async def test_pending_offsets_survive_a_restart_until_their_marker(tmp_path):
    for commit, expected in ((True, 7), (False, 5)):
        name = f"pay-{commit}"
        async with group_on(tmp_path, name) as (log, client):
            assert await client.commit_alone(5) == [0]
            identity = await log.identity(name)
            assert await client.add_offsets(name, identity) == 0
            assert await client.commit_in_transaction(name, identity, 7) == [0]
            assert await client.fetch(require_stable=True) == [
                (-1, ErrorCode.UNSTABLE_OFFSET_COMMIT)
            ]
            assert await client.fetch() == [(5, 0)]
        async with group_on(tmp_path, name) as (log, client):
            assert await client.fetch(require_stable=True) == [
                (-1, ErrorCode.UNSTABLE_OFFSET_COMMIT)
            ]
            assert (await log.end(name, identity, commit)).error_code == 0
            await log.until_state(name, "CompleteCommit" if commit else "CompleteAbort")
            assert await client.fetch(require_stable=True) == [(expected, 0)]
            stable, high, _ = await log.offsets((SHARDS, client.shard))
            assert stable == high
        async with group_on(tmp_path, name) as (_, client):
            assert await client.fetch(require_stable=True) == [(expected, 0)]


async def test_a_late_copy_of_a_commit_does_not_set_a_group_back(tmp_path):
    """A listener asked again, and the first copy came when its client had gone on (ADR 0018)."""
    async with group_on(tmp_path, "plain") as (_, client):
        assert await client.commit_alone(5, request=3) == [0]
        assert await client.commit_alone(7, request=4) == [0]
        assert await client.commit_alone(5, request=3) == [ErrorCode.REQUEST_TIMED_OUT]
        assert await client.fetch() == [(7, 0)]
        assert await client.commit_alone(5, request=5) == [0], "a client may go back"
        assert await client.fetch() == [(5, 0)]


@pytest.mark.parametrize("version", [0, 2])
async def test_nor_within_a_transaction_or_in_the_next_one(tmp_path, version):
    async with group_on(tmp_path) as (log, client):
        identity = await log.identity("pay")
        number = 0
        for first, last in ((5, 7), (9, 11)):
            if version == 0:
                assert await client.add_offsets("pay", identity) == 0
            for offset in (first, last):
                number += 1
                codes = await client.commit_in_transaction(
                    "pay", identity, offset, version, request=number
                )
                assert codes == [0]
            for earlier in range(1, number):
                late = await client.commit_in_transaction(
                    "pay", identity, 1, version, request=earlier
                )
                assert late == [ErrorCode.REQUEST_TIMED_OUT]
            ended = await log.end("pay", identity, True, version)
            assert ended.error_code == 0
            await log.until_state("pay", "CompleteCommit")
            assert await client.fetch(require_stable=True) == [(last, 0)]
            if version == 2:
                identity = (ended.producer_id, ended.producer_epoch)
            again = await client.commit_in_transaction("pay", identity, 1, version, request=number)
            assert again == [0], "the newest was answered, and is answered alike"
            assert await client.fetch(require_stable=True) == [(last, 0)]


async def test_offsets_outside_the_transaction_are_refused(tmp_path):
    """KIP-890: offsets that came too late would be pending for ever."""
    async with group_on(tmp_path) as (log, client):
        identity = await log.identity("pay")
        late = await client.commit_in_transaction("pay", identity, 7)
        assert late == [ErrorCode.INVALID_TXN_STATE] or late == [ErrorCode.TRANSACTION_ABORTABLE]
        assert await client.fetch(require_stable=True) == [(-1, 0)]
        assert await client.add_offsets("pay", identity) == 0
        assert await client.commit_in_transaction("pay", identity, 7) == [0]
        again = await log.init("pay")
        assert again.error_code == 0
        zombie = await client.commit_in_transaction("pay", identity, 8)
        assert zombie == [ErrorCode.INVALID_PRODUCER_EPOCH]


async def test_a_tv2_producer_adds_the_groups_partition_by_committing(tmp_path):
    async with group_on(tmp_path) as (log, client):
        identity = await log.identity("pay")
        assert await client.commit_in_transaction("pay", identity, 7, version=2) == [0]
        described = await log.describe("pay")
        assert [(p.topic, p.partition) for p in described.partitions] == [(SHARDS, client.shard)]
        ended = await log.end("pay", identity, True, version=2)
        assert ended.error_code == 0
        await log.until_state("pay", "CompleteCommit")
        assert await client.fetch(require_stable=True) == [(7, 0)]


async def test_generations_fence_offsets_in_transactions_too(tmp_path):
    """KIP-447: a member of an earlier generation must not commit for partitions that others have now."""
    async with group_on(tmp_path) as (log, client):
        joined = await client.join()
        await client.sync(joined, {joined.member_id: b"all"})
        identity = await log.identity("pay")
        assert await client.add_offsets("pay", identity) == 0
        good = await client.commit_in_transaction("pay", identity, 1, member=joined)
        assert good == [0]
        for generation, member_id, code in (
            (joined.generation_id - 1, joined.member_id, ErrorCode.ILLEGAL_GENERATION),
            (joined.generation_id, "somebody", ErrorCode.UNKNOWN_MEMBER_ID),
        ):
            member = type(joined)(generation_id=generation, member_id=member_id)
            answer = await client.commit_in_transaction("pay", identity, 2, member=member)
            assert answer == [code]


async def test_groups_are_listed_by_state(tmp_path):
    async with group_on(tmp_path, "together") as (log, client):
        await GroupClient(log, "alone").commit_alone(1)
        joined = await client.join()
        await client.sync(joined, {})
        listed = await client.list()
        assert {(g.group_id, g.state) for g in listed} == {
            ("alone", "Empty"),
            ("together", "Stable"),
        }
        assert [g.group_id for g in await client.list("stable")] == ["together"]


async def test_markers_of_group_shards_go_through_the_coordinator(tmp_path):
    """ADR 0015: the partition's leader refuses what did not come through the shard's coordinator."""
    async with group_on(tmp_path) as (_, client):
        answer = await client.marker_to_storage()
        assert answer == ErrorCode.NOT_LEADER_OR_FOLLOWER
