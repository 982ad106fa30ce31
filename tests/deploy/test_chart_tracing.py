"""Traces are off by default; with an endpoint every process is told of it, or of the release's own collector."""

import yaml
from tests.deploy.conftest import (
    ROLES,
    component,
    container_of,
    made_with,
    pod_of,
    rendered,
    role_of,
    the,
    variables,
)


def variables_of_roles(profile):
    return [variables(container_of(rendered(profile), role)) for role in ROLES]


def test_no_process_traces_by_default():
    found = variables_of_roles("default")
    assert not any(name.startswith("OTEL_") for one in found for name in one)


def test_every_process_is_told_where_spans_go_and_how_many():
    for one in variables_of_roles("traced"):
        assert one["OTEL_EXPORTER_OTLP_ENDPOINT"] == "http://collector.observability:4317"
        assert one["OTEL_TRACES_SAMPLER"] == "parentbased_traceidratio"
        assert one["OTEL_TRACES_SAMPLER_ARG"] == "0.25"
        assert one["OTEL_RESOURCE_ATTRIBUTES"].startswith("k8s.namespace.name=prod,k8s.pod.name=$(")


def config_of(objects):
    return yaml.safe_load(the(objects, "ConfigMap", of="collector")["data"]["collector.yaml"])


def collected_with(*values):
    return made_with("tracing.collector.enabled=true", *values)


def test_there_is_no_collector_unless_it_is_asked_for():
    for profile in ("default", "traced"):
        assert "collector" not in {component(one) for one in rendered(profile)}


def test_processes_send_to_the_collector_and_it_sends_on():
    for one in variables_of_roles("collected"):
        host = "log-oncelog-collector.prod.svc.cluster.local"
        assert one["OTEL_EXPORTER_OTLP_ENDPOINT"] == f"http://{host}:4317"
        assert one["OTEL_TRACES_SAMPLER_ARG"] == "0.1"
    config = config_of(rendered("collected"))
    assert config["exporters"] == {
        "otlp_grpc": {
            "endpoint": "http://tempo.observability:4317",
            "tls": {"insecure": True},
            "headers": {"X-Scope-OrgID": "payments"},
        }
    }


def test_a_backend_with_tls_is_asked_for_its_certificate():
    config = config_of(collected_with("tracing.endpoint=https://tempo.example.org:4317"))
    assert config["exporters"]["otlp_grpc"] == {"endpoint": "https://tempo.example.org:4317"}


def test_every_part_of_the_pipeline_is_there():
    for objects in (rendered("collected"), collected_with()):
        config = config_of(objects)
        (pipeline,) = config["service"]["pipelines"].values()
        for part, names in pipeline.items():
            assert names
            assert set(names) <= set(config[part])
        assert set(config["service"]["extensions"]) == set(config["extensions"])


def test_ports_of_the_collector_are_those_it_listens_on():
    objects = rendered("collected")
    config = config_of(objects)
    receivers = config["receivers"]["otlp"]["protocols"].values()
    listens = {
        int(one["endpoint"].rpartition(":")[2])
        for one in (*receivers, *config["extensions"].values())
    }
    container = container_of(objects, "collector")
    assert {one["containerPort"] for one in container["ports"]} == listens
    assert container["livenessProbe"]["httpGet"]["port"] == "health"


def test_the_collector_listens_on_ipv6_where_the_cluster_does():
    config = config_of(collected_with("bindAddress=::"))
    assert config["receivers"]["otlp"]["protocols"]["grpc"]["endpoint"] == "[::]:4317"


def test_a_change_of_its_configuration_restarts_the_collector():
    def checksum(objects):
        return pod_of(role_of(objects, "collector"))[0]["annotations"]["checksum/config"]

    assert checksum(collected_with()) != checksum(collected_with("tracing.endpoint=http://a:4317"))


def test_a_configuration_of_ones_own_replaces_the_charts():
    config = config_of(collected_with("tracing.collector.config.service.extensions={mine}"))
    assert config == {"service": {"extensions": ["mine"]}}


def test_only_pods_of_the_release_reach_the_collector():
    policy = the(rendered("collected"), "NetworkPolicy", of="collector")["spec"]
    (rule,) = policy["ingress"]
    assert rule["from"] == [{"podSelector": {"matchLabels": {"app.kubernetes.io/instance": "log"}}}]
