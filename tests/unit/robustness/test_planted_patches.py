"""Planted bugs fit the source they change, all of them at once: a catalog that rotted would prove nothing."""

import ast
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from robustness.checkers.all import ALL
from robustness.history import History
from robustness.observations import Observations
from robustness.planted import importing
from robustness.planted.bug import Bug, Edit
from robustness.planted.catalog import BUGS

MODULES = [(bug.name, module) for bug in BUGS for module in sorted({e.module for e in bug.edits})]


def edited(bug, module):
    source = importing.source_of(module)
    return source, importing.planted(source, [e for e in bug.edits if e.module == module])


def test_names_are_unique_and_promises_are_sentences():
    assert len({bug.name for bug in BUGS}) == len(BUGS) >= 18
    for bug in BUGS:
        assert bug.promise.endswith("."), bug.name
        assert bug.source, bug.name
        assert bug.caught_by, bug.name


def test_who_is_meant_to_notice_is_a_checker():
    known = {check(History(), Observations()).checker for check in ALL}
    for bug in BUGS:
        assert set(bug.caught_by) <= known, bug.name


@pytest.mark.parametrize(("name", "module"), MODULES)
def test_patch_fits_compiles_and_changes_what_is_done(name, module):
    before, after = edited(importing.bug_named(name), module)
    # Comments and layout are no behaviour: the two must differ as trees.
    assert ast.dump(ast.parse(before)) != ast.dump(ast.parse(after))
    compile(after, module, "exec")


def test_patch_that_does_not_fit_is_refused():
    bug = replace(BUGS[0], edits=(Edit("oncelog.ids", "no such text", "x"),))
    with pytest.raises(importing.CannotPlant, match="stands 0 times"):
        edited(bug, "oncelog.ids")
    with pytest.raises(importing.CannotPlant, match="stands 2 times"):
        importing.planted("a a", [Edit("oncelog.ids", "a", "b")])


def test_unknown_bug_is_told_which_ones_there_are():
    with pytest.raises(importing.CannotPlant, match=BUGS[0].name):
        importing.install("moon")


def test_bug_that_comes_too_late_is_refused():
    import oncelog_storage.core.leader_state  # noqa: F401

    with pytest.raises(importing.CannotPlant, match="imported already"):
        importing.install("hw-without-followers")


def test_no_bug_is_planted_unless_asked():
    assert importing.install_from_environment({}) is None


def test_import_gives_the_planted_code_and_leaves_the_files_alone():
    check = (
        "from robustness.planted.importing import install_from_environment\n"
        "assert install_from_environment().name == 'stamp-ignored'\n"
        "from oncelog_coordinator.core.stamp import Stamp, is_delayed\n"
        "assert is_delayed(Stamp(1, 2), Stamp(1, 1)) is False\n"
    )
    environment = {**importing.os.environ, "ONCELOG_PLANTED": "stamp-ignored"}
    subprocess.run([sys.executable, "-c", check], check=True, env=environment)
    plain = (
        "from oncelog_coordinator.core.stamp import Stamp, is_delayed\n"
        "assert is_delayed(Stamp(1, 2), Stamp(1, 1)) is True\n"
    )
    subprocess.run([sys.executable, "-c", plain], check=True)


def test_bug_is_a_value():
    assert isinstance(BUGS[0], Bug)
    assert hash(BUGS[0]) == hash(replace(BUGS[0]))


def test_the_track_record_shows_every_bug_with_its_seed():
    record = (Path(__file__).parents[3] / "TRACK_RECORD.md").read_text()
    for bug in BUGS:
        assert f"| {bug.name} | {bug.promise} | `{bug.scenario}` {bug.first_seed} |" in record
