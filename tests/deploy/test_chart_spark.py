"""Spark in the chart: off by default; what is rendered is what Spark's own scheduler and its pods need, and no more."""

import pytest
import yaml
from tests.deploy.conftest import (
    component,
    named,
    of_kind,
    pod_of,
    refusal,
    rendered,
    the,
    variables,
    with_pods,
)

from oncelog_server.demo.pods import _parser

IMAGE = "oncelog/spark:0.2.0"


def driver_of(objects):
    return the(objects, "Deployment", of="spark-driver")


def conf_of(objects):
    """Spark's settings, and the template of executors where there is one."""
    found = the(objects, "ConfigMap", of="spark-driver")
    lines = found["data"]["spark-defaults.conf"].splitlines()
    pod = found["data"].get("executor.yaml")
    return dict(line.split(" ", 1) for line in lines), pod and yaml.safe_load(pod)


def container_of(objects):
    (found,) = pod_of(driver_of(objects))[1]["containers"]
    return found


def test_there_is_no_spark_by_default():
    assert not [one for one in rendered("default") if "spark" in component(one)]


def test_one_driver_runs_and_its_checkpoint_outlives_it():
    objects = rendered("spark-local")
    spec = driver_of(objects)["spec"]
    assert (spec["replicas"], spec["strategy"]) == (1, {"type": "Recreate"})
    _, pod = pod_of(driver_of(objects))
    claimed, claim = named(pod["volumes"], "checkpoint"), the(objects, "PersistentVolumeClaim")
    assert claimed["persistentVolumeClaim"]["claimName"] == claim["metadata"]["name"]
    assert claim["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}
    container = container_of(objects)
    mount = named(container["volumeMounts"], "checkpoint")
    checkpoint = container["args"][container["args"].index("--checkpoint") + 1]
    assert checkpoint.startswith(mount["mountPath"] + "/")


def test_a_local_driver_asks_kubernetes_for_nothing():
    objects = rendered("spark-local")
    assert {component(one) for one in of_kind(objects, "Role", "RoleBinding")} == {"jobs"}
    assert pod_of(driver_of(objects))[1]["automountServiceAccountToken"] is False
    conf, template = conf_of(objects)
    assert conf["spark.master"] == "local[2]"
    assert template is None


def test_executors_find_the_driver_where_it_listens():
    """At its pod's address: Spark 4 tells executors where the driver is bound, whatever its host is called."""
    objects = rendered("spark-executors")
    conf, _ = conf_of(objects)
    source = named(container_of(objects)["env"], "POD_IP")
    assert source["valueFrom"] == {"fieldRef": {"fieldPath": "status.podIP"}}
    submit = variables(container_of(objects))["PYSPARK_SUBMIT_ARGS"]
    assert "--conf spark.driver.host=$(POD_IP) " in submit
    assert "--conf spark.driver.bindAddress=$(POD_IP) " in submit
    assert not {"spark.driver.host", "spark.driver.bindAddress"} & set(conf)
    ports = {one["name"]: one["containerPort"] for one in container_of(objects)["ports"]}
    assert conf["spark.driver.port"] == str(ports["driver"])
    assert conf["spark.driver.blockManager.port"] == str(ports["blocks"])


def test_executors_are_locked_down_and_belong_to_the_driver():
    objects = rendered("spark-executors")
    conf, template = conf_of(objects)
    assert conf["spark.kubernetes.container.image"] == container_of(objects)["image"]
    assert conf["spark.kubernetes.container.image"] == f"registry.example.org/{IMAGE}"
    assert conf["spark.sql.shuffle.partitions"] == "8"
    submit = variables(container_of(objects))["PYSPARK_SUBMIT_ARGS"]
    assert "spark.kubernetes.driver.pod.name=$(POD_NAME)" in submit
    spec = template["spec"]
    assert spec["automountServiceAccountToken"] is False
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["imagePullSecrets"] == [{"name": "mine"}]
    assert spec["nodeSelector"] == {"disk": "ssd"}
    (executor,) = spec["containers"]
    assert executor["name"] == conf["spark.kubernetes.executor.podTemplateContainerName"]
    assert executor["securityContext"]["readOnlyRootFilesystem"] is True
    assert executor["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert template["metadata"]["labels"]["app.kubernetes.io/component"] == "spark-executor"
    # Spark mounts each local directory itself, and a pod with one twice is refused.
    assert "spark.local.dir" not in conf


def test_the_drivers_account_may_only_make_and_remove_pods():
    objects = rendered("spark-executors")
    role = the(objects, "Role", of="spark-driver")
    granted = {
        resource: set(rule["verbs"]) for rule in role["rules"] for resource in rule["resources"]
    }
    assert granted.pop("pods") >= {"create", "get", "list", "watch", "delete"}
    assert set(granted) == {"services", "configmaps", "persistentvolumeclaims"}
    assert all(not verbs & {"create", "get", "update", "patch"} for verbs in granted.values())
    binding = the(objects, "RoleBinding", of="spark-driver")
    account = pod_of(driver_of(objects))[1]["serviceAccountName"]
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": account, "namespace": "prod"}]
    others = [one for one in with_pods(objects) if component(one) != "spark-driver"]
    assert not [one for one in others if pod_of(one)[1].get("serviceAccountName") == account]


@pytest.mark.parametrize("profile", ["spark-local", "spark-executors"])
def test_every_part_of_the_demo_is_called_as_it_wants_to_be(profile):
    calls = [
        [*one.get("command", []), *one.get("args", [])]
        for thing in with_pods(rendered(profile))
        for one in (
            *pod_of(thing)[1]["containers"],
            *pod_of(thing)[1].get("initContainers", []),
        )
    ]
    ours = [one[3:] for one in calls if one[1:3] == ["-m", "oncelog_server.demo.pods"]]
    parts = {_parser().parse_args(one).part for one in ours}
    sends = {"send", "prove"} if profile == "spark-local" else set()
    assert parts == {"topics", "pipeline"} | sends


def test_a_program_of_ones_own_runs_without_the_demos_topics():
    objects = rendered("spark-own")
    _, pod = pod_of(driver_of(objects))
    assert "initContainers" not in pod
    container = container_of(objects)
    assert container["args"] == ["python", "/app/main.py"]
    assert {"name": "app", "mountPath": "/app", "readOnly": True} in container["volumeMounts"]
    assert variables(container)["ONCELOG_CHECKPOINT"] == "s3a://bucket/ledger"
    assert of_kind(objects, "PersistentVolumeClaim") == []


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (["spark.mode=yarn"], "must be one of 'local', 'executors'"),
        (["spark.executor.instances=0"], "instances"),
        (["spark.driver.memory=1Gi"], "memory"),
        (["spark.conf.shuffle=8"], "shuffle"),
        (["spark.command={python,a.py}", "spark.payments.rows=5"], "set rows to 0"),
        (["spark.checkpont.uri=x"], "checkpont"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_by_name(values, message):
    assert message in refusal("spark.enabled=true", *values)
