"""What the chart makes: objects that fit together, pods that are locked down, stops that have the time they need."""

import json
import math
import os
import re
import shutil
import signal
import subprocess

import kubernetes_validate
import pytest
import yaml
from tests.deploy.conftest import (
    CHART,
    MAJORS,
    PROFILES,
    ROLES,
    component,
    container_of,
    helm,
    made_with,
    named,
    of_kind,
    options_of,
    pod_of,
    rendered,
    role_of,
    the,
    with_pods,
)

from oncelog_listener.settings import ListenerSettings
from oncelog_storage.settings import StorageSettings

OF_OTHERS = ("monitoring.coreos.com/", "cert-manager.io/")
"""Kinds that operators bring along."""


def selects(selector, labels):
    return all(labels.get(name) == value for name, value in selector.items())


@pytest.mark.parametrize("major", MAJORS)
def test_lint_finds_nothing(major):
    for values in PROFILES.values():
        files = [one for pair in zip(values[::2], values[1::2], strict=True) for one in pair]
        ended = helm(major, "lint", "--strict", str(CHART), *files)
        assert ended.returncode == 0, ended.stdout + ended.stderr


@pytest.mark.parametrize("profile", PROFILES)
def test_both_majors_of_helm_render_the_same(profile):
    assert rendered(profile, 3) == rendered(profile, 4)


@pytest.mark.parametrize("profile", PROFILES)
def test_the_chart_is_the_same_each_time_it_is_rendered(profile):
    """Who compares what is rendered with what runs, as Argo CD does, finds nothing to change."""
    again = made_with.__wrapped__(*options_of(profile))
    assert rendered(profile) == again
    assert of_kind(again, "Secret") == []


@pytest.mark.parametrize("version", ["1.31", "1.36"])
def test_objects_fit_the_oldest_and_the_newest_kubernetes(version):
    # Profiles share most of their objects, and looking at one takes a tenth of a second.
    different = {
        json.dumps(one, sort_keys=True): one for profile in PROFILES for one in rendered(profile)
    }
    judged = 0
    for one in different.values():
        if not one["apiVersion"].startswith(OF_OTHERS):
            kubernetes_validate.validate(one, version, strict=True)
            judged += 1
    assert judged > len(rendered("default"))


@pytest.mark.parametrize("profile", PROFILES)
def test_names_are_given_once_and_are_short_enough(profile):
    names = [(one["kind"], one["metadata"]["name"]) for one in rendered(profile)]
    assert len(names) == len(set(names))
    # A StatefulSet's pods carry their revision in a label of at most 63 characters.
    assert all(len(name) <= 52 for kind, name in names if kind == "StatefulSet")


def test_a_long_release_name_still_fits():
    ended = helm(4, "template", "a" * 53, str(CHART))
    assert ended.returncode == 0, ended.stderr


@pytest.mark.parametrize("profile", PROFILES)
def test_every_pod_is_locked_down(profile):
    for thing in with_pods(rendered(profile)):
        _, pod = pod_of(thing)
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["runAsUser"] > 0
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        # Only who gives faults, makes executors, or makes Secrets, asks Kubernetes for anything.
        asks = (
            component(thing) == "chaos"
            or (profile, component(thing)) == ("spark-executors", "spark-driver")
            or thing["metadata"]["name"].endswith("-secrets")
        )
        assert pod["automountServiceAccountToken"] is asks
        # A Service "oncelog-listener" would set ONCELOG_LISTENER_PORT=tcp://…
        assert pod["enableServiceLinks"] is False
        for container in pod["containers"]:
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }
            assert {"cpu", "memory"} <= set(container["resources"]["requests"])
            assert "memory" in container["resources"]["limits"]
            assert not container["image"].endswith(":latest")
            assert ":" in container["image"]
            tmp = [one["emptyDir"] for one in pod["volumes"] if one["name"] == "tmp"]
            assert all(set(one) == {"sizeLimit"} for one in tmp), thing["metadata"]["name"]
            assert tmp or component(thing) == "collector"
            mounts = {one["name"] for one in container["volumeMounts"]}
            claims = thing["spec"].get("volumeClaimTemplates", [])
            there = {one["name"] for one in [*pod["volumes"], *(one["metadata"] for one in claims)]}
            assert mounts == there


