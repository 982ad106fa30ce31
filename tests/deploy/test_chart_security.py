"""A secured release: who proves what to whom, where certificates come from, and what cannot be."""

import re

import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID
from tests.certificates import Authority
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
    with_pods,
)
from tests.worlds.deploy.namespace import Namespace

from oncelog.security.pki import CLUSTER_NAME, make_authority, make_certificate
from oncelog.security.ssl_principal import PrincipalRules
from oncelog_listener.core.endpoints import SecurityProtocol
from oncelog_listener.settings import ListenerSettings
from oncelog_server import release_secrets

SECURED = ("secured", "secured-ssl", "secured-given")


def secret_of(thing, volume="tls"):
    """The Secret of a pod's volume."""
    return named(pod_of(thing)[1]["volumes"], volume)["secret"]


def secured_with(*values):
    return made_with("security.enabled=true", *values)


def secrets_options(objects):
    """What the Job that makes Secrets is told."""
    (container,) = pod_of(secrets_job(objects))[1]["containers"]
    assert container["command"] == ["python", "-m", "oncelog_server.release_secrets"]
    return release_secrets.parser().parse_args(container["args"])


def made_by(job_options):
    """The Secrets that it makes."""
    namespace = Namespace()
    release_secrets.keep_passwords(namespace, job_options.password, job_options.text)
    return {
        name: {key: value.decode() for key, value in data.items()}
        for name, data in namespace.items()
    }


def admin_of(objects):
    """What the administrator's Secret holds."""
    return made_by(secrets_options(objects))["log-oncelog-admin"]


def listener_settings(objects, monkeypatch):
    for name, value in variables(container_of(objects, "listener")).items():
        monkeypatch.setenv(name, value.replace("$(POD_NAME)", "log-oncelog-listener-301"))
    return ListenerSettings()


def secrets_job(objects):
    return the(objects, "Job", "log-oncelog-secrets")


@pytest.mark.parametrize("profile", SECURED)
@pytest.mark.parametrize("role", ROLES)
def test_every_process_has_a_certificate_of_its_role(profile, role):
    thing = role_of(rendered(profile), role)
    prefix = "mine" if profile == "secured-given" else "log-oncelog"
    secret = secret_of(thing)
    assert secret["secretName"] == f"{prefix}-{role}-tls"
    # Its group alone reads the key.
    assert secret["defaultMode"] == 0o440
    container = container_of(rendered(profile), role)
    mount = named(container["volumeMounts"], "tls")
    given = variables(container)
    for name, file in (("CERTIFICATE", "tls.crt"), ("KEY", "tls.key"), ("CA", "ca.crt")):
        assert given[f"ONCELOG_NODE_TLS_{name}_FILE"] == f"{mount['mountPath']}/{file}"


@pytest.mark.parametrize("role", ROLES)
def test_probes_of_a_secured_process_need_no_tls(role):
    container = container_of(rendered("secured"), role)
    port = named(container["ports"], "metrics")
    assert variables(container)["ONCELOG_PROCESS_METRICS_PORT"] == str(port["containerPort"])
    for probe, path in (
        ("startupProbe", "/health"),
        ("livenessProbe", "/health"),
        ("readinessProbe", "/ready"),
    ):
        assert container[probe]["httpGet"] == {"port": "metrics", "path": path}
        assert "grpc" not in container[probe]


def test_an_open_release_has_no_certificate_and_no_user():
    objects = rendered("default")
    assert not [one for one in objects if one["metadata"]["name"].endswith(("-admin", "-tls"))]
    assert not [one for one in with_pods(objects) if "tls" in str(pod_of(one)[1]["volumes"])]


@pytest.mark.parametrize(("profile", "protocol"), [("secured", "SASL_SSL"), ("secured-ssl", "SSL")])
def test_clients_must_prove_who_they_are(profile, protocol, monkeypatch):
    settings = listener_settings(rendered(profile), monkeypatch)
    assert {one.protocol for one in settings.endpoints} == {SecurityProtocol[protocol]}
    assert settings.ssl_client_auth == ("required" if protocol == "SSL" else "none")
    rules = settings.authorizer_rules
    assert rules is not None
    assert rules.super_users == {"User:admin"}
    assert not rules.allow_everyone_if_no_acl_found


