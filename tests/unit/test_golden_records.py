"""What earlier versions keep is read by this one, and means what it meant (`make golden`, docs/upgrades.md)."""

import json
from pathlib import Path

import pytest
from tests import stored_records
from tests.stored_records import keeps, meaning, read

GOLDEN = Path(__file__).parents[1] / "golden"
VERSIONS = sorted(path.name for path in GOLDEN.iterdir() if (path / "records.json").exists())


def kept(version):
    return json.loads((GOLDEN / version / "records.json").read_text())


@pytest.mark.parametrize("version", VERSIONS)
def test_every_record_means_what_it_meant(version):
    for one in kept(version):
        key, value = one["key"], one["value"]
        if one["kind"] != "metadata":
            key, value = bytes.fromhex(key), None if value is None else bytes.fromhex(value)
        record = read(one["kind"], key, value)
        assert type(record).__name__ == one["type"]
        assert keeps(meaning(record), one["means"]), (meaning(record), one["means"])


def test_the_newest_version_has_a_record_of_every_type():
    """A new type needs a sample in `tests/stored_records.py`, and `make golden`."""
    found = {}
    for one in kept(VERSIONS[-1]):
        found.setdefault(one["kind"], set()).add(one["type"])
    assert found == stored_records.types()


def test_a_field_may_be_added_and_none_may_change_or_go():
    then = {"a": 1, "b": [{"c": None}]}
    assert keeps({"a": 1, "b": [{"c": None, "d": 2}], "e": 3}, then)
    for now in ({"a": 2, "b": [{"c": None}]}, {"a": 1}, {"a": 1, "b": []}, {"a": 1, "b": [{}]}):
        assert not keeps(now, then)
