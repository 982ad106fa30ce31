"""The harness used wrongly: exit code 2, and a line that names the value and the way out; nothing is left behind."""

import signal
import tempfile
from types import SimpleNamespace

import pytest
from oncelog_robustness.chaos.__main__ import app
from oncelog_robustness.planted.__main__ import main as planted
from oncelog_robustness.simulator.command import main as simulate
from oncelog_robustness.simulator.screen import showing_progress
from typer.testing import CliRunner

SCENARIO = 'name = "mine"\nduration_ms = 1_000\n[[workloads]]\nkind = "{kind}"\n{more}\n'


def refused(command, capsys, *arguments):
    """The line that it says."""
    try:
        code = command(arguments)
    except SystemExit as ended:
        code = ended.code
    output = capsys.readouterr()
    assert code == 2, output
    assert output.out == ""
    assert len(output.err.splitlines()) == 1, output.err
    return output.err


@pytest.mark.parametrize("command", [simulate, planted])
@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--seeds", "0"], "argument --seeds: '0' is not a whole number from 1 to 1000000; --help"),
        (["--seeds", "-3"], "argument --seeds: '-3' is not"),
        (["--seeds", "1000001"], "'1000001' is not"),
        (["--seeds", "many"], "'many' is not"),
        (["--jobs", "0"], "argument --jobs: '0' is not a whole number from 1 to 1000"),
        (["--jobs", "-1"], "argument --jobs: '-1' is not"),
        (["--jobs", "9" * 5000], "argument --jobs: '999"),
        (["--first-seed", "-1"], "argument --first-seed: '-1' is not a whole number from 0 to"),
        (["--first-seed", str(2**63)], f"argument --first-seed: '{2**63}' is not"),
        (["--first-seed", "9" * 5000], "argument --first-seed: '999"),
        (["--nosuch"], "unrecognized arguments: --nosuch; --help lists every option"),
    ],
)
def test_numbers_that_cannot_be_are_refused(command, arguments, named, capsys):
    assert named in refused(command, capsys, *arguments)


def test_seeds_beyond_the_last_are_refused(capsys):
    output = refused(simulate, capsys, "--first-seed", str(2**63 - 1), "--seeds", "2")
    assert f"--first-seed {2**63 - 1} --seeds 2 goes beyond the last seed, {2**63 - 1}" in output
    assert "argument --seed: '-1'" in refused(simulate, capsys, "--seed", "-1")


@pytest.mark.parametrize("flag", ["--trace", "--history"])
def test_a_file_of_one_run_needs_its_seed(flag, capsys, tmp_path):
    file = tmp_path / "file"
    for many in ((), ("--seeds", "2"), ("--seeds", "1"), ("--first-seed", "8")):
        output = refused(simulate, capsys, flag, str(file), *many)
        assert f"{flag} is of one run: give its --seed N" in output
    output = refused(
        simulate,
        capsys,
        *(flag, str(file), "--seed", "1", "--scenario", "storm", "--scenario", "sink"),
    )
    assert "--scenario storm --scenario sink are 2: give one" in output
    assert not file.exists()


def test_the_log_of_many_runs_is_refused(capsys):
    assert "--log is of one run: give its --seed N" in refused(simulate, capsys, "--log")


def test_two_accounts_of_a_run_do_not_go_into_one_file(capsys, tmp_path):
    file = str(tmp_path / "file")
    output = refused(simulate, capsys, "--seed", "1", "--trace", file, "--history", file)
    assert f"--trace and --history are both {file}: give two files" in output