SOURCES = {
    "development": [],
    "certManager": ["security.certificates.issuer.name=ca"],
    "given": ["security.certificates.secretPrefix=mine"],
}
"""Where certificates come from, with what each needs."""


def certificates_of_admin(source, folder):
    """What may say that a client is the administrator, in DER."""
    if source == "development":
        make_authority(folder)
        made = make_certificate(folder, "admin", ["admin"], days=1)
        pem = made.certificate.read_bytes()
        return [x509.load_pem_x509_certificate(pem).public_bytes(Encoding.DER)]
    admin = x509.NameAttribute(NameOID.COMMON_NAME, "admin")
    unit = x509.NameAttribute(NameOID.ORGANIZATIONAL_UNIT_NAME, "a, b")
    company = x509.NameAttribute(NameOID.ORGANIZATION_NAME, "c")
    # cert-manager's has what the Certificate asks for; one of ones own has other parts too, in any order.
    names = (
        [[admin]] if source == "certManager" else [[company, unit, admin], [admin, unit, company]]
    )
    authority = Authority(folder)
    return [authority.certificate_of(x509.Name(one)) for one in names]


@pytest.mark.parametrize("protocol", ["SSL", "SASL_SSL"])
@pytest.mark.parametrize("source", SOURCES)
def test_the_administrator_is_one_however_it_proves_it(source, protocol, monkeypatch, tmp_path):
    given = [f"security.certificates.source={source}", *SOURCES[source]]
    objects = secured_with(f"security.clients.protocol={protocol}", *given)
    settings = listener_settings(objects, monkeypatch)
    assert settings.authorizer_rules.super_users == {"User:admin"}
    said = admin_of(objects)["client.properties"]
    assert f"security.protocol={protocol}" in said
    if protocol == "SASL_SSL":
        assert 'username="admin"' in said
        return
    rules = PrincipalRules(settings.ssl_principal_mapping_rules)
    for certificate in certificates_of_admin(source, tmp_path):
        assert str(rules.principal_of(certificate)) == "User:admin"


@pytest.mark.parametrize(
    "subject",
    [
        r"O=x\,CN=admin",
        r"CN=mallory,O=x\,CN=admin",
        r"O=x\,CN=admin,CN=mallory",
        "O=x+CN=admin",
        "O=CN=admin",
        "CN=mallory,CN=admin",
        "CN=admin2",
    ],
)
def test_no_other_name_is_the_administrators(subject, monkeypatch):
    settings = listener_settings(rendered("secured-ssl"), monkeypatch)
    rules = PrincipalRules(settings.ssl_principal_mapping_rules)
    assert rules.name_of(subject) in {subject, "mallory", "admin2"}


def test_clients_are_told_names_that_the_certificate_has(monkeypatch):
    settings = listener_settings(rendered("secured"), monkeypatch)
    host, port = settings.advertised[settings.endpoints[0].name]
    assert host == "log-oncelog-listener-301-clients.prod.svc.cluster.local"
    assert port == settings.endpoints[0].port
    (listener,) = [one for one in wanted_of("secured") if one.name == "listener"]
    assert {host, host.replace("301", "302")} <= set(listener.hosts)
    assert "*.log-oncelog-listener-nodes.prod.svc.cluster.local" in listener.hosts
    assert "log-oncelog-listener.prod.svc.cluster.local" in listener.hosts


def wanted_of(profile):
    options = secrets_options(rendered(profile))
    assert (options.namespace, options.prefix, options.days) == ("prod", "log-oncelog", 365)
    return options.identity


