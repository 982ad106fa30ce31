"""Traces are off by default; with an endpoint every process is told of it."""

from tests.deploy.conftest import ROLES, component, pod_of, rendered, with_pods


def variables(profile):
    """Of each role's container, by name."""
    return {
        component(one): {
            each["name"]: each.get("value", "")
            for container in pod_of(one)[1]["containers"]
            for each in container.get("env", [])
        }
        for one in with_pods(rendered(profile))
        if component(one) in ROLES
    }


def test_no_process_traces_by_default():
    found = variables("default")
    assert set(found) == set(ROLES)
    assert not any(name.startswith("OTEL_") for one in found.values() for name in one)


def test_every_process_is_told_where_spans_go_and_how_many():
    for one in variables("traced").values():
        assert one["OTEL_EXPORTER_OTLP_ENDPOINT"] == "http://collector.observability:4317"
        assert one["OTEL_TRACES_SAMPLER"] == "parentbased_traceidratio"
        assert one["OTEL_TRACES_SAMPLER_ARG"] == "0.25"
        assert one["OTEL_RESOURCE_ATTRIBUTES"].startswith("k8s.namespace.name=prod,k8s.pod.name=$(")
