"""Alerts and dashboard ask for series that exist: every role's `/metrics` in one process, after real transactions."""

import asyncio
import json
import re
from pathlib import Path
from urllib.request import urlopen

import confluent_kafka
import pytest
import uvloop
import yaml
from confluent_kafka.admin import AdminClient, NewTopic
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.registry import Collector

from oncelog.process.exposition import metric_of
from oncelog.process.sources import Sources
from oncelog.telemetry import spans
from oncelog.telemetry.recorder import TraceRecorder
from oncelog.telemetry.trace_metrics import trace_metrics
from oncelog_server.composition import embedded_roles
from oncelog_server.settings import EmbeddedSettings

ROOT = Path(__file__).parents[3]
FOLDER = ROOT / "deploy/helm/oncelog/monitoring"
PAGE = (ROOT / "docs/metrics.md").read_text()
OF_A_PROCESS = ROOT / "src/oncelog/process/metrics.py"
WAIT_S = 90
RULES = yaml.safe_load((FOLDER / "alerts.yaml").read_text())["groups"][0]["rules"]
DASHBOARD = json.loads((FOLDER / "dashboard.json").read_text())
ONLY_IN_A_CLUSTER = {"oncelog_storage_follower_lag_records"}
"""A single node has no followers."""


def panels():
    return [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]


def expressions():
    rules = [(rule["alert"], rule["expr"]) for rule in RULES]
    return rules + [
        (panel["title"], target["expr"]) for panel in panels() for target in panel["targets"]
    ]


def work(bootstrap):
    admin = AdminClient({"bootstrap.servers": bootstrap})
    (created,) = admin.create_topics([NewTopic("orders", 1, 1)]).values()
    created.result(WAIT_S)
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": bootstrap, "transactional.id": "pay", "log_level": 0}
    )
    producer.init_transactions(WAIT_S)
    producer.begin_transaction()
    producer.produce("orders", b"x")
    producer.commit_transaction(WAIT_S)
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "billing", "log_level": 0}
    )
    consumer.commit(offsets=[confluent_kafka.TopicPartition("orders", 0, 0)], asynchronous=False)
    consumer.close()


@pytest.fixture(scope="module")
def metrics(tmp_path_factory):
    folder = tmp_path_factory.mktemp("oncelog")

    def read(addresses):
        work(addresses.bootstrap)
        with urlopen(f"{addresses.gateway}/metrics", timeout=WAIT_S) as answer:
            return answer.read().decode()

    async def scenario():
        settings = EmbeddedSettings(port=0, gateway_port=0, data=folder)
        async with embedded_roles(settings, folder, Sources()) as addresses:
            return await asyncio.to_thread(read, addresses)

    return uvloop.run(scenario())


@pytest.mark.parametrize(("title", "expression"), expressions())
def test_an_expression_asks_for_series_and_labels_that_exist(metrics, title, expression):
    names = set(re.findall(r"\boncelog_[a-z_]+", expression)) - ONLY_IN_A_CLUSTER
    for name in names:
        declared = re.sub(r"_(bucket|sum|count)$", "", name)
        assert re.search(rf"^# TYPE {declared} ", metrics, re.M), f"{title}: no {declared}"
    wanted = {
        label
        for group in re.findall(r"by \(([^)]*)\)", expression)
        for label in map(str.strip, group.split(","))
    }
    known = set(re.findall(r'[{,]([a-z_]+)="', metrics)) | {"node", "follower"}
    assert wanted <= known, f"{title}: no label {wanted - known}"


def test_what_happened_is_counted(metrics):
    def value(pattern):
        found = re.search(rf"^{pattern} ([0-9.e+-]+)$", metrics, re.M)
        assert found, pattern
        return float(found[1])

    assert value(r'oncelog_storage_produce_seconds_count\{acks="-1"\}') >= 1
    assert value(r'oncelog_storage_verification_seconds_count\{kind="transaction"\}') >= 1
    assert value(r'oncelog_coordinator_append_seconds_count\{kind="transaction"\}') >= 3
    assert value(r'oncelog_coordinator_shard_load_seconds_count\{kind="transaction"\}') == 50
    assert value("oncelog_coordinator_shards_loading") == 0
    assert value("oncelog_storage_partitions_with_late_transactions") == 0


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_an_alert_says_what_it_means_and_what_to_type(rule):
    assert rule["annotations"]["summary"].endswith(".")
    assert "oncelog " in rule["annotations"]["next"]
    assert rule["labels"]["severity"] in ("warning", "critical")


def test_no_two_panels_lie_on_each_other():
    places = [panel["gridPos"] for panel in DASHBOARD["panels"]]
    cells = [
        (x, y)
        for place in places
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) < 24


class Tracing(Collector):
    def collect(self):
        return map(metric_of, trace_metrics())


def rows():
    """Of docs/metrics.md: the series with its type, labels and meaning."""
    for line in re.findall(r"^\| `oncelog_.*", PAGE, re.M):
        name, kind, labels, unit, meaning, _ = (
            cell.strip() for cell in line.strip("|").split(" | ")
        )
        yield name.strip("`"), kind, set(re.findall(r"`(\w+)`", labels)), unit, meaning


def told_by(text):
    meanings = dict(re.findall(r"^# HELP (oncelog_\w+) (.*)$", text, re.M))
    kinds = dict(re.findall(r"^# TYPE (oncelog_\w+) (\w+)$", text, re.M))
    return {(name, kinds[name], meanings[name]) for name in kinds if not name.endswith("_created")}


def test_the_page_of_metrics_says_what_the_roles_say(metrics, monkeypatch):
    monkeypatch.setattr(spans, "recorder", TraceRecorder(lambda span: None, 1.0, late_ms=1))
    registry = CollectorRegistry()
    registry.register(Tracing())
    served = told_by(metrics) | told_by(generate_latest(registry).decode())
    of_a_process = set(
        re.findall(r'(?:Gauge|Histogram)\(\s*"(oncelog_\w+)"', OF_A_PROCESS.read_text())
    )
    written = {(name, kind, meaning) for name, kind, _, _, meaning in rows()}
    by_roles = {row for row in written if row[0] not in of_a_process}
    assert served - by_roles == set(), "write these rows into docs/metrics.md"
    assert by_roles - served == set(), "no role serves what these rows of docs/metrics.md say"
    assert of_a_process <= {name for name, _, _ in written}


def test_the_page_of_metrics_names_every_label(metrics):
    for name, _, labels, _, _ in rows():
        samples = re.findall(rf"^{name}(?:_bucket|_sum|_count)?\{{(.*)\}} ", metrics, re.M)
        served = {label for one in samples for label in re.findall(r'(\w+)="', one)} - {"le"}
        assert not samples or served == labels, name


def test_the_page_of_metrics_has_a_unit_for_every_series():
    assert [name for name, _, _, unit, _ in rows() if not unit] == ["oncelog_process"]
