"""Prometheus itself: each alarm fires on data made for it, and none fires on those of a healthy cluster."""

import re
import subprocess
from pathlib import Path

import pytest
import yaml

HERE = Path(__file__).parent
MONITORING = HERE.parents[1] / "deploy/helm/oncelog/monitoring"
PROMTOOL = HERE.parents[1] / ".cache/kubernetes-tools/promtool"
ALERTS = yaml.safe_load((MONITORING / "alerts.yaml").read_text())["groups"][0]["rules"]
CASES = yaml.safe_load((HERE / "alerts_test.yaml").read_text())["tests"]


def outcome(*arguments):
    assert PROMTOOL.exists(), "scripts/promtool.sh gets it, as `make chart` does"
    return subprocess.run(
        [PROMTOOL, *map(str, arguments)], capture_output=True, check=False, text=True, timeout=120
    )


def run(*arguments):
    done = outcome(*arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_prometheus_takes_the_rules():
    found = run("check", "rules", "--lint=all", "--lint-fatal", MONITORING / "alerts.yaml")
    assert f"{len(ALERTS)} rules found" in found


def test_each_alarm_fires_when_it_should_and_only_then():
    assert "SUCCESS" in run("test", "rules", HERE / "alerts_test.yaml")


@pytest.mark.parametrize("name", [rule["alert"] for rule in ALERTS])
def test_a_rule_that_is_silent_fails_its_test(tmp_path, name):
    rules = [
        {**rule, "expr": "vector(0) > 1"} if rule["alert"] == name else rule for rule in ALERTS
    ]
    broken = {"groups": [{"name": "oncelog", "rules": rules}]}
    (tmp_path / "alerts.yaml").write_text(yaml.safe_dump(broken))
    cases = yaml.safe_load((HERE / "alerts_test.yaml").read_text())
    (tmp_path / "cases.yaml").write_text(yaml.safe_dump({**cases, "rule_files": ["alerts.yaml"]}))
    done = outcome("test", "rules", tmp_path / "cases.yaml")
    assert done.returncode != 0
    assert name in done.stdout + done.stderr


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