def test_a_start_that_is_refused_makes_no_file(capsys, tmp_path):
    file = tmp_path / "file"
    output = refused(simulate, capsys, "--seed", "1", "--trace", str(file), "--scenario", "nosuch")
    assert "there is no scenario 'nosuch'; there are: " in output
    assert not file.exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--planted", "nosuch"], "nosuch"),
        (["--seed", "1", "--trace", "/nosuch/file"], "cannot write /nosuch/file: No such file"),
        (["--seed", "1", "--history", "/"], "cannot write /: Is a directory"),
    ],
)
def test_what_is_not_there_is_told_before_a_run(arguments, message, capsys):
    assert message in refused(simulate, capsys, *arguments)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        (SCENARIO.format(kind="plain", more='writers = "x"'), "writers = 'x'"),
        ("<scenario/>", "is no TOML"),
    ],
)
def test_a_scenario_file_that_cannot_be_is_refused(text, named, capsys, tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text(text)
    output = refused(simulate, capsys, "--seed", "1", "--scenario", str(file))
    assert output.startswith(f"oncelog_robustness.simulator: {file}")
    assert named in output


def test_two_scenarios_of_one_name_are_refused(capsys, tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text(SCENARIO.format(kind="plain", more="").replace("mine", "storm"))
    output = refused(simulate, capsys, "--scenario", "storm", "--scenario", str(file))
    assert f"--scenario storm and {file} both have the name 'storm'" in output


@pytest.mark.parametrize("flag", ["--every", "--first-seed=7", "--seeds=7"])
def test_what_is_of_a_hunt_needs_a_bug(flag, capsys):
    output = refused(planted, capsys, flag)
    assert f"{flag.partition('=')[0]} is of a hunt: give the NAME of a bug, or --all" in output


# ------------------------------------------------------------------------------------------------------------- chaos


@pytest.fixture
def chaos(tmp_path, monkeypatch):
    """What it says when it is refused; and that it leaves nothing in the folder of temporary files."""
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    handlers = {one: signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM)}

    def run(*arguments):
        done = CliRunner().invoke(app, arguments)
        assert done.exit_code == 2, done.output
        assert "Traceback" not in done.output
        assert list(temporary.iterdir()) == []
        return done.output

    yield run
    for one, handler in handlers.items():
        signal.signal(one, handler)


@pytest.mark.parametrize("minutes", ["0", "0.05", "-1", "1441", "nan", "inf", "ten"])
def test_chaos_names_the_minutes_that_cannot_be(chaos, minutes):
    assert chaos("--minutes", minutes).splitlines() == [
        f"cannot begin: --minutes '{minutes}' is no number from 0.1 to 1440"
    ]


@pytest.mark.parametrize("seed", ["-1", "x", str(2**63)])
def test_chaos_names_the_seed_that_cannot_be(chaos, seed):
    output = chaos("--seed", seed)
    assert f"cannot begin: --seed '{seed}' is no whole number from 1 to" in output


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--bootstrap", "127.0.0.1:1"], "nobody listens at 127.0.0.1:1"),
        (["--bootstrap", "nonsense"], "--bootstrap 'nonsense' is no host:port"),
        (["--scenario", "nosuch"], "there is no scenario 'nosuch'"),
        (["--scenario", "upgrade"], "upgrade: [upgrade] is of the simulator"),
        (["--library", "java"], "no client library 'java'; there are aiokafka"),
    ],
)
def test_chaos_that_cannot_begin_leaves_no_folder(chaos, arguments, named, tmp_path):
    output = chaos(*arguments)
    assert named in output
    assert "logs:" not in output
    chaos(*arguments, "--folder", str(tmp_path / "new"))
    assert not (tmp_path / "new").exists()
    (tmp_path / "old").mkdir()
    chaos(*arguments, "--folder", str(tmp_path / "old"))
    assert (tmp_path / "old").exists()


@pytest.mark.parametrize(
    ("text", "named"),
    [
        (SCENARIO.format(kind="gossip", more=""), "zombies, steady"),
        (SCENARIO.format(kind="steady", more="pause = 1"), "workload 1 (steady): there is no key"),
        (
            SCENARIO.format(kind="steady", more='library = "java"'),
            "steady: no client library 'java'; there are aiokafka",
        ),
    ],
)
def test_chaos_refuses_a_scenario_file_that_cannot_be(chaos, text, named, tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text(text)
    output = chaos("--scenario", str(file))
    assert named in output
    assert len(output.splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--older", "0.1.0", "--scenario", "storm"], "--older is of a scenario with an [upgrade]"),
        (["--without", "RequestOrigin", "--scenario", "storm"], "--without is of a scenario with"),
        (["--older", "0.0.9", "--scenario", "upgrade"], "there is no older version '0.0.9'"),
        (["--without", "Storage.Ftch", "--scenario", "upgrade"], "did you mean Storage.Fetch?"),
    ],
)
def test_an_older_version_that_cannot_be_had_is_refused(arguments, named, capsys):
    assert named in refused(simulate, capsys, *arguments)


def test_runs_that_nobody_watches_are_counted_now_and_then(capsys):
    with showing_progress(250, is_wanted=True) as advance:
        for number in range(250):
            advance(SimpleNamespace(is_broken=number == 7))
    assert capsys.readouterr().err == "100 of 250 runs, 1 broken\n200 of 250 runs, 1 broken\n"