def test_the_job_makes_the_certificates_that_pods_mount():
    objects = rendered("secured")
    made = {f"log-oncelog-{one.name}-tls" for one in wanted_of("secured")}
    mounted = {
        one["secret"]["secretName"]
        for thing in with_pods(objects)
        for one in pod_of(thing)[1].get("volumes", [])
        if one["name"] == "tls"
    }
    assert mounted == made
    for one in wanted_of("secured"):
        if one.name in ROLES:
            assert {f"{one.name}.{CLUSTER_NAME}", CLUSTER_NAME} <= set(one.hosts)


def test_the_job_may_write_its_secrets_and_no_others():
    objects = rendered("secured")
    role = the(objects, "Role")
    create, change = role["rules"]
    assert create["verbs"] == ["create"]
    assert change["verbs"] == ["get", "patch"]
    names = ["ca", *(f"{one.name}-tls" for one in wanted_of("secured"))]
    names += ["admin", "metrics", "postgres", "redis"]
    expected = {f"log-oncelog-{one}" for one in names}
    assert set(change["resourceNames"]) == expected
    job = secrets_job(objects)
    binding = the(objects, "RoleBinding")
    account = pod_of(job)[1]["serviceAccountName"]
    assert [one["name"] for one in binding["subjects"]] == [account]
    others = [one for one in with_pods(objects) if one is not job]
    assert account not in {pod_of(one)[1].get("serviceAccountName") for one in others}
    # It is there before the Job, and the certificates before whatever else runs at an installation.
    weights = {
        one["kind"]: int(one["metadata"]["annotations"]["helm.sh/hook-weight"])
        for one in (role, binding, job)
    }
    assert max(weights["Role"], weights["RoleBinding"]) < weights["Job"] < -10


def test_cert_manager_is_asked_for_the_same():
    objects = rendered("secured-ssl")
    found = {one["spec"]["secretName"]: one["spec"] for one in of_kind(objects, "Certificate")}
    assert set(found) == {f"log-oncelog-{name}-tls" for name in (*ROLES, "postgres", "admin")}
    for spec in found.values():
        assert spec["issuerRef"] == {"name": "ca", "kind": "Issuer", "group": "cert-manager.io"}
        assert {"server auth", "client auth"} <= set(spec["usages"])
        assert spec["duration"] == "8760h"
    names = found["log-oncelog-storage-tls"]["dnsNames"]
    assert names == [f"storage.{CLUSTER_NAME}", CLUSTER_NAME]
    assert not secrets_options(objects).identity


def test_given_secrets_are_taken_as_they_are():
    objects = rendered("secured-given")
    assert of_kind(objects, "Certificate") == []
    assert set(made_by(secrets_options(objects))) == {"log-oncelog-admin", "log-oncelog-metrics"}
    assert not secrets_options(objects).identity


def test_the_bundled_databases_are_reached_by_tls_alone():
    objects = rendered("secured")
    url = variables(container_of(objects, "controller"))["ONCELOG_CONTROLLER_DATABASE_URL"]
    assert url.endswith("/oncelog?sslmode=verify-full&sslrootcert=/etc/oncelog-tls/ca.crt")
    postgres = container_of(objects, "postgres")
    assert "--ssl=on" in postgres["args"]
    (access,) = [one for one in of_kind(objects, "ConfigMap") if "pg_hba.conf" in one["data"]]
    rules = access["data"]["pg_hba.conf"].split("\n")
    assert [one.split()[0] for one in rules if one] == ["local", "hostssl"]
    feed = variables(container_of(objects, "storage"))["ONCELOG_STORAGE_REDIS_URL"]
    assert feed.startswith("rediss://")
    assert feed.endswith("?ssl_ca_certs=/etc/oncelog-tls/ca.crt")
    (script,) = container_of(objects, "redis")["args"]
    assert {"port 0", "tls-port 6379"} <= set(map(str.strip, script.split("\n")))


def test_the_migration_reaches_the_database_as_a_controller_does():
    objects = made_with(("--is-upgrade",), ("-f", str(CHART / "values-secured.yaml")))
    job = the(objects, "Job", "-migrate")
    assert secret_of(job)["secretName"] == "log-oncelog-controller-tls"
    (container,) = pod_of(job)[1]["containers"]
    assert {"tls", "tmp"} == {one["name"] for one in container["volumeMounts"]}


