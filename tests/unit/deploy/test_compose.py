"""docker/compose.yaml holds to the settings, the plan of a cluster and the images. Nothing here needs an engine."""

import importlib
import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml

from oncelog.process.arguments import SettingsParser
from oncelog.process.role_program import RoleProgram
from oncelog.process.run import ProcessSettings
from oncelog.rpc.node_settings import NodeSettings
from oncelog_controller.settings import ControllerSettings
from oncelog_coordinator.settings import CoordinatorSettings
from oncelog_gateway.settings import GatewaySettings
from oncelog_listener.settings import ListenerSettings
from oncelog_server.cluster import databases
from oncelog_server.cluster.plan import ROLES, ClusterShape
from oncelog_storage.settings import StorageSettings

ROOT = Path(__file__).resolve().parents[3]
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
EXAMPLE = dict(
    line.split("=", 1)
    for line in (ROOT / "docker/env.example").read_text().splitlines()
    if line and not line.startswith("#")
)
SAID = EXAMPLE | {"POSTGRES_PASSWORD": "pg1", "REDIS_PASSWORD": "rd1"}
ROLE_OF = {role.role: role for role in ROLES}


def substituted(text, said):
    """`${NAME:-default}` and `${NAME:?why}` as compose reads them; `$$` is left alone."""

    def value(match):
        name, kind, rest = match.groups()
        found = said.get(name) or (rest if kind == ":-" else "")
        assert found or kind == ":-", f"{name}: {rest}"
        return found

    return re.sub(r"(?<!\$)\$\{(\w+)(?:(:-|:\?)([^}]*))?\}", value, text)


TEXT = (ROOT / "docker/compose.yaml").read_text()
COMPOSE = yaml.safe_load(substituted(TEXT, SAID))
SERVICES = COMPOSE["services"]
PROCESSES = {
    name: service for name, service in SERVICES.items() if re.sub(r"-\d+$", "", name) in ROLE_OF
}


def role_of(name):
    return ROLE_OF[re.sub(r"-\d+$", "", name)]


def seconds(text):
    number, unit = re.fullmatch(r"(\d+)(s|m)", text).groups()
    return int(number) * {"s": 1, "m": 60}[unit]


@pytest.fixture
def settings_of(monkeypatch):
    """What the process in a container reads from its environment. Raises for a name or a value that cannot be."""

    def read(name):
        for variable in list(os.environ):
            if variable.upper().startswith("ONCELOG_"):
                monkeypatch.delenv(variable)
        for variable, value in SERVICES[name]["environment"].items():
            monkeypatch.setenv(variable, str(value))
        program = importlib.import_module(f"{role_of(name).module}.__main__").PROGRAM
        program = program.program if isinstance(program, RoleProgram) else program
        kinds = [*program.settings, ProcessSettings]
        found = SettingsParser(program.module, program.summary, kinds, program.derived).read([])
        (node,) = (one for kind, one in found.items() if issubclass(kind, NodeSettings))
        return {**found, NodeSettings: node}

    return read


def test_there_is_a_process_for_each_of_a_cluster():
    expected = {role.role: count for role, count in ClusterShape().counts()}
    names = [role_of(name).role for name in PROCESSES]
    assert {role: names.count(role) for role in expected} == expected


@pytest.mark.parametrize("name", PROCESSES)
def test_the_environment_is_settings_that_the_process_reads(name, settings_of):
    read = settings_of(name)
    node = read[NodeSettings]
    index = int((re.search(r"-(\d+)$", name) or ["", "1"])[1])
    assert node.node_id == role_of(name).first_node_id + index - 1
    assert (node.host, node.advertised_address) == ("0.0.0.0", f"{name}:{node.port}")
    controllers = [one for one in PROCESSES if role_of(one).role == "controller"]
    assert sorted(node.controller_addresses) == sorted(f"{one}:{node.port}" for one in controllers)
    every = " ".join(str(value) for value in SERVICES[name]["environment"].values())
    for host in re.findall(r"@([\w-]+):", every):
        assert host in SERVICES


@pytest.mark.parametrize("name", PROCESSES)
def test_an_image_is_that_of_the_role_and_of_this_version(name):
    assert SERVICES[name]["image"] == f"oncelog/{role_of(name).role}:{VERSION}"
    assert f"/{role_of(name).role}:${{TAG:-{VERSION}}}" in TEXT


@pytest.mark.parametrize("name", PROCESSES)
def test_there_is_time_for_a_drain_and_a_stop(name, settings_of):
    read = settings_of(name)
    needed_ms = read[ProcessSettings].drain_timeout_ms
    for kind, setting in (
        (StorageSettings, "stop_timeout_ms"),
        (ListenerSettings, "stop_grace_ms"),
        (GatewaySettings, "shutdown_timeout_ms"),
    ):
        if kind in read:
            needed_ms += getattr(read[kind], setting)
    assert seconds(SERVICES[name]["stop_grace_period"]) * 1000 > needed_ms


@pytest.mark.parametrize("name", PROCESSES)
def test_health_is_what_the_process_says_of_itself(name):
    assert SERVICES[name]["healthcheck"]["test"] == ["CMD", "python", "-m", "oncelog.rpc.probe"]


