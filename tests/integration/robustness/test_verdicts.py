"""`make verdicts` on one `oncelog up`: processes that are killed, frozen and restarted, and what is published of it."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from scripts.verdicts.page import ISSUES, PAGE
from scripts.verdicts.publishing import BYTES_MAX

ROOT = Path(__file__).resolve().parents[3]
REPORTS = ROOT / "docs" / "reports"
TIMEOUT_S = 480
SEED = 5
"""Its plan of half a minute has each kind of fault."""


@pytest.fixture
def reports(tmp_path):
    folder = tmp_path / "reports"
    folder.mkdir()
    for name in (PAGE, ISSUES):
        shutil.copy(REPORTS / name, folder / name)
    return folder


@pytest.mark.slow
@pytest.mark.timeout(TIMEOUT_S)
def test_a_verdict_on_oncelog_up_is_published(reports, tmp_path):
    wanted = ("--targets", "oncelog-up", "--for", "30s", "--every", "5s", "--seed", str(SEED))
    places = ("--artifacts", str(tmp_path / "kept"), "--reports", str(reports))
    done = subprocess.run(
        [sys.executable, "-m", "scripts.verdicts", *wanted, *places],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    (kept,) = (tmp_path / "kept").glob("*/oncelog-up")
    for name in ("verify.json", "verify.html", "history.jsonl.gz", "verify.log"):
        assert (kept / name).stat().st_size > 0
    assert (kept / "brokers" / "oncelog-1.log").exists()
    assert not (kept / "brokers" / "data").exists()
    check_published(reports, tmp_path)
    assert not [one for one in psutil.process_iter(["cmdline"]) if is_of(one, tmp_path)]


def is_of(process, folder):
    return str(folder) in " ".join(process.info["cmdline"] or ())


def check_published(reports, tmp_path):
    (path,) = reports.glob("*-oncelog-up.json")
    text = path.read_text()
    assert len(text) <= BYTES_MAX
    for secret in (str(ROOT), str(tmp_path), sys.executable):
        assert secret not in text
    content = json.loads(text)
    assert content["exit_code"] == 0
    assert content["checker_peak_mb"] > 20
    report = content["report"]
    assert set(report["faults"]["by_kind"]) == {"kill", "pause", "rolling-restart", "client-kill"}
    assert report["limits"][-1].startswith("At the end: removed")
    by_client = report["transactions_by_client"]
    # Java comes after these, where there is a JDK.
    assert set(by_client) >= {"aiokafka", "oncelog", "confluent-kafka", "kafka-python"}
    assert all(counts["commit ok"] > 0 for counts in by_client.values())
    assert content["unavailability"]["kill"]["next_commit_max_ms"] > 0
    page = (reports / PAGE).read_text()
    assert "| | oncelog-up |\n" in page
    assert "| **nothing acknowledged is lost** | held, " in page
    assert f"FOR=30s EVERY=5s SEED={SEED}` |" in page