def test_admin_logs_in_with_the_password_that_controllers_know():
    objects = rendered("secured")
    admin = admin_of(objects)
    said = admin["client.properties"]
    assert f'username="admin" password="{admin["password"]}";' in said
    assert "security.protocol=SASL_SSL" in said
    job = the(objects, "Job", "-users")
    assert named(pod_of(job)[1]["volumes"], "users")["projected"]["sources"] == [
        {"secret": {"name": "log-oncelog-admin", "items": [{"key": "password", "path": "admin"}]}}
    ]
    # Only a listener may change users, and the controllers let it in.
    assert secret_of(job)["secretName"] == "log-oncelog-listener-tls"
    policy = the(objects, "NetworkPolicy", of="controller")
    assert "jobs" in str(policy["spec"]["ingress"][0])


def test_users_are_told_while_helm_waits_for_pods():
    jobs = [
        one for one in of_kind(rendered("secured"), "Job") if "-users" in one["metadata"]["name"]
    ]
    behind, beside = sorted(jobs, key=lambda one: one["metadata"]["name"])
    assert "annotations" not in beside["metadata"]
    assert behind["metadata"]["annotations"]["helm.sh/hook"] == "post-install,post-upgrade"
    assert beside["spec"] == behind["spec"]


@pytest.mark.parametrize("profile", SECURED)
def test_the_test_pod_logs_in_with_files_that_it_has(profile):
    pod = the(rendered(profile), "Pod")["spec"]
    (container,) = pod["containers"]
    mount, volume = named(container["volumeMounts"], "client"), named(pod["volumes"], "client")
    there = {
        f"{mount['mountPath']}/{item['path']}"
        for source in volume["projected"]["sources"]
        for item in source["secret"]["items"]
    }
    assert variables(container)["ONCELOG_CLIENT_CONFIG"] in there
    paths = re.findall(r"location=(\S+)", admin_of(rendered(profile))["client.properties"])
    assert paths
    assert set(paths) <= there


def test_rest_asks_for_a_token_and_the_releases_own_jobs_have_it():
    objects = rendered("secured")
    gateway = container_of(objects, "gateway")
    given = variables(gateway)
    assert given["ONCELOG_GATEWAY_AUTHENTICATION"] == "required"
    secret = secret_of(role_of(objects, "gateway"), "token")
    mount = named(gateway["volumeMounts"], "token")
    (item,) = secret["items"]
    assert secret["secretName"] == "log-oncelog-admin"
    assert given["ONCELOG_GATEWAY_ADMIN_TOKEN_FILE"] == f"{mount['mountPath']}/{item['path']}"
    admin = admin_of(objects)
    assert len(admin["token"]) == 32
    assert admin["token"] != admin["password"]
    asking = [
        container
        for thing in with_pods(objects)
        for container in pod_of(thing)[1]["containers"]
        if "ONCELOG_GATEWAY" in variables(container)
    ]
    assert len(asking) > 2
    for container in asking:
        reference = named(container["env"], "ONCELOG_TOKEN")["valueFrom"]["secretKeyRef"]
        assert reference == {"name": "log-oncelog-admin", "key": item["key"]}


def test_prometheus_shows_the_gateway_a_token():
    made = secured_with("metrics.serviceMonitor.enabled=true")
    (endpoint,) = the(made, "ServiceMonitor")["spec"]["endpoints"]
    assert endpoint["authorization"]["credentials"] == {
        "name": "log-oncelog-admin", "key": "token"
    }  # fmt: skip


