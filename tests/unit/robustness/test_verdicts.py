"""What `make verdicts` publishes: one table of two reports, proofs, nothing of the machine; and what it refuses."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest
from oncelog_robustness.verify.faults import is_alive, pid_in
from oncelog_robustness.verify.promises import PROMISES
from scripts.verdicts.__main__ import given_in, main
from scripts.verdicts.node import Node, start, stop
from scripts.verdicts.page import issues_in, newest_reports, page_lines, write_page
from scripts.verdicts.publishing import BYTES_MAX, published, text_of, without_machine
from scripts.verdicts.targets import TARGETS, Running, version_of
from scripts.verdicts.verifying import Order, words_of
from tests.unit.robustness.made_reports import lossy, report_of, sound, stormy, struck
from tests.unit.test_sentences import long_sentences

from oncelog.errors import OncelogError

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs" / "reports" / "README.md"
SERVER = "import time; print('it serves', flush=True); time.sleep(600)"


def facts(target="kafka-3", date="2026-11-29", **more):
    return {
        "name": f"{date}-{target}",
        "target": target,
        "product": TARGETS[target].product,
        "version": "4.4.0",
        "nodes": TARGETS[target].nodes,
        "replicas": TARGETS[target].replicas,
        "struck": 3,
        "date": date,
        "commit": "abc1234",
        "is_commit_clean": True,
        "seed": 7,
        "again": f"make verdicts TARGETS={target} FOR=60m EVERY=30s SEED=7",
        "verify_command": "oncelog verify 127.0.0.1:20001 --restart '/srv/venv/bin/python -m x'",
        "checker_peak_mb": 1_234,
        **more,
    }


def of(made, **more):
    return published(facts(**more), report_of(made)[0])


@pytest.fixture
def both():
    """An honest report of one target, and one with anomalies of another."""
    return of(stormy(sound())), of(lossy(), target="oncelog-up", is_commit_clean=False)


@pytest.fixture
def folder(tmp_path):
    """A folder of reports without any."""
    tmp_path.joinpath("README.md").write_text(PAGE.read_text())
    tmp_path.joinpath("issues.toml").write_text("# nothing\n")
    return tmp_path


def keep(folder, *reports):
    for one in reports:
        folder.joinpath(f"{one['name']}.json").write_text(text_of(one))


def rows_of(reports):
    lines = page_lines(reports, {}, {})
    cells = [line.strip("| ").split(" | ") for line in lines if re.match(r"\| [^|-]", line)]
    return {title: found for title, *found in cells}


def test_two_reports_stand_side_by_side(both):
    rows = rows_of(both)
    assert rows["version"] == ["Apache Kafka 4.4.0", "oncelog 4.4.0"]
    assert rows["**nothing acknowledged is lost**"] == ["held, 4 judged", "**broken 1**"]
    assert rows["**who was replaced writes nothing more**"] == ["not judged", "not judged"]
    assert rows["transactions by java"] == ["266 committed, 0 aborted, 0 others", "takes no part"]
    assert rows["faults: rolling restart"] == ["1", "0"]
    assert rows["faults: death of a client"] == ["1", "0"]
    assert rows["kill: until the next commit"] == ["median 3.0 s, max 3.0 s", "–"]
    assert rows["rolling restart: longest time without a commit"] == [
        "median 2.6 s, max 2.6 s",
        "–",
    ]
    assert rows["memory of the checker"] == ["1,234 MB", "1,234 MB"]
    assert rows["commit of oncelog"] == ["abc1234", "abc1234 with changes"]
    assert rows["again"][1] == "`make verdicts TARGETS=oncelog-up FOR=60m EVERY=30s SEED=7`"
    assert set(rows) >= {f"**{one.name}**" for one in PROMISES}
    assert {len(one) for one in rows.values()} == {2}


def test_an_anomaly_is_told_with_its_proof(both):
    text = "\n".join(page_lines(both, {"2026-11-29-oncelog-up": {"1": "KAFKA-17754"}}, {}))
    assert "- kafka-3: none found. That is no proof." in text
    assert (
        "**oncelog-up, anomaly 1.** In this run the promise “nothing acknowledged is lost” was "
        "not kept, says the checker `lost-write`."
    ) in text
    _, proof, rest = text.split("```", 2)
    assert "'gone'" in proof
    operations = [json.loads(line) for line in proof.splitlines()[2:]]
    assert operations[0]["operation"] == "Transaction"
    assert 0 < len(operations) <= 10
    assert rest.startswith("\n\nKnown bug: [KAFKA-17754](https://issues.apache.org/jira/browse/")
    assert "Known bug: none is named." in rest


def test_a_number_of_no_anomaly_is_refused(folder, both):
    keep(folder, *both)
    issues = folder / "issues.toml"
    issues.write_text('[2026-11-29-oncelog-up]\n1 = "KAFKA-1"\n')
    assert issues_in(folder) == {"2026-11-29-oncelog-up": {"1": "KAFKA-1"}}
    issues.write_text('[2026-11-29-kafka-3]\n1 = "KAFKA-1"\n')
    with pytest.raises(OncelogError, match="names anomaly 1 of 2026-11-29-kafka-3, which shows 0"):
        issues_in(folder)
    issues.write_text('[2026-01-01-kafka-3]\n1 = "KAFKA-1"\n')
    with pytest.raises(OncelogError, match=r"there is no 2026-01-01-kafka-3\.json"):
        issues_in(folder)


def test_the_page_shows_the_newest_report_of_each_target(folder, both):
    older = of(sound(), date="2026-10-01")
    keep(folder, *both, older)
    folder.joinpath("2026-12-01-somebody.json").write_text("no report")
    assert [one["name"] for one in newest_reports(folder)] == [one["name"] for one in both]
    write_page(folder, {"kafka-1": "Apache Kafka needs java, which is not installed"})
    page = folder.joinpath("README.md").read_text()
    assert page.startswith("# Published verdicts\n")
    assert page.endswith("<!-- end of that -->\n")
    assert "- kafka-1 could not run: Apache Kafka needs java, which is not installed.\n" in page
    assert "No verdict is published yet" not in page
    assert not list(long_sentences(page))
    write_page(folder, {})
    assert "could not run" not in folder.joinpath("README.md").read_text()


def test_a_page_without_its_marks_is_not_written(folder, both):
    keep(folder, *both)
    page = folder / "README.md"
    page.write_text("# Mine\n")
    with pytest.raises(OncelogError, match="has no line '<!-- begin of what make verdicts writes"):
        write_page(folder, {})
    assert page.read_text() == "# Mine\n"


def test_the_page_of_this_repository_is_made_of_its_reports():
    folder = PAGE.parent
    text = "\n".join(page_lines(newest_reports(folder), issues_in(folder), {}))
    assert text.strip() in PAGE.read_text()


def test_nothing_of_the_machine_is_published(both):
    host = socket.gethostname()
    report, _ = report_of(stormy(sound()))
    report["limits"] = [
        f"kill broker-1 at 0 could not be begun: '{ROOT}/run.sh -x' ended with 1; see {ROOT}/a.log",
        f"{host} does not answer at https://jars.example.test/kafka.jar",
    ]
    text = text_of(published(facts(), report))
    for secret in (str(ROOT), str(Path.home()) + "/", f" {host} ", "example.test", "/srv/"):
        assert secret not in text
    content = json.loads(text)
    assert content["report"]["limits"] == [
        "kill broker-1 at 0 could not be begun: 'run.sh -x' ended with 1; see a.log",
        "(this machine) does not answer at (an address)",
    ]
    assert content["report"]["fault_list"][0]["what"] == "SIGKILL to 71 of kafka-1.pid"
    assert content["verify_command"] == "oncelog verify 127.0.0.1:20001 --restart 'python -m x'"


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("w#1/17 and a/b/c", "w#1/17 and a/b/c"),
        ("--java-classpath '/srv/jars/*'", "--java-classpath 'jars/*'"),
        ("(/a/b/c), /d/e", "(c), e"),
        ("t-0@5 of oncelog/verify", "t-0@5 of oncelog/verify"),
    ],
)
def test_a_path_loses_its_folders_and_a_value_nothing(text, left):
    assert without_machine(text) == left


def test_a_long_report_is_cut_and_says_of_what():
    made = stormy(sound())
    for number in range(1_000):
        struck(
            made, "client-kill", "clients", 40_000 + number, 40_000 + number, f"transfers-{number}"
        )
    content = of(made)
    assert len(text_of(content).encode()) <= BYTES_MAX
    assert content["left_out"] == [
        "the times without a commit",
        "the deaths of clients, one by one",
    ]
    assert [one["kind"] for one in content["report"]["fault_list"]] == [
        "kill",
        "pause",
        "rolling-restart",
    ]
    # What was counted before stays.
    assert content["report"]["faults"]["by_kind"]["client-kill"] == 1_001
    assert content["unavailability"]["client-kill"]["faults"] == 1_001


def test_many_anomalies_of_one_checker_are_counted():
    made = sound()
    for number in range(10):
        made.txn(f"t-0@{number + 7} gone{number}", asked_ms=made.now_ms + 5)
    made.final("t-0", "0 a", "4 d", end=20)
    content = of(made)
    total = sum(content["broken"].values())
    shown = len(content["report"]["anomalies"])
    assert 0 < shown < total
    text = "\n".join(page_lines([content], {}, {}))
    assert f"kafka-3 has {total - shown} more of these checkers, which are not shown." in text


def test_a_fault_in_which_the_watched_client_died_is_left_out():
    made = stormy(sound())
    report, _ = report_of(made)
    for one in report["fault_list"]:
        if one["kind"] == "kill":
            one["is_watched"] = False
    found = published(facts(), report)["unavailability"]["kill"]
    assert (found["faults"], found["watched"], found["next_commit_max_ms"]) == (1, 0, None)
    assert found["longest_gap_max_ms"] == 3_025


def test_a_fault_after_which_nothing_is_committed_is_told():
    made = stormy(sound())
    struck(made, "kill", "broker-1", 59_990, 60_500)
    rows = rows_of([of(made)])
    assert rows["kill: until the next commit"] == ["median 3.0 s, max 3.0 s, 1 time never"]
    made = stormy(sound())
    struck(made, "pause", "broker-1", 59_990, 60_500)
    made.history.operations = [one for one in made.history.operations if one.client != "w#1"]
    rows = rows_of([of(made)])
    assert rows["pause: until the next commit"] == ["2 times never"]


def run_main(*arguments, artifacts, reports):
    """The exit code of the command. It changes what signals do; that is undone."""
    handlers = {one: signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM)}
    try:
        return main([*arguments, "--artifacts", str(artifacts), "--reports", str(reports)])
    finally:
        for one, handler in handlers.items():
            signal.signal(one, handler)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--targets", "kafka-2"], "TARGETS: 'kafka-2' is no target; there are kafka-1 kafka-3"),
        (["--for", "soon"], "FOR 'soon' is no duration from 30s to 24h, such as 30s, 2m or 1h"),
        (["--for", "5s"], "FOR '5s' is no duration from 30s to 24h"),
        (["--every", "1s"], "EVERY '1s' is no duration from 2s to 1h"),
        (["--seed", "0"], "SEED '0' is no whole number from 1 to"),
        (["--seed", "seven"], "SEED 'seven' is no whole number from 1 to"),
    ],
)
def test_a_bad_wish_is_refused_before_anything_starts(arguments, said, tmp_path, capsys):
    assert run_main(*arguments, artifacts=tmp_path / "a", reports=tmp_path / "r") == 2
    assert capsys.readouterr().err.startswith(f"verdicts: {said}")
    assert list(tmp_path.iterdir()) == []


def test_a_target_that_cannot_run_is_told_on_the_page(folder, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", "")
    wanted = ("--targets", "kafka-1 kafka-3")
    assert run_main(*wanted, artifacts=tmp_path / "kept", reports=folder) == 1
    page = folder.joinpath("README.md").read_text()
    for target in ("kafka-1", "kafka-3"):
        why = "Apache Kafka needs java, which is not installed"
        assert f"- {target} could not run: {why}.\n" in page
    assert "No verdict is published yet." in page


def test_without_targets_all_are_meant_and_none_comes_twice():
    assert [one.name for one in given_in([]).targets] == list(TARGETS)
    twice = given_in(["--targets", "oncelog-up kafka-1 oncelog-up"])
    assert [one.name for one in twice.targets] == ["oncelog-up", "kafka-1"]


def test_each_target_gets_the_same_command(tmp_path):
    order = Order("60m", "30s", 7)
    pid_files = (tmp_path / "a.pid", tmp_path / "b.pid")
    running = Running("127.0.0.1:1", "1", pid_files, "again", ())
    words = words_of(order, running, "jars/*", tmp_path)
    assert words[:2] == ["verify", "127.0.0.1:1"]
    for pair in (
        ("--for", "60m"),
        ("--fault-every", "30s"),
        ("--seed", "7"),
        ("--pid-file", str(pid_files[1])),
        ("--restart", "again"),
        ("--java-classpath", "jars/*"),
    ):
        assert pair in list(pairwise(words))
    assert "--java-classpath" not in words_of(order, running, "", tmp_path)


def test_the_version_of_kafka_is_that_of_its_jar(tmp_path):
    with pytest.raises(OncelogError, match=r"there is no kafka_2\.13"):
        version_of(tmp_path)
    for name in ("kafka-clients-3.9.2.jar", "kafka_2.13-4.4.0.jar"):
        tmp_path.joinpath(name).touch()
    assert version_of(tmp_path) == "4.4.0"


@pytest.fixture
def node(tmp_path):
    one = Node(
        "b-1", (sys.executable, "-c", SERVER), str(tmp_path / "b-1.log"), ready_line="it serves"
    )
    one.write(tmp_path)
    yield one
    stop([one.pid_file(tmp_path)])


def test_a_node_is_started_again_by_its_pid_file(node, tmp_path):
    start([node], tmp_path)
    pid_file = node.pid_file(tmp_path)
    first = pid_in(str(pid_file))
    os.kill(first, signal.SIGKILL)
    done = subprocess.run(
        [sys.executable, "-m", "scripts.verdicts.node"],
        cwd=ROOT,
        env={**os.environ, "VERIFY_PID_FILE": str(pid_file)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    second = pid_in(str(pid_file))
    assert second != first
    # The line of its first start is not taken for one of the second.
    assert Path(node.log).read_text().splitlines() == ["it serves"] * 2
    os.kill(second, signal.SIGSTOP)
    stop([pid_file])
    assert not is_alive(second)


def test_a_node_that_ends_at_once_says_why(tmp_path):
    one = Node("b-1", ("sh", "-c", "echo no disk; exit 3"), str(tmp_path / "log"), ready_line="x")
    with pytest.raises(OncelogError, match="b-1 ended while it started:\nno disk"):
        start([one], tmp_path)
    with pytest.raises(OncelogError, match="nothing says how to start"):
        Node.of(tmp_path / "other.pid")
