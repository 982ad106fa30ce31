"""What the chart tells its processes is what they read, and what it refuses is named."""

import json
import re
import tomllib

import pytest
import yaml
from scripts.chart_schema import SET_BY_THE_CHART, SETTINGS, values_schema
from tests.deploy.conftest import (
    CHART,
    MAJORS,
    PROFILES,
    ROLES,
    ROOT,
    component,
    container_of,
    made_with,
    of_kind,
    refusal,
    rendered,
    role_of,
    the,
    variables,
)

from oncelog.process.arguments import SettingsParser
from oncelog.process.names import table_of
from oncelog.process.run import ProcessSettings
from oncelog.rpc.node_settings import NamedNodeSettings, NodeSettings
from oncelog_controller.settings import ControllerSettings
from oncelog_listener.__main__ import PROGRAM
from oncelog_listener.settings import ListenerSettings

KINDS = {table_of(kind).replace("_", "-"): kind for kind in SETTINGS}
FIELDS = {
    "status.podIP": "10.0.0.7",
    "spec.nodeName": "worker-2",
    "status.hostIP": "192.0.2.9",
    "metadata.name": "log-oncelog-listener-301",
}


def environment(container, toml):
    """As Kubernetes would make it."""
    found = {}
    for one in container["env"]:
        source = one.get("valueFrom", {})
        if "value" in one:
            value = one["value"]
        elif "fieldRef" in source:
            value = FIELDS.get(source["fieldRef"]["fieldPath"], "301")
        else:
            name, key = source["secretKeyRef"]["name"], source["secretKeyRef"]["key"]
            urls = {
                "oncelog-postgres-url": "postgresql://a/b",
                "oncelog-redis-url": "redis://a:6379/0",
                "oncelog-db-app": "postgresql://a/b",
            }
            value = urls[name] if key in ("url", "uri") else "s3cret"
        found[one["name"]] = re.sub(r"\$\((\w+)\)", lambda match: found[match[1]], value)
    return found | {"ONCELOG_CONFIG": str(toml)}


SAMPLES = {
    "authorizer": "acl",
    "authentication": "required",
    "ssl_client_auth": "required",
    "ssl_enabled_protocols": "TLSv1.3",
    "tls_enabled_protocols": "TLSv1.3",
}
"""Of settings that are words of their own."""


def settings_read(profile, role, tmp_path, monkeypatch):
    """What a process of this role reads, by the kind of the settings, and the kind of its node's."""
    objects = rendered(profile)
    (settings,) = [one for one in of_kind(objects, "ConfigMap") if "oncelog.toml" in one["data"]]
    toml = tmp_path / "oncelog.toml"
    toml.write_text(settings["data"]["oncelog.toml"])
    for name, value in environment(container_of(objects, role), toml).items():
        monkeypatch.setenv(name, value)
    node = NodeSettings if role in ("marker-sender", "gateway") else NamedNodeSettings
    return SettingsParser(role, "", [ProcessSettings, node, KINDS[role]]).read([]), node


@pytest.mark.parametrize("profile", PROFILES)
def test_clients_are_told_a_name_that_outlives_the_pod(profile, tmp_path, monkeypatch):
    found, node = settings_read(profile, "listener", tmp_path, monkeypatch)
    told = PROGRAM.kafka_address(found[ListenerSettings], found[node])
    name, service = FIELDS["metadata.name"], "log-oncelog-listener-nodes"
    door = f"{name}.{service}" if profile == "secured-given" else f"{name}-clients"
    assert (told.host, told.port) == (f"{door}.prod.svc.cluster.local", 9092)
    selector = the(rendered(profile), "Service", f"{name}-clients")["spec"]["selector"]
    assert selector["statefulset.kubernetes.io/pod-name"] == name
    assert found[ListenerSettings].loopback_forwarded


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("role", ROLES)
def test_every_process_can_read_what_it_is_told(profile, role, tmp_path, monkeypatch):
    objects = rendered(profile)
    found, node = settings_read(profile, role, tmp_path, monkeypatch)
    assert found[node].host == "10.0.0.7"
    assert found[node].port == 9090
    count = role_of(objects, "controller")["spec"]["replicas"]
    assert len(found[node].controller_addresses) == count
    assert all(".prod.svc.cluster.local:9090" in one for one in found[node].controller_addresses)
    if role == "controller":
        storage_count = role_of(objects, "storage")["spec"]["replicas"]
        assert found[ControllerSettings].bootstrap_storage_nodes == min(3, storage_count)
        assert found[ControllerSettings].database_url.startswith("postgresql")


def test_what_the_chart_sets_is_what_the_schema_keeps_out():
    def set_in(profiles):
        return {
            name
            for profile in profiles
            for role in ROLES
            for name in variables(container_of(rendered(profile), role))
            if name.startswith("ONCELOG_") and name != "ONCELOG_CONFIG"
        }

    # The chart has an own default for this one, until config.gateway says another.
    names = set_in(PROFILES) - {"ONCELOG_GATEWAY_AUTHENTICATION"}
    plain = set_in(one for one in PROFILES if not one.startswith("secured"))
    assert names & plain <= SET_BY_THE_CHART
    # What it sets of a listener in a secured release is refused there.
    for name in names - SET_BY_THE_CHART:
        _, table, setting = name.lower().split("_", 2)
        given = f"config.{table}.{setting}={SAMPLES.get(setting, 'x')}"
        said = refusal("security.enabled=true", given)
        assert f"config.{table}.{setting} with security.enabled" in said
    names &= SET_BY_THE_CHART
    # These would contradict what it sets.
    assert SET_BY_THE_CHART - names == {
        "ONCELOG_NODE_ADVERTISED_ADDRESS",
        "ONCELOG_CONTROLLER_CONTROLLER_ID",
        "ONCELOG_CONTROLLER_RPC_ADDRESS",
        "ONCELOG_LISTENER_ADVERTISED_PORT",
    }


