"""`oncelog verify` with the clients that have threads or a process of their own: they work, die, and are judged."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from oncelog_robustness.clients import java_process
from oncelog_robustness.verify.cluster import installed
from tests.conformance.java_programs import CACHE, fetched_jars

ROOT = Path(__file__).resolve().parents[2]
TIMEOUT_S = 540


@pytest.mark.timeout(TIMEOUT_S)
@pytest.mark.parametrize("library", ["kafka-python", "java"])
def test_a_client_works_under_verify_and_nothing_is_found(server, tmp_path, library):
    more = ("--java-classpath", f"{fetched_jars(CACHE)}/*") if library == "java" else ()
    arguments = ("--library", library, "--for", "15s", "--fault-every", "5s", *more)
    done = subprocess.run(
        [
            *(sys.executable, "-m", "oncelog_robustness.verify", server.bootstrap),
            *arguments,
            *("--folder", str(tmp_path / "run")),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    report = json.loads((tmp_path / "run" / "verify.json").read_text())
    assert report["clients"] == [library], done.stderr
    assert [one["sentence"] for one in report["anomalies"]] == []
    assert report["transactions"]["commit ok"] > 0
    assert report["operations"]["Poll"] > 0


def test_a_java_that_is_not_there_is_told_and_others_go_on(monkeypatch):
    monkeypatch.delenv("KAFKA_HOME", raising=False)
    there, missing = installed(("java", "kafka-python"), "")
    assert there == ("kafka-python",)
    assert missing == (
        "java takes no part: it is not known where its jars are (--java-classpath, or KAFKA_HOME)",
    )
    monkeypatch.setenv("PATH", "")
    _, missing = installed(("java",), "some.jar")
    assert missing == ("java takes no part: there is no command java (install a JDK, 17 or newer)",)


def test_a_class_path_without_kafka_clients_is_told(tmp_path):
    fetched_jars(CACHE)  # It skips where there is no JDK.
    reason = java_process.prepare(f"{tmp_path}/*")
    assert reason == f"no kafka-clients in the class path {tmp_path}/*"
    assert java_process.CLASSPATH_VARIABLE not in java_process.os.environ
