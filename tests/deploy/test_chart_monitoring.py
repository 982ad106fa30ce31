"""What the Prometheus operator and Grafana's sidecar are given: objects that find pods, Services and rules."""

import json

import pytest
import yaml
from jsonschema import Draft202012Validator
from tests.deploy.conftest import (
    CHART,
    ROLES,
    component,
    container_of,
    made_with,
    named,
    of_kind,
    pod_of,
    refusal,
    rendered,
    role_of,
    the,
    variables,
)

MONITORING = CHART / "monitoring"
GROUP = "monitoring.coreos.com/v1"
KINDS = ("PodMonitor", "ServiceMonitor", "PrometheusRule")


def closed(**properties):
    return {
        "type": "object",
        "additionalProperties": False,
        "properties": properties,
        "required": list(properties),
    }


TEXT = {"type": "string", "minLength": 1}
TEXTS = {"type": "object", "additionalProperties": TEXT}
DURATION = {
    "type": "string",
    "pattern": "^(0|(([0-9]+)h)?(([0-9]+)m)?(([0-9]+)s)?(([0-9]+)ms)?)$",
    "minLength": 1,
}
ENDPOINT = closed(port=TEXT, path={"const": "/metrics"}, interval=DURATION)
ENDPOINT["properties"]["authorization"] = closed(credentials=closed(name=TEXT, key=TEXT))
RULE = closed(alert=TEXT, expr=TEXT, labels=TEXTS, annotations=TEXTS)
RULE["properties"]["for"] = DURATION
SPECS = {
    "PodMonitor": closed(
        selector=closed(matchLabels=TEXTS),
        podMetricsEndpoints={"type": "array", "items": ENDPOINT, "minItems": 1},
    ),
    "ServiceMonitor": closed(
        selector=closed(matchLabels=TEXTS),
        endpoints={"type": "array", "items": ENDPOINT, "minItems": 1},
    ),
    "PrometheusRule": closed(
        groups={"type": "array", "items": closed(name=TEXT, rules={"type": "array", "items": RULE})}
    ),
}
"""The part of the operator's schemas that the chart uses; more of them is refused here, so that it is looked up."""


def monitored(*values):
    parts = ("serviceMonitor", "prometheusRule", "dashboard")
    return made_with(*(f"metrics.{one}.enabled=true" for one in parts), *values)


def selects(thing, labels):
    return thing["spec"]["selector"]["matchLabels"].items() <= labels.items()


def test_a_cluster_without_the_operator_gets_none_of_its_objects():
    assert of_kind(rendered("default"), *KINDS) == []
    assert not [one for one in rendered("default") if component(one) == "metrics"]


@pytest.mark.parametrize("kind", KINDS)
def test_the_operator_takes_every_object(kind):
    thing = the(monitored(), kind)
    assert thing["apiVersion"] == GROUP
    Draft202012Validator(SPECS[kind]).validate(thing["spec"])


def test_every_role_is_scraped_at_a_port_that_it_has():
    objects = monitored("tracing.collector.enabled=true")
    monitor = the(objects, "PodMonitor")
    (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
    scraped = set()
    for thing in of_kind(objects, "StatefulSet", "Deployment"):
        metadata, pod = pod_of(thing)
        ports = {port["name"] for one in pod["containers"] for port in one.get("ports", [])}
        if selects(monitor, metadata["labels"]) and endpoint["port"] in ports:
            scraped.add(component(thing))
    assert scraped == set(ROLES)


def test_a_token_guards_every_process_and_is_shown_by_the_scrape():
    objects = monitored("metrics.tokenSecret=scrape")
    (endpoint,) = the(objects, "PodMonitor")["spec"]["podMetricsEndpoints"]
    assert endpoint["authorization"] == {"credentials": {"name": "scrape", "key": "token"}}
    for role in ROLES:
        pod = pod_of(role_of(objects, role))[1]
        (container,) = pod["containers"]
        file = variables(container)["ONCELOG_PROCESS_METRICS_TOKEN_FILE"]
        folder = file.rpartition("/")[0]
        (mount,) = [one for one in container["volumeMounts"] if one["mountPath"] == folder]
        volume = named(pod["volumes"], mount["name"])
        assert volume["secret"]["secretName"] == "scrape"
        assert f"{mount['mountPath']}/{volume['secret']['items'][0]['path']}" == file


def test_without_a_token_nobody_is_asked_for_one():
    assert "METRICS_TOKEN" not in yaml.safe_dump_all(monitored())


def test_the_whole_clusters_metrics_are_scraped_at_the_gateway():
    objects = monitored()
    monitor = the(objects, "ServiceMonitor")
    (service,) = [
        one for one in of_kind(objects, "Service") if selects(monitor, one["metadata"]["labels"])
    ]
    (endpoint,) = monitor["spec"]["endpoints"]
    assert endpoint["port"] in {port["name"] for port in service["spec"]["ports"]}
    # The operator scrapes each pod by its address, which the gateway must take for its own name.
    hosts = variables(container_of(objects, "gateway"))["ONCELOG_GATEWAY_ALLOWED_HOSTS"]
    assert "$(POD_IP)" in hosts.split(",")


def test_the_rules_are_those_of_the_file():
    kept = yaml.safe_load((MONITORING / "alerts.yaml").read_text())
    assert the(monitored(), "PrometheusRule")["spec"] == kept


def test_the_sidecar_finds_the_dashboard_of_the_file():
    made = the(monitored(), "ConfigMap", of="metrics")
    assert made["metadata"]["labels"]["grafana_dashboard"] == "1"
    (text,) = made["data"].values()
    assert json.loads(text) == json.loads((MONITORING / "dashboard.json").read_text())


def test_a_prometheus_that_asks_for_labels_gets_them():
    objects = monitored(
        "metrics.serviceMonitor.labels.release=prom", "metrics.prometheusRule.labels.release=prom"
    )
    for kind in KINDS:
        assert the(objects, kind)["metadata"]["labels"]["release"] == "prom"


@pytest.mark.parametrize("interval", ["15", "often", "-5s"])
def test_an_interval_that_is_no_duration_is_refused(interval):
    given = ("--set-string", f"metrics.serviceMonitor.interval={interval}")
    assert "interval" in refusal(given)
