"""Planted bugs fit the source they change, all of them at once: a catalog that rotted would prove nothing."""

import ast
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from oncelog_robustness.checkers.all import ALL
from oncelog_robustness.history import History
from oncelog_robustness.observations import Observations
from oncelog_robustness.planted import importing, screen
from oncelog_robustness.planted.bug import Edit
from oncelog_robustness.planted.catalog import BUGS
from oncelog_robustness.planted.hunt import Hunted, hunted_all

MODULES = [(bug.name, module) for bug in BUGS for module in sorted({e.module for e in bug.edits})]


def edited(bug, module):
    source = importing.source_of(module)
    return source, importing.planted(source, [e for e in bug.edits if e.module == module])


def test_names_are_unique_and_promises_are_sentences():
    assert len({bug.name for bug in BUGS}) == len(BUGS)
    for bug in BUGS:
        assert bug.promise.endswith("."), bug.name
        assert bug.source, bug.name
        assert bug.caught_by, bug.name


def test_who_is_meant_to_notice_is_a_checker():
    known = {check(History(), Observations()).checker for check in ALL}
    for bug in BUGS:
        assert set(bug.caught_by) <= known, bug.name


def test_every_checker_is_meant_to_notice_a_planted_bug():
    meant = {checker for bug in BUGS for checker in bug.caught_by}
    known = {check(History(), Observations()).checker for check in ALL}
    assert known - meant == set()


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


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("resume-forgoten", "did you mean resume-forgotten?"),
        ("moon", "python -m oncelog_robustness.planted lists them"),
    ],
)
def test_unknown_bug_is_answered_with_the_nearest_name(name, hint):
    with pytest.raises(importing.CannotPlant) as refused:
        importing.install(name)
    assert str(refused.value) == f"there is no planted bug {name!r}; {hint}"


def test_tables_fit_a_hundred_columns_and_show_every_name_whole(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "240")
    screen.print_bugs(BUGS)
    listed = capsys.readouterr().out
    hunts = [Hunted(bug.name, 20, 1234.5, None, "") for bug in BUGS]
    caught = max((checker for bug in BUGS for checker in bug.caught_by), key=len)
    hunts[0] = Hunted(BUGS[0].name, 3, 12.25, 103, caught)
    screen.print_hunts(hunts)
    hunted = capsys.readouterr().out
    for bug in BUGS:
        assert bug.name in listed
        assert bug.name in hunted
    assert max(map(len, [*listed.splitlines(), *hunted.splitlines()])) <= 100
    row = next(line for line in hunted.splitlines() if BUGS[0].name in line)
    assert row.split() == [BUGS[0].name, caught, "3", "12", "s", "seed", "103"]
    assert hunted.count(" NO") == len(BUGS) - 1


def test_hunts_that_nobody_watches_have_a_line_each(capsys):
    with screen.showing_hunts(3) as advance:
        advance(Hunted("one", 3, 12.25, 103, "lost"))
        advance(Hunted("two", 20, 250, None, "", unfinished=4))
        advance(Hunted("three", 0, 1, None, "", failure="its process ended with 1"))
    assert capsys.readouterr().err.splitlines() == [
        "1 of 3: one: caught by seed 103 (3 seeds, 12.2 s)",
        "2 of 3: two: not caught (20 seeds, 4 of them unfinished, 250.0 s)",
        "3 of 3: three: not caught (0 seeds, 1.0 s): its process ended with 1",
    ]


def test_a_hunt_that_breaks_is_told_and_ends_no_other(capfd):
    broken = list(hunted_all(["moon", "mars"], jobs=2))
    assert {hunt.bug for hunt in broken} == {"moon", "mars"}
    assert {hunt.failure for hunt in broken} == {"its process ended with 1 and no result"}
    assert "CannotPlant: there is no planted bug 'moon'" in capfd.readouterr().err


def test_bug_that_comes_too_late_is_refused():
    import oncelog_storage.core.leader_state  # noqa: F401

    with pytest.raises(importing.CannotPlant, match="imported already"):
        importing.install("hw-without-followers")


def test_import_gives_the_planted_code_and_changes_no_file():
    check = (
        "from oncelog_robustness.planted.importing import install\n"
        "assert install('origin-ignored').name == 'origin-ignored'\n"
        "from oncelog_coordinator.core.request_origin import RequestOrigin, is_delayed\n"
        "assert is_delayed(RequestOrigin(1, 2), RequestOrigin(1, 1)) is False\n"
    )
    assert subprocess.run([sys.executable, "-c", check], check=False).returncode == 0
    plain = (
        "from oncelog_coordinator.core.request_origin import RequestOrigin, is_delayed\n"
        "assert is_delayed(RequestOrigin(1, 2), RequestOrigin(1, 1)) is True\n"
    )
    assert subprocess.run([sys.executable, "-c", plain], check=False).returncode == 0


def test_the_track_record_shows_every_bug_with_its_seed():
    record = (Path(__file__).parents[3] / "docs" / "track-record" / "planted.md").read_text()
    for bug in BUGS:
        assert f"| {bug.name} | {bug.promise} | `{bug.scenario}` {bug.first_seed} |" in record
    header = "| bug | promise | scenario, seed | caught by one of |\n| --- | --- | --- | --- |\n"
    rows = record.partition(header)[2].partition("\n\n")[0].splitlines()
    assert len(rows) == len(BUGS)
