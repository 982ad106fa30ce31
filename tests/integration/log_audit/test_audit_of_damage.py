"""Damage to the files of a stopped node: the audit reads what the checkers' reader reads, and accuses the same."""

import pytest
from oncelog_robustness.log_files import read_logs
from tests.integration.log_audit.beside_checkers import (
    accused_by_checkers,
    accused_by_walks,
    walked,
)
from tests.integration.storage.damage_cases import CONTROL, LOG_KINDS, cases, damage
from tests.integration.storage.damage_judge import written

from oncelog_server.log_audit.core.rows import FAULTS, Kind
from oncelog_server.log_audit.reading import rows_of_file, stretches_of

pytestmark = pytest.mark.usefixtures("plain_settings")


def rows_by_partition(data):
    """As Spark sorts them."""
    rows = {}
    for stretch in stretches_of(data):
        rows.setdefault((stretch.topic, stretch.partition), []).extend(rows_of_file(stretch))
    return {key: found for key, found in rows.items() if found}


async def test_damaged_files_are_judged_as_by_the_checkers(tmp_path):
    wanted = [case for case in cases("stopped") if case.kind in LOG_KINDS]
    data = await written(tmp_path, [CONTROL, *(case.name for case in wanted)], "stopped")
    assert all(damage(data / "logs" / f"{case.name}-0", case) for case in wanted)
    by_partition = rows_by_partition(data)
    logs = {(one.topic, one.partition): one for one in read_logs(data / "logs", 1, 0)}
    kinds = set()
    for key, log in logs.items():
        rows = by_partition.get(key, [])
        events = walked(rows) if rows else []
        assert accused_by_walks(rows) == accused_by_checkers(log) if rows else not log.batches
        kinds |= {one.kind for one in events}
        read = [row for row in rows if not row.unreadable_bytes]
        while read and not read[-1].is_sound:
            read.pop()
        assert [(one.base_offset, one.marker, one.is_sound) for one in read] == [
            (one.base_offset, one.marker, one.is_sound) for one in log.batches
        ]
    untouched = {one.kind for one in walked(by_partition[CONTROL, 0])}
    assert not untouched & FAULTS
    assert {Kind.TRANSACTION, Kind.STANDSTILL, Kind.LOG} <= untouched
    assert {Kind.DAMAGED, Kind.HOLE, Kind.UNREADABLE, Kind.SEQUENCE_GAP, Kind.TORN_END} <= kinds
