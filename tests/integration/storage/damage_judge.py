"""A data folder with the same records in many topics, and a judge of what a node shows of it after damage."""

import logging
import re
import shutil

import pytest
from tests.integration.storage.damage_cases import (
    CONTROL,
    ROUNDS,
    fault,
    new_topics,
    produce,
    shown,
    write_rounds,
)
from tests.integration.storage.embedded_node import embedded
from tests.integration.storage.storage_node import batch, until

from oncelog.api.v1 import controller_pb2


@pytest.fixture
def plain_settings(monkeypatch):
    monkeypatch.setenv("ONCELOG_STORAGE_TRANSACTION_PARTITION_VERIFICATION_ENABLE", "false")
    # A busy machine takes longer, and a partition that is not checkpointed has other cases.
    monkeypatch.setenv("ONCELOG_STORAGE_STOP_TIMEOUT_MS", "100000")


async def written(path, topics, state):
    """A data folder with the same records in every topic, as a node left it that ended so."""
    data = path / "running"
    async with embedded(data) as node:
        answer = await node.controller.CreateTopics(
            controller_pb2.CreateTopicsRequest(topics=new_topics(topics))
        )
        assert [each.error_code for each in answer.results] == [0] * len(topics)
        await node.metadata.wait_until(answer.metadata_offset)
        storage = node.storage.servicer
        await write_rounds(storage, topics, 0)
        starts = data / "logs" / "log-start-offset-checkpoint"
        await until(lambda: f"{topics[-1]} 0 0" in starts.read_text())
        if state == "killed-late":
            await node.storage.maintenance.checkpoint_all()
        shutil.copytree(data, path / "earlier")
        await write_rounds(storage, topics, ROUNDS)
        if state != "stopped":
            # What a kill leaves: the system has every byte that was written.
            shutil.copytree(data, path / "ended")
    return data if state == "stopped" else path / "ended"


def lines_about(caplog, topic):
    # One topic's name may be the end of another's.
    named = re.compile(rf"(?<![\w.-]){re.escape(topic)}-0")
    return [
        each.getMessage()
        for each in caplog.records
        if each.levelno >= logging.ERROR and named.search(each.getMessage())
    ]


async def judged(data, hit, caplog):
    """What is wrong, by start and case: none may be short, empty, foreign or with aborted records without an error.

    What is offline is told in one line, and stays so at the next start.
    """
    faults, outcomes, offline = {}, {}, set()
    for start in range(2):
        caplog.clear()
        async with embedded(data) as node:
            expected = await shown(node.storage.servicer, CONTROL)
            for case in hit:
                found = await shown(node.storage.servicer, case.name)
                wrong = [fault(*pair) for pair in zip(found, expected, strict=True)]
                lines = lines_about(caplog, case.name)
                is_offline = any(each.error_code for each in found)
                outcomes[case] = "offline" if is_offline else "right"
                if is_offline:
                    offline.add(case)
                    if len(lines) != 1 or "restore" not in lines[0] or "\n" in lines[0]:
                        wrong.append(f"told in {len(lines)} lines: {lines}")
                elif case in offline:
                    wrong.append("came back without a repair")
                if any(wrong):
                    faults[(start, *case)] = [each for each in wrong if each]
            for case in hit:
                if start == 0 and outcomes[case] == "right":
                    code = await produce(node.storage.servicer, case.name, batch())
                    assert code == 0, case
            assert await produce(node.storage.servicer, CONTROL, batch()) == 0
    print(f"{len(hit)} cases, {sum(one == 'right' for one in outcomes.values())} right")
    return faults
