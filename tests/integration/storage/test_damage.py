"""Damage to every kind of file: what was stored is served right, repaired, or offline with one clear line.

Never empty, never short, never with aborted records. `make damage` runs all cases; the gate a part of them.
"""

import random
import shutil

import pytest
from tests.integration.storage.damage_cases import (
    CONTROL,
    IS_WHOLE,
    STATES,
    cases,
    damage,
    fault,
    shown,
)
from tests.integration.storage.damage_judge import judged, lines_about, written
from tests.integration.storage.embedded_node import embedded

from oncelog.errors import OncelogError

GATE_SHARE = 4
"""One case of so many in the gate."""


pytestmark = pytest.mark.usefixtures("plain_settings")


def chosen(state):
    found = cases(state)
    return found if IS_WHOLE else found[STATES.index(state) :: GATE_SHARE]


@pytest.mark.parametrize("state", STATES)
async def test_no_damage_to_a_partition_changes_what_is_shown(tmp_path, caplog, state):
    wanted = chosen(state)
    data = await written(tmp_path, [CONTROL, *(case.name for case in wanted)], state)
    hit = [case for case in wanted if damage(data / "logs" / f"{case.name}-0", case)]
    assert len(hit) > len(wanted) // 3
    assert await judged(data, hit, caplog) == {}


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
