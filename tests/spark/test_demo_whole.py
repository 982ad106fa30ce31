"""`oncelog demo` from end to end, small: three kills, and a proof that holds. On a terminal or not."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DATA = Path(os.environ.get("ONCELOG_TEST_DATA", ROOT.parent / "shared" / "data"))
TIMEOUT_S = 280

pytestmark = [pytest.mark.spark, pytest.mark.timeout(TIMEOUT_S + 20)]


def demo(*options):
    command = [sys.executable, "-m", "oncelog_server", "demo", *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)


@pytest.mark.slow
def test_payments_are_booked_exactly_once_through_three_kills():
    result = demo("--rows", "20000", "--seed", "4")
    assert result.returncode == 0, result.stdout + result.stderr
    assert "Exactly once" in result.stdout
    assert result.stdout.count("SIGKILL") == 3


@pytest.mark.slow
@pytest.mark.skipif(not DATA.is_dir(), reason=f"no folder of real data at {DATA}")
def test_a_file_is_counted_exactly_once_through_three_kills():
    result = demo("--input", str(DATA / "airports.csv"), "--key", "state")
    assert result.returncode == 0, result.stdout + result.stderr
    assert "sum of latitude" in result.stdout


def test_a_file_without_a_key_is_refused_with_the_way_out():
    result = demo("--input", __file__)
    assert result.returncode == 2
    assert "--key COLUMN" in result.stderr
