"""`oncelog verify` against a log that runs: the verdict, the Ctrl-C, and what is left there when it has ended."""

import asyncio
import json
import re
import signal
import subprocess
import sys

import psutil
import pytest
from oncelog_robustness.clients.admin import WireAdmin
from oncelog_robustness.clients.aiokafka import AiokafkaClients
from oncelog_robustness.clients.wire import Brokers
from oncelog_robustness.history import Isolation
from oncelog_robustness.verify.cleaning import BEGINNING, _groups, _topics, clean, prefix_of
from oncelog_robustness.verify.cluster import Found
from oncelog_robustness.verify.target import VerifyTarget
from tests.integration.robustness.chaos_command import ROOT

from oncelog_server.demo.processes import OncelogServer

TIMEOUT_S = 240
FOREIGN = f"{BEGINNING}of-somebody"
"""A name that begins as those of runs do, and is none of this run."""


def start(*arguments):
    return subprocess.Popen(
        [sys.executable, "-m", "oncelog_robustness.verify", *arguments],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def until(process, line):
    """What it said up to a line that begins so."""
    said = []
    for one in process.stdout:
        said.append(one)
        if one.strip().startswith(line):
            return "".join(said)
    raise AssertionError("".join(said))


def ended(process):
    try:
        return process.communicate(timeout=TIMEOUT_S)[0]
    finally:
        process.kill()


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    with OncelogServer(tmp_path_factory.mktemp("verified") / "data") as server:
        asyncio.run(make_foreign([server.bootstrap]))
        yield server


async def make_foreign(bootstrap):
    """A topic and a group that are not ours."""
    clients = AiokafkaClients(bootstrap)
    admin = WireAdmin(bootstrap, "foreign")
    await admin.create_topic(FOREIGN, 1, 1, {})
    consumer = await clients.consumer("foreign", Isolation.READ_COMMITTED, FOREIGN)
    await consumer.subscribe([FOREIGN])
    while consumer.take_new_positions() is None:
        await consumer.poll(100)
    await consumer.commit({(FOREIGN, 0): 0})
    await consumer.close()
    await admin.close()


async def names_in(bootstrap):
    brokers = Brokers([bootstrap], "test")
    try:
        return [one for one in await _topics(brokers) if not one.startswith("__")], await _groups(
            brokers, ""
        )
    finally:
        brokers.close()


def only_foreign(log):
    return asyncio.run(names_in(log.bootstrap)) == ([FOREIGN], [FOREIGN])


@pytest.mark.timeout(TIMEOUT_S)
def test_a_run_that_is_stopped_has_a_verdict_and_cleans_up(log, tmp_path):
    run, fault = tmp_path / "run", tmp_path / "fault"
    process = start(
        *(log.bootstrap, "--for", "10m", "--fault-every", "2s", "--folder", str(run)),
        *("--fault", f"echo fault >> {fault}", "--heal", f"echo heal >> {fault}"),
    )
    said = until(process, "storm")
    said += until(process, "10 s")
    process.send_signal(signal.SIGINT)
    said += ended(process)
    assert process.returncode == 0, said
    assert "one transaction with oncelog" in said
    assert "Nothing found." in said
    assert only_foreign(log)
    report = json.loads((run / "verify.json").read_text())
    assert report["is_stopped"]
    # Java comes after these, where KAFKA_HOME names its jars.
    assert report["clients"][:4] == ["aiokafka", "oncelog", "confluent-kafka", "kafka-python"]
    answers = {one["name"]: one["answer"] for one in report["promises"]}
    assert set(answers.values()) <= {"ok", "unknown"}
    for core in ("nothing acknowledged is lost", "a transaction is there whole, or not at all"):
        assert answers[core] == "ok"
    assert "command" in {one["kind"] for one in report["fault_list"]}
    words = fault.read_text().split()
    assert words == ["fault", "heal"] * (len(words) // 2)
    assert report["fault_list"][0]["next_commit_ms"] is not None
    check_judged_again(run / "history.jsonl.gz", tmp_path / "again", report)


def check_judged_again(history, folder, report):
    process = start("--history", str(history), "--folder", str(folder))
    said = ended(process)
    assert process.returncode == 0, said
    again = json.loads((folder / "verify.json").read_text())
    assert again["promises"] == report["promises"]
    assert again["operations"] == report["operations"]
    assert (folder / "verify.html").exists()


@pytest.mark.robustness
@pytest.mark.timeout(TIMEOUT_S)
def test_a_second_ctrl_c_ends_at_once_and_says_what_is_left(log, tmp_path):
    process = start(log.bootstrap, "--for", "10m", "--folder", str(tmp_path / "run"))
    said = until(process, "storm")
    children = psutil.Process(process.pid).children(recursive=True)
    process.send_signal(signal.SIGINT)
    said += until(process, "Ctrl-C: brokers are healed")
    process.send_signal(signal.SIGINT)
    said += ended(process)
    assert process.returncode == 130, said
    assert "Traceback" not in said
    _, alive = psutil.wait_procs(children, timeout=30)
    assert not alive
    run = re.search(r"--clean ([0-9a-f]{6})", said).group(1)
    topics, _ = asyncio.run(names_in(log.bootstrap))
    assert any(one.startswith(prefix_of(run)) for one in topics)
    cleaning = start(log.bootstrap, "--clean", run)
    assert "removed" in ended(cleaning)
    assert only_foreign(log)


@pytest.mark.timeout(TIMEOUT_S)
def test_cleaning_takes_what_has_the_prefix_and_no_more(log):
    prefix = prefix_of("0123ab")

    async def make_and_clean():
        admin = WireAdmin([log.bootstrap], "test")
        for name in (f"{prefix}probe", f"{prefix}copier-in"):
            await admin.create_topic(name, 1, 1, {})
        await admin.close()
        return await clean([log.bootstrap], prefix)

    assert asyncio.run(make_and_clean()) == "removed 2 topics and 0 groups"
    assert only_foreign(log)


@pytest.mark.timeout(TIMEOUT_S)
def test_what_cannot_be_cleaned_is_told_with_the_way_to(tmp_path):
    """The cluster is gone for good."""
    found = Found(1, "", ("aiokafka",), ())
    left = "they go by oncelog verify"
    target = VerifyTarget(["127.0.0.1:1"], "", found, prefix_of("0123ab"), None, left)
    target.close()
    assert "topics and groups that begin with oncelog-verify-0123ab- are left" in target.cleaned
    assert target.cleaned.endswith(left)
