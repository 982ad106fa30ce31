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

from oncelog.process.sources import Sources
from oncelog_server.composition import embedded_roles
from oncelog_server.settings import EmbeddedSettings

FOLDER = Path(__file__).parents[3] / "deploy/helm/oncelog/monitoring"
PATIENCE_S = 30
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
    created.result(PATIENCE_S)
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": bootstrap, "transactional.id": "pay", "log_level": 0}
    )
    producer.init_transactions(PATIENCE_S)
    producer.begin_transaction()
    producer.produce("orders", b"x")
    producer.commit_transaction(PATIENCE_S)
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
        with urlopen(f"{addresses.gateway}/metrics", timeout=PATIENCE_S) as answer:
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