@pytest.mark.parametrize("name", SERVICES)
def test_a_container_may_do_as_little_as_can_be(name):
    service = SERVICES[name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert "privileged" not in service


@pytest.mark.parametrize("name", SERVICES)
def test_nothing_is_open_to_the_network_before_somebody_says_so(name):
    for port in SERVICES[name].get("ports", []):
        assert port.startswith("127.0.0.1:")


def test_every_listener_tells_clients_what_they_reach(settings_of):
    published = {}
    for name in PROCESSES:
        if role_of(name).role != "listener":
            continue
        read = settings_of(name)
        listener = read[ListenerSettings]
        assert (listener.advertised_host, listener.port) == (name, 9092)
        (port,) = SERVICES[name]["ports"]
        address, on_machine, inside = port.split(":")
        assert (address, int(inside)) == ("127.0.0.1", listener.external_port)
        published[read[NodeSettings].node_id] = ("localhost", int(on_machine))
    assert dict(listener.external_addresses) == published
    assert [port for _, port in published.values()] == [9092, 9093]


def test_what_lasts_is_on_volumes(settings_of):
    for name in PROCESSES:
        read = settings_of(name)
        paths = []
        if StorageSettings in read:
            paths.append(read[StorageSettings].data_dir)
        if GatewaySettings in read:
            paths.append(read[GatewaySettings].audit_path)
        for path in paths:
            mounts = [one.split(":") for one in SERVICES[name]["volumes"]]
            assert any(Path(path).is_relative_to(target) for _, target in mounts), path
            assert all(volume in COMPOSE["volumes"] for volume, _ in mounts)


def test_the_databases_ask_for_the_passwords_that_processes_give(settings_of):
    controller = settings_of("controller-1")[ControllerSettings]
    postgres = SERVICES["postgres"]["environment"]
    assert controller.database_url == (
        f"postgresql+psycopg://{postgres['POSTGRES_USER']}:{postgres['POSTGRES_PASSWORD']}"
        f"@postgres:5432/{postgres['POSTGRES_DB']}"
    )
    redis_url = f"redis://:{SERVICES['redis']['environment']['REDISCLI_AUTH']}@redis:6379/0"
    assert settings_of("storage-1")[StorageSettings].redis_url == redis_url
    assert settings_of("coordinator-1")[CoordinatorSettings].redis_url == redis_url


def test_three_storage_nodes_come_before_internal_topics(settings_of):
    count = sum(role_of(name).role == "storage" for name in PROCESSES)
    controller = settings_of("controller-1")[ControllerSettings]
    assert controller.bootstrap_storage_nodes == count


def test_the_trace_profile_has_a_collector_and_its_viewer():
    traced = {name: one for name, one in SERVICES.items() if one.get("profiles") == ["trace"]}
    assert set(traced) == {"collector", "trace-viewer"}
    (mount,) = traced["collector"]["volumes"]
    config = yaml.safe_load((ROOT / "docker" / mount.split(":")[0]).read_text())
    assert f"--config={mount.split(':')[1]}" in traced["collector"]["command"]
    # Every name that the configuration takes from its environment is given, and leads to the viewer.
    given = traced["collector"]["environment"]
    assert set(re.findall(r"\$\{env:(\w+)\}", str(config))) == set(given)
    assert given["SPANS_TO"].split(":")[0] in traced
    (pipeline,) = config["service"]["pipelines"].values()
    for part, names in pipeline.items():
        assert set(names) <= set(config[part])
    # Processes do not send before somebody says so.
    assert SERVICES["storage-1"]["environment"]["OTEL_EXPORTER_OTLP_ENDPOINT"] == ""


def test_redis_refuses_the_same_commands_as_in_a_cluster():
    off = re.findall(r'^rename-command (\w+) ""$', (ROOT / "docker/redis.conf").read_text(), re.M)
    assert sorted(off) == sorted(databases.COMMANDS_OFF)


def test_a_password_that_was_not_given_is_an_error():
    for name in ("POSTGRES_PASSWORD", "REDIS_PASSWORD"):
        with pytest.raises(AssertionError, match="make compose-env"):
            substituted(TEXT, SAID | {name: ""})


def test_every_name_of_the_environment_file_is_read():
    assert set(EXAMPLE) == set(re.findall(r"(?<!\$)\$\{(\w+)", TEXT))
    assert EXAMPLE["TAG"] == VERSION


def test_passwords_are_made_once(tmp_path):
    for folder in ("docker", "scripts"):
        (tmp_path / folder).mkdir()
    for name in ("docker/env.example", "scripts/compose_env.sh"):
        shutil.copy(ROOT / name, tmp_path / name)
    command = ["bash", tmp_path / "scripts/compose_env.sh"]
    subprocess.run(command, check=True, capture_output=True)
    file = tmp_path / "docker/.env"
    first = file.read_text()
    assert len(set(re.findall(r"^\w+_PASSWORD=([0-9a-f]{32})$", first, re.MULTILINE))) == 2
    assert file.stat().st_mode & 0o077 == 0
    subprocess.run(command, check=True, capture_output=True)
    assert file.read_text() == first
