"""Damage to every kind of file: what was stored is served right, repaired, or offline with one clear line.

Never empty, never short, never with aborted records. `make damage` runs all cases; the gate a part of them.
"""

import logging
import random
import shutil

import pytest
from tests.integration.storage.damage_cases import (
    CONTROL,
    IS_WHOLE,
    ROUNDS,
    STATES,
    cases,
    damage,
    fault,
    new_topics,
    produce,
    shown,
    write_rounds,
)
from tests.integration.storage.embedded_node import embedded
from tests.integration.storage.storage_node import batch, until

from oncelog.api.v1 import controller_pb2
from oncelog.errors import OncelogError

GATE_SHARE = 4
"""One case of so many in the gate."""


@pytest.fixture(autouse=True)
def _plain_settings(monkeypatch):
    monkeypatch.setenv("ONCELOG_STORAGE_TRANSACTION_PARTITION_VERIFICATION_ENABLE", "false")
    # A busy machine takes longer, and a partition that is not checkpointed has other cases.
    monkeypatch.setenv("ONCELOG_STORAGE_STOP_TIMEOUT_MS", "100000")


def chosen(state):
    found = cases(state)
    return found if IS_WHOLE else found[STATES.index(state) :: GATE_SHARE]


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
        await write_rounds(storage, topics, ROUNDS)
        if state != "stopped":
            # What a kill leaves: the system has every byte that was written.
            shutil.copytree(data, path / "ended")
    return data if state == "stopped" else path / "ended"


def lines_about(caplog, topic):
    return [
        each.getMessage()
        for each in caplog.records
        if each.levelno >= logging.ERROR and f"{topic}-0" in each.getMessage()
    ]


@pytest.mark.parametrize("state", STATES)
async def test_no_damage_to_a_partition_changes_what_is_shown(tmp_path, caplog, state):
    wanted = chosen(state)
    topics = [CONTROL, *(case.name for case in wanted)]
    data = await written(tmp_path, topics, state)
    hit = [case for case in wanted if damage(data / "logs" / f"{case.name}-0", case)]
    assert len(hit) > len(wanted) // 3
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
    assert faults == {}
    print(f"{state}: {len(hit)} cases, {sum(one == 'right' for one in outcomes.values())} right")


FOLDER_FILES = (
    "meta.properties",
    "node-history",
    "metadata-seen",
    "recovery-point-offset-checkpoint",
    "log-start-offset-checkpoint",
    "cleaner-offset-checkpoint",
    "replication-offset-checkpoint",
    "coordinator-epoch-checkpoint",
    ".kafka_cleanshutdown",
    "boot-id",
)
HOWS = ("flip", "flip", "flip", "flip", "cut", "emptied", "removed")


async def test_no_damage_to_the_folders_files_changes_what_is_shown(tmp_path, caplog):
    topics = [CONTROL, "other"]
    source = await written(tmp_path, topics, "stopped")
    async with embedded(source) as node:
        expected = await shown(node.storage.servicer, CONTROL)
    draw = random.Random(12)
    wanted = [(name, how, n) for name in FOLDER_FILES for n, how in enumerate(HOWS)]
    outcomes = {}
    for name, how, number in wanted if IS_WHOLE else wanted[::GATE_SHARE]:
        data = shutil.copytree(source, tmp_path / f"{name}{number}")
        if not damaged_file(data / "logs" / name, how, draw):
            continue
        caplog.clear()
        refusal = ""
        try:
            async with embedded(data) as node:
                for topic in topics:
                    found = await shown(node.storage.servicer, topic)
                    for pair in zip(found, expected, strict=True):
                        assert fault(*pair) == "", (name, how, number, topic)
                    if any(each.error_code for each in found):
                        assert len(lines_about(caplog, topic)) == 1
        except OncelogError as error:
            refusal = str(error)
        assert not refusal or (str(data / "logs") in refusal and "\n" not in refusal), refusal
        outcomes[name, how, number] = "refused" if refusal else "served"
        shutil.rmtree(data)
    assert outcomes
    print(f"{len(outcomes)} cases, {sum(one == 'served' for one in outcomes.values())} served")


def damaged_file(path, how, draw):
    if not path.exists():
        return False
    data = bytearray(path.read_bytes())
    if how == "removed":
        path.unlink()
        return True
    if not data:
        return False
    if how == "flip":
        data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
    else:
        del data[0 if how == "emptied" else draw.randrange(1, len(data)) :]
    path.write_bytes(data)
    return True
