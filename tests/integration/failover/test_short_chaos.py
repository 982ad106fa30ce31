"""Fifteen seconds of chaos on a whole cluster, the very command: every role is hit, nothing is broken."""

import json

import pytest
from tests.integration.robustness.chaos_command import TIMEOUT_S, chaos
from tests.targets import cluster_folder


@pytest.mark.timeout(TIMEOUT_S + 120)
@pytest.mark.parametrize(
    "kind", [[], pytest.param(["--secure"], marks=pytest.mark.slow)], ids=["plain", "secured"]
)
def test_a_short_chaos(kind):
    with cluster_folder() as folder:
        code, output = chaos("--minutes", "0.25", "--seed", "7", "--folder", str(folder), *kind)
        assert code == 0, output
        report = json.loads((folder / "report.json").read_text())
        assert report["is_sound"]
        assert {one["role"]: one["hits"] for one in report["roles"]} == dict.fromkeys(
            (
                "controller",
                "storage",
                "coordinator",
                "marker-sender",
                "listener",
                "gateway",
                "postgres",
                "redis",
                "clients",
            ),
            1,
        )
        answers = {one["checker"]: one for one in report["verdicts"]}
        for checker in ("lost-write", "duplicate", "torn-transaction", "replicas-differ"):
            assert answers[checker]["answer"] == "ok", answers[checker]
            assert answers[checker]["judged"] > 0
        assert report["pulse"]["commits"] > 0
        assert (folder / "report.html").stat().st_size > 10_000
        assert "nothing is broken" in (folder / "report.md").read_text()
        assert (folder / "history.jsonl").stat().st_size > 10_000
        assert f"report: {folder / 'report.html'}" in output