def test_defaults_of_values_are_defaults_of_the_settings():
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    kinds = {table_of(kind): kind for kind in SETTINGS}
    for table, settings in values["config"].items():
        for name, value in settings.items():
            assert value == kinds[table].model_fields[name].default, (table, name)


def test_numbers_and_words_survive_the_way_into_the_file():
    objects = made_with(
        "config.controller.partitions_max=1000000",
        "config.coordinator.transactional_id_expiration_ms=604800000000",
        "config.listener.auto_create_topics=false",
        # The former name of a setting, which a coordinator reads in a file.
        "config.coordinator.stamp_check_enabled=false",
        ("--set-string", 'config.process.allowed_hosts=a.b\\,c "d"'),
    )
    read = tomllib.loads(the(objects, "ConfigMap")["data"]["oncelog.toml"])
    assert read["controller"]["partitions_max"] == 1_000_000
    assert read["coordinator"]["transactional_id_expiration_ms"] == 604_800_000_000
    assert read["listener"]["auto_create_topics"] is False
    assert read["coordinator"]["stamp_check_enabled"] is False
    assert read["process"]["allowed_hosts"] == 'a.b,c "d"'


def test_the_schema_is_made_from_the_settings():
    kept = json.loads((CHART / "values.schema.json").read_text())
    assert kept == values_schema(), "run make chart-schema"


@pytest.mark.parametrize("major", MAJORS)
@pytest.mark.parametrize(
    ("given", "named"),
    [
        ("config.storage.flush_policy=often", "flush_policy"),
        ("config.storage.flush_polcy=os", "flush_polcy"),
        ("config.node.host=x", "host"),
        ("config.controller.lease_ms=1", "lease_ms"),
        ("config.nodes.rack=x", "nodes"),
        ("stroage.replicas=3", "stroage"),
        ("storage.replicas=0", "replicas"),
        ("storage.replicas=101", "replicas"),
        ("storage.persistence.size=ten", "size"),
        ("listener.external.type=Foo", "type"),
        ("postgres.bundled=false", "postgres.external.url"),
        ("redis.bundled=false", "redis.enabled=false"),
        ("image.pullPolicy=never", "pullPolicy"),
        ("storage.resources.limits.memory=lots", "memory"),
        ("postgres.resources.requests.cpu=-1", "cpu"),
        ("jobs.resources.limits.memory=1 Gi", "memory"),
        ("chaos.job.resources.limit.memory=1Gi", "limit"),
        ("gateway.replicas=2,gateway.audit.existingClaim=audit", "replicas"),
    ],
)
def test_values_that_cannot_be_are_refused_by_name(major, given, named):
    assert named in refusal(given, major=major)


@pytest.mark.parametrize("amount", ["1", "0.5", "250m", "1.5Gi", "512Mi", "2000000000"])
def test_amounts_as_people_write_them_are_taken(amount):
    made = made_with(f"storage.resources.limits.memory={amount}", "gateway.replicas=2")
    shown = container_of(made, "storage")["resources"]["limits"]["memory"]
    assert float(shown) == float(amount) if amount[-1].isdigit() else shown == amount


def test_a_balancer_without_hosts_is_refused():
    said = refusal("listener.external.enabled=true", "listener.external.type=LoadBalancer")
    assert "listener.external.hosts" in said


def test_policies_let_in_whom_the_table_of_callers_names():
    page = (ROOT / "docs" / "architecture" / "README.md").read_text()
    section = page.partition("## Who may call whom")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (.+?) \| (.+?) \|", section, re.MULTILINE)[2:]
    names = {"marker sender": "marker-sender", "group coordinator": "coordinator"}
    policies = {
        component(one): one["spec"]["ingress"][0]["from"][0]
        for one in of_kind(rendered("default"), "NetworkPolicy")
    }
    judged = 0
    for callers, called in rows:
        named = re.match(r"(group coordinator|marker sender|\w+)", called)[1]
        for target in ROLES if named == "process" else [names.get(named, named)]:
            (rule,) = policies[target]["podSelector"]["matchExpressions"]
            for caller in re.sub(r"\(.*?\)", "", callers).split(","):
                wanted = names.get(caller.strip(), caller.strip())
                for one in ROLES if wanted == "all" else [wanted]:
                    assert one in rule["values"], (one, target)
                    judged += 1
    assert judged > 15


def test_the_gateway_asks_for_a_login_where_values_say_so():
    def told(*values):
        return variables(container_of(made_with(*values), "gateway"))

    assert told()["ONCELOG_GATEWAY_AUTHENTICATION"] == "none"
    required = told("config.gateway.authentication=required")
    assert "ONCELOG_GATEWAY_AUTHENTICATION" not in required