@pytest.mark.parametrize("profile", [one for one in PROFILES if not one.startswith("secured")])
@pytest.mark.parametrize("role", ROLES)
def test_probes_ask_what_a_process_means_by_them(profile, role):
    container = container_of(rendered(profile), role)
    ports = {one["name"]: one["containerPort"] for one in container["ports"]}
    assert ports["rpc"] == 9090
    for probe, service in (
        ("startupProbe", "liveness"),
        ("livenessProbe", "liveness"),
        ("readinessProbe", None),
    ):
        assert container[probe]["grpc"].get("service") == service
        assert container[probe]["grpc"]["port"] == ports["rpc"]
    # A start must not be ended while it waits for the database.
    startup = container["startupProbe"]
    assert startup["periodSeconds"] * startup["failureThreshold"] >= 60


@pytest.mark.parametrize("profile", ["default", "secured"])
@pytest.mark.parametrize("role", ROLES)
def test_a_process_that_is_slow_is_not_ended(profile, role):
    """On a machine with a load of 30 a gateway answered after 1 to 6 s."""
    container = container_of(rendered(profile), role)
    probe = container["livenessProbe"]
    assert probe["timeoutSeconds"] >= 30
    assert probe["failureThreshold"] * probe["periodSeconds"] >= 30
    assert container["readinessProbe"]["timeoutSeconds"] >= 5
    # Nobody asks a process that has just begun: each `no` is an event.
    assert container["startupProbe"]["initialDelaySeconds"] >= 3
    assert container["readinessProbe"]["initialDelaySeconds"] >= 3


def test_postgres_is_stopped_whatever_its_process_id(tmp_path):
    """In a pod that shares its processes it is not 1."""
    container = container_of(rendered("default"), "postgres")
    command = container["lifecycle"]["preStop"]["exec"]["command"]
    with subprocess.Popen(["sleep", "60"]) as postgres:
        (tmp_path / "postmaster.pid").write_text(f"{postgres.pid}\n{tmp_path}\n")
        subprocess.run(command, check=True, env={**os.environ, "PGDATA": str(tmp_path)})
        assert postgres.wait(10) == -signal.SIGINT


@pytest.mark.parametrize("drain_ms", [0, 1_500, 20_000, 600_000])
def test_a_pod_has_the_time_that_its_drain_and_stop_may_take(drain_ms):
    objects = made_with(f"config.process.drain_timeout_ms={drain_ms}")
    stop_ms = {
        "storage": StorageSettings.model_fields["stop_timeout_ms"].default,
        "listener": ListenerSettings.model_fields["stop_grace_ms"].default,
    }
    for role in ROLES:
        _, pod = pod_of(role_of(objects, role))
        (container,) = pod["containers"]
        sleep_s = (
            container.get("lifecycle", {}).get("preStop", {}).get("sleep", {}).get("seconds", 0)
        )
        needed_s = sleep_s + math.ceil((drain_ms + stop_ms.get(role, 0)) / 1000)
        assert pod["terminationGracePeriodSeconds"] >= needed_s + 5


@pytest.mark.parametrize("profile", PROFILES)
def test_selectors_find_their_pods_and_no_others(profile):
    objects = rendered(profile)
    pods = {
        component(one): pod_of(one)[0]["labels"]
        for one in of_kind(objects, "StatefulSet", "Deployment")
    }
    # Spark makes these pods, from a template.
    for one in of_kind(objects, "ConfigMap"):
        if "executor.yaml" in one["data"]:
            template = yaml.safe_load(one["data"]["executor.yaml"])
            pods["spark-executor"] = template["metadata"]["labels"]
    for thing in of_kind(objects, "StatefulSet", "Deployment"):
        assert selects(thing["spec"]["selector"]["matchLabels"], pods[component(thing)])
    selectors = [
        *(
            one["spec"]["selector"]["matchLabels"]
            for one in of_kind(objects, "PodDisruptionBudget")
        ),
        *(one["spec"]["podSelector"]["matchLabels"] for one in of_kind(objects, "NetworkPolicy")),
        *(
            {
                name: value
                for name, value in one["spec"]["selector"].items()
                if name != "statefulset.kubernetes.io/pod-name"
            }
            for one in of_kind(objects, "Service")
        ),
    ]
    for selector in selectors:
        assert len([one for one in pods.values() if selects(selector, one)]) == 1, selector
    assert {component(one) for one in of_kind(objects, "PodDisruptionBudget")} == set(ROLES)


@pytest.mark.parametrize("profile", PROFILES)
def test_services_lead_to_ports_that_their_pods_have(profile):
    objects = rendered(profile)
    for service in of_kind(objects, "Service"):
        _, pod = pod_of(role_of(objects, component(service)))
        names = {port["name"] for one in pod["containers"] for port in one["ports"]}
        assert {port["targetPort"] for port in service["spec"]["ports"]} <= names


