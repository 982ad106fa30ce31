"""Containers, or pods, killed by the plan of a seed, judged by the checkers of the simulator: `make e2e MINUTES=10`."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.e2e.place import IS_CURRENT, chaos_arguments

from oncelog_server.cluster.plan import ROLES

HOME = Path(__file__).parents[2]
MINUTES = float(os.environ.get("ONCELOG_E2E_MINUTES") or 1)
PACE = os.environ.get("ONCELOG_E2E_PACE") or "1.2"
SEED = os.environ.get("ONCELOG_E2E_SEED") or "0"
RECOVERY_BAR_S = 5
AROUND_S = 900
"""To start, heal, read everything, judge."""


@pytest.mark.skipif("ONCELOG_E2E_SHORT" in os.environ, reason="the short form leaves it out")
@pytest.mark.timeout(MINUTES * 60 + AROUND_S + 60)
def test_kills_of_every_role_break_nothing(prepared):
    folder = HOME / "artifacts" / "e2e" / f"chaos-{int(time.time())}"
    folder.parent.mkdir(parents=True, exist_ok=True)
    command = [
        *(sys.executable, "-m", "oncelog_robustness.chaos", *chaos_arguments()),
        *("--minutes", str(MINUTES), "--pace", PACE, "--seed", SEED, "--folder", str(folder)),
        *("--recovery-bar", str(RECOVERY_BAR_S)),
    ]
    done = subprocess.run(
        command,
        cwd=HOME,
        capture_output=True,
        text=True,
        timeout=MINUTES * 60 + AROUND_S,
        check=False,
    )
    assert done.returncode in (0, 1), f"{done.stdout}\n{done.stderr}"
    report = json.loads((folder / "report.json").read_text())
    broken = {
        one["checker"]: one["proof"] for one in report["verdicts"] if one["answer"] == "broken"
    }
    by_role = {one["role"]: one for one in report["roles"]}
    print(f"\nchaos for {MINUTES:g} minutes, seed {report['seed']}: {folder}/report.html")
    for role, one in by_role.items():
        kills = "" if one["kills_p99_ms"] is None else f", p99 {one['kills_p99_ms'] / 1000:.2f} s"
        print(f"  {role}: {one['kills']} kills{kills}")
    assert not broken, f"{broken}\n{done.stdout[-3000:]}"
    least = 1 if IS_CURRENT else int(MINUTES)
    spared = [one.role for one in ROLES if by_role[one.role]["kills"] < least]
    assert not spared, f"killed less than {least} times: {spared}"