def test_metrics_of_every_process_want_a_token_of_their_own():
    objects = secured_with("metrics.serviceMonitor.enabled=true")
    (endpoint,) = the(objects, "PodMonitor")["spec"]["podMetricsEndpoints"]
    shown = endpoint["authorization"]["credentials"]
    assert shown == {"name": "log-oncelog-metrics", "key": "token"}
    kept = made_by(secrets_options(objects))
    token = kept["log-oncelog-metrics"]["token"]
    assert len(token) == 32
    assert token not in kept["log-oncelog-admin"].values()
    for role in ROLES:
        file = variables(container_of(objects, role))["ONCELOG_PROCESS_METRICS_TOKEN_FILE"]
        secret = secret_of(role_of(objects, role), "metrics-token")
        assert (secret["secretName"], file) == (shown["name"], "/etc/oncelog-metrics/token")


def test_a_token_of_ones_own_takes_the_place_of_the_made_one():
    objects = secured_with("metrics.tokenSecret=scrape", "metrics.serviceMonitor.enabled=true")
    assert "log-oncelog-metrics" not in str(objects)
    for role in ROLES:
        assert secret_of(role_of(objects, role), "metrics-token")["secretName"] == "scrape"


def test_users_of_ones_own_are_told_too():
    assert "{'secret': {'name': 'people'}}" in str(
        secured_with("security.clients.usersSecret=people")
    )


def logging_in(*values):
    """The pods of Spark and of chaos: how each container finds its login, and the volume that it is in."""
    spark = ("spark.enabled=true", "spark.mode=executors", "spark.payments.rows=9")
    objects = secured_with(*spark, "chaos.job.enabled=true", *values)
    (conf,) = [one for one in of_kind(objects, "ConfigMap") if "executor.yaml" in one["data"]]
    executor = yaml.safe_load(conf["data"]["executor.yaml"])["spec"]
    found = {"spark-executor": executor}
    for one in with_pods(objects):
        if (
            component(one) in ("spark-driver", "payments", "chaos")
            or "payments" in one["metadata"]["name"]
        ):
            found[one["metadata"]["name"].removeprefix("log-oncelog-")] = pod_of(one)[1]
    return found


def login_volume(pod):
    return named(pod["volumes"], "client")


def containers(pod):
    return (*pod["containers"], *pod.get("initContainers", ()))


def test_spark_and_chaos_log_in_as_the_administrator():
    pods = logging_in()
    assert set(pods) == {"spark", "spark-executor", "payments-1", "test-payments", "chaos-1"}
    for pod in pods.values():
        secrets = [one["secret"]["name"] for one in login_volume(pod)["projected"]["sources"]]
        assert secrets == ["log-oncelog-admin", "log-oncelog-listener-tls"]
        for container in containers(pod):
            mounts = {one["name"]: one["mountPath"] for one in container["volumeMounts"]}
            assert mounts["client"] == "/etc/oncelog-client"


def test_each_program_of_spark_and_chaos_is_told_its_login():
    pods = logging_in()
    login = "/etc/oncelog-client/client.properties"
    (chaos,) = pods.pop("chaos-1")["containers"]
    assert chaos["args"][chaos["args"].index("--config") + 1] == login
    # Executors get theirs in the options of the query, from the driver.
    del pods["spark-executor"]
    for pod in pods.values():
        for container in containers(pod):
            assert variables(container)["ONCELOG_CLIENT_CONFIG"] == login
            assert "ONCELOG_TOKEN" not in variables(container), "that is the administrator's"


def test_spark_is_the_user_of_a_given_secret():
    pods = logging_in("spark.clientConfigSecret=etl")
    for name, pod in pods.items():
        expected = None if name == "chaos-1" else "etl"
        assert login_volume(pod).get("secret", {}).get("secretName") == expected


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (["security.certificates.source=certManager"], "security.certificates.issuer.name"),
        (["security.certificates.source=magic"], "source"),
        (["security.certificates.secretPrefix=mine"], "security.certificates.source=given"),
        (["security.clients.protocol=PLAINTEXT"], "protocol"),
        (["security.clients.superUsers={User:ann}"], "superUsers"),
        (["listener.external.enabled=true"], "listener.external.hosts"),
        (["config.node.tls_ca_file=/x"], "tls_ca_file"),
    ],
)
def test_what_cannot_be_is_refused_by_name(values, message):
    assert message in refusal("security.enabled=true", *values)
