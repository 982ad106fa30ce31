"""Prometheus itself: each alarm fires on data made for it, and none fires on those of a healthy cluster."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

HERE = Path(__file__).parent
MONITORING = HERE.parents[1] / "deploy/helm/oncelog/monitoring"
ALERTS = yaml.safe_load((MONITORING / "alerts.yaml").read_text())["groups"][0]["rules"]
CASES = yaml.safe_load((HERE / "alerts_test.yaml").read_text())["tests"]


def run(*arguments):
    promtool = os.environ.get("ONCELOG_TEST_PROMTOOL") or shutil.which("promtool")
    if not promtool:
        pytest.skip(
            "promtool is neither on the PATH nor in ONCELOG_TEST_PROMTOOL; it is part of Prometheus"
        )
    done = subprocess.run(
        [promtool, *map(str, arguments)], capture_output=True, check=False, text=True, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_prometheus_takes_the_rules():
    found = run("check", "rules", "--lint=all", "--lint-fatal", MONITORING / "alerts.yaml")
    assert f"{len(ALERTS)} rules found" in found


def test_each_alarm_fires_when_it_should_and_only_then():
    assert "SUCCESS" in run("test", "rules", HERE / "alerts_test.yaml")


def test_prometheus_takes_every_expression_of_the_dashboard(tmp_path):
    dashboard = yaml.safe_load((MONITORING / "dashboard.json").read_text())
    rules = [
        {"record": f"panel:{panel['id']}:{number}", "expr": target["expr"]}
        for panel in dashboard["panels"]
        for number, target in enumerate(panel.get("targets", []))
    ]
    file = tmp_path / "dashboard.yaml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": rules}]}))
    assert f"{len(rules)} rules found" in run("check", "rules", "--lint=none", file)


def test_every_alarm_has_data_on_which_it_fires():
    fired = {
        name
        for case in CASES
        for query in case["promql_expr_test"]
        for sample in query.get("exp_samples", [])
        for name in re.findall(r'alertname="(\w+)"', sample["labels"])
    }
    assert fired == {rule["alert"] for rule in ALERTS}


def test_a_healthy_cluster_has_every_series_of_the_alarms():
    healthy = CASES[0]
    assert healthy["name"] == "a healthy cluster"
    shown = {one["series"].partition("{")[0] for one in healthy["input_series"]}
    series = {name for rule in ALERTS for name in re.findall(r"\boncelog_\w+", rule["expr"])}
    assert series <= shown
