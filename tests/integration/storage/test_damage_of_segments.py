"""Lost, exchanged and foreign segments, old files, two faults at one time: served right, or offline with one line.

`make damage` runs all cases; the gate a part of them.
"""

import pytest
from tests.integration.storage.damage_cases import CONTROL, DONOR, IS_WHOLE, STATES
from tests.integration.storage.damage_judge import judged, written
from tests.integration.storage.damage_of_segments import faults_by_case

GATE_SHARE = 12
"""One case of so many in the gate."""

pytestmark = pytest.mark.usefixtures("plain_settings")


@pytest.mark.parametrize("state", STATES)
async def test_no_segment_is_missing_or_foreign_without_an_error(tmp_path, caplog, state):
    faults = faults_by_case(state)
    wanted = list(faults) if IS_WHOLE else list(faults)[STATES.index(state) :: GATE_SHARE]
    topics = [CONTROL, DONOR, *(case.name for case in wanted)]
    logs = (await written(tmp_path, topics, state)) / "logs"
    earlier = tmp_path / "earlier" / "logs"
    hit = [case for case in wanted if damaged(logs, earlier, case, faults[case])]
    assert len(hit) > len(wanted) // 2
    assert await judged(logs.parent, hit, caplog) == {}


def damaged(logs, earlier, case, faults):
    name = f"{case.name}-0"
    hit = [fault(logs / name, logs / f"{DONOR}-0", earlier / name) for fault in faults]
    return all(hit)
