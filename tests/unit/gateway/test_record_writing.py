"""A write whose outcome nobody knows is called unknown, and no script is told to try it again."""

import json
from types import SimpleNamespace

import pytest

from oncelog.errors import ErrorCode, KafkaError
from oncelog.runtime import SystemClock
from oncelog_gateway.audit import AuditLog
from oncelog_gateway.operators import Operator
from oncelog_gateway.problems import problem_of
from oncelog_gateway.record_resources import WriteRecordRequest
from oncelog_gateway.record_writing import RecordWriter

ALICE = Operator("alice", None, "10.0.0.1", None, None, None, None, None)


class Roles:
    """A leader and a coordinator that answer with these codes."""

    timeout_ms = 1_000

    def __init__(self, produced=0, ended=()):
        self._produced = produced
        self._ended = list(ended)
        self.ends = 0

    def topic(self, name):
        return SimpleNamespace(internal=False, partitions=[SimpleNamespace(partition=0, leader=1)])

    def leader_of(self, partition):
        return 1

    async def init_producer_id(self, request):
        return SimpleNamespace(producer_id=1, producer_epoch=0)

    async def end_transaction(self, request):
        self.ends += 1
        if self._ended:
            raise KafkaError(self._ended.pop(0), "as it was told to")

    async def ask_leader(self, partition, method, request):
        found = SimpleNamespace(
            error_code=self._produced, record_errors=[], error_message="", base_offset=7
        )
        return SimpleNamespace(partitions=[found])


async def written(path, roles, transaction="none"):
    """HTTP status, or 201, and the outcome in the audit log."""
    clock = SystemClock()
    writer = RecordWriter(roles, AuditLog(path / "audit.jsonl", clock), clock)
    status = 201
    try:
        await writer.write(ALICE, "t", WriteRecordRequest(value="v", transaction=transaction))
    except KafkaError as error:
        status = problem_of(error).status
    lines = (path / "audit.jsonl").read_text().splitlines()
    return status, json.loads(lines[-1])["outcome"]


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (ErrorCode.NONE, (201, "done")),
        (ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, (504, "unknown")),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, (504, "unknown")),
        (ErrorCode.KAFKA_STORAGE_ERROR, (504, "unknown")),
        (ErrorCode.REQUEST_TIMED_OUT, (504, "unknown")),
        (ErrorCode.NOT_ENOUGH_REPLICAS, (503, "refused")),
        (ErrorCode.MESSAGE_TOO_LARGE, (422, "refused")),
    ],
)
async def test_what_may_be_written_is_no_refusal(tmp_path, code, expected):
    assert await written(tmp_path, Roles(code)) == expected


async def test_an_end_is_asked_for_again_while_the_shard_moves(tmp_path):
    moves = [ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]
    roles = Roles(ended=moves)
    assert await written(tmp_path, roles, "commit") == (201, "done")
    assert roles.ends == 3


async def test_an_end_that_nobody_answers_for_is_unknown(tmp_path):
    roles = Roles(ended=[ErrorCode.COORDINATOR_NOT_AVAILABLE] * 100)
    assert await written(tmp_path, roles, "commit") == (504, "unknown")


async def test_what_is_aborted_with_its_transaction_is_refused(tmp_path):
    roles = Roles(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert await written(tmp_path, roles, "commit") == (503, "refused")
    assert roles.ends == 1