@pytest.mark.parametrize("profile", PROFILES)
def test_every_stateful_set_has_its_headless_service(profile):
    objects = rendered(profile)
    services = {one["metadata"]["name"]: one for one in of_kind(objects, "Service")}
    for thing in of_kind(objects, "StatefulSet"):
        assert thing["spec"]["serviceName"] in services
        if component(thing) in ROLES:
            headless = services[thing["spec"]["serviceName"]]["spec"]
            assert headless["clusterIP"] == "None"
            assert headless["publishNotReadyAddresses"] is True


def test_node_ids_are_the_numbers_in_the_names_of_pods():
    starts = {}
    for role in ("controller", "storage", "coordinator", "listener"):
        thing = role_of(rendered("default"), role)
        starts[role] = thing["spec"]["ordinals"]["start"]
        assert thing["spec"]["podManagementPolicy"] == "Parallel"
        node_id = named(container_of([thing], role)["env"], "ONCELOG_NODE_NODE_ID")
        label = "metadata.labels['apps.kubernetes.io/pod-index']"
        assert node_id["valueFrom"]["fieldRef"]["fieldPath"] == label
    assert starts == {"controller": 1, "storage": 101, "coordinator": 201, "listener": 301}


def test_a_listener_for_each_door_of_clients_outside():
    objects = rendered("balancers")
    doors = [
        one["spec"]
        for one in of_kind(objects, "Service")
        if one["spec"].get("type") == "LoadBalancer"
    ]
    assert [one["selector"]["statefulset.kubernetes.io/pod-name"] for one in doors] == [
        "log-oncelog-listener-301",
        "log-oncelog-listener-302",
    ]
    assert [one["loadBalancerIP"] for one in doors] == ["192.0.2.1", "192.0.2.2"]


def test_a_job_runs_in_the_image_that_has_its_command():
    """The tools have the command and no database driver; the images of roles have no command."""
    made = helm(4, "template", "log", str(CHART), "--is-upgrade").stdout
    seen = {}
    for one in yaml.safe_load_all(made):
        if one and (one["kind"] == "Job" or one["metadata"]["name"].endswith("-test")):
            pod = one["spec"]["template"]["spec"] if one["kind"] == "Job" else one["spec"]
            for container in pod["containers"]:
                image = container["image"].rpartition("/")[2].partition(":")[0]
                seen[container["name"]] = (image, " ".join(container["command"])[:28])
    assert seen.pop("migrate") == ("controller", "python -m oncelog_controller")
    assert seen
    for image, command in seen.values():
        assert image == "tools"
        assert command.startswith(("oncelog ", "sh ", "python -m oncelog_server."))


def test_settings_of_a_role_restart_that_role_alone():
    def checksum(objects, role):
        return pod_of(role_of(objects, role))[0]["annotations"]["checksum/settings"]

    before, after = rendered("default"), made_with("config.storage.flush_policy=always")
    assert [one for one in ROLES if checksum(after, one) != checksum(before, one)] == ["storage"]


@pytest.mark.parametrize("major", MAJORS)
def test_an_older_charts_release_upgrades_with_its_values(major):
    """`helm upgrade --reuse-values` brings no value that the older chart did not have."""
    made = made_with("security=null", "tracing.collector=null", major=major)
    names = [(one["kind"], one["metadata"]["name"]) for one in made]
    assert names == [(one["kind"], one["metadata"]["name"]) for one in rendered("default")]


@pytest.mark.parametrize("role", ["controller", "storage", "coordinator", "listener"])
def test_a_node_has_time_before_the_next_one_stops(role):
    """Ready is before a storage node is in sync again, and before clients have come back to a listener."""
    assert role_of(rendered("default"), role)["spec"]["minReadySeconds"] >= 10


def test_a_new_version_of_the_chart_leaves_the_databases_alone(tmp_path):
    """An upgrade that ended Postgres beside the storage nodes let none of these hand over."""
    chart = tmp_path / "oncelog"
    shutil.copytree(CHART, chart)
    about = chart / "Chart.yaml"
    text = re.sub(r"(?m)^(version|appVersion): .*$", r"\1: 99.0.0", about.read_text())
    about.write_text(text)
    databases = (("StatefulSet", "-postgres"), ("Deployment", "-redis"))
    pods = [
        [the(objects, kind, name)["spec"]["template"] for kind, name in databases]
        for objects in (made_with(), made_with(chart=chart))
    ]
    assert pods[0] == pods[1]
