"""Which containers a cluster of containers has, and what each is told."""

import pytest
import yaml
from oncelog_robustness.chaos.containers.fleet import mac_of
from oncelog_robustness.chaos.containers.plan import (
    COUNTS,
    MACHINE_COUNT,
    SUBNET,
    SUBNET_VARIABLE,
    Images,
    plan_containers,
)
from oncelog_robustness.chaos.plan import CONTAINER_DECKS, LASTS_MS, role_of

from oncelog.errors import OncelogError
from oncelog_server.cluster.plan import ROLES

PASSWORDS = {"postgres": "p" * 32, "redis": "r" * 32}


def planned(subnet=SUBNET):
    return plan_containers(subnet, Images(tag="1.2.3"), PASSWORDS)


def test_every_role_has_its_containers_with_own_addresses():
    containers = planned()
    for role, count in COUNTS.items():
        assert sum(one.role == role.role for one in containers) == count
    assert len({one.address for one in containers}) == len(containers)
    assert len({one.name for one in containers}) == len(containers)
    ids = [one.environment.get("ONCELOG_NODE_NODE_ID", one.name) for one in containers]
    assert len(set(ids)) == len(ids)


def test_a_machine_has_no_two_containers_of_a_role():
    for machine in range(1, MACHINE_COUNT + 1):
        roles = [one.role for one in planned() if one.machine == machine]
        assert roles
        assert len(set(roles)) == len(roles)


def test_postgres_and_redis_are_on_no_machine():
    assert {one.name for one in planned() if one.machine == 0} == {"postgres", "redis"}


def test_each_process_says_where_others_find_it():
    processes = [one for one in planned() if one.machine]
    controllers = [f"{one.address}:9090" for one in processes if one.role == "controller"]
    for one in processes:
        assert one.environment["ONCELOG_NODE_ADVERTISED_ADDRESS"] == f"{one.address}:9090"
        assert one.environment["ONCELOG_NODE_CONTROLLERS"].split(",") == controllers


def test_what_a_container_is_told_is_what_compose_tells_it():
    with open("docker/compose.yaml") as file:
        services = yaml.safe_load(file)["services"]
    differs = {
        # Compose has names and ports of the machine, where these have addresses.
        "ONCELOG_LISTENER_EXTERNAL_PORT",
        "ONCELOG_LISTENER_EXTERNAL_ADVERTISED",
        # A cluster of one's own has a trace viewer; one that is broken on purpose has none.
        "OTEL_EXPORTER_OTLP_ENDPOINT",
        "OTEL_TRACES_SAMPLER",
        "OTEL_TRACES_SAMPLER_ARG",
    }
    for one in planned():
        service = services.get(one.name) or services[one.role]
        if one.machine:
            assert set(one.environment) == set(service["environment"]) - differs, one.name
        assert bool(one.volume) == any(":/etc" not in v for v in service.get("volumes", ())), (
            one.name
        )
        assert list(one.tmpfs) == service["tmpfs"], one.name


@pytest.mark.parametrize("subnet", ["10.1", "10.1.0.0/28", "nothing"])
def test_a_subnet_that_has_no_room_or_is_none_is_named(subnet):
    with pytest.raises(OncelogError, match=f"{SUBNET_VARIABLE} '{subnet}'"):
        planned(subnet)


def test_a_container_comes_back_with_the_hardware_address_it_had():
    assert mac_of("10.89.77.21") == "02:4f:0a:59:4d:15"


def test_images_are_named_as_for_compose(monkeypatch):
    monkeypatch.setenv("IMAGES", "registry.example/oncelog")
    monkeypatch.setenv("TAG", "7")
    monkeypatch.setenv("POSTGRES_IMAGE", "postgres:18")
    images = Images.of_environment()
    assert images.of_role("storage") == "registry.example/oncelog/storage:7"
    assert images.tools == "registry.example/oncelog/tools:7"
    assert len(images.needed) == len(ROLES) + 3
    assert "postgres:18" in images.needed


def test_every_kind_has_a_length_and_every_container_a_deck():
    assert {kind for deck in CONTAINER_DECKS.values() for kind in deck} <= set(LASTS_MS)
    assert {role_of(one.name) for one in planned()} <= set(CONTAINER_DECKS)
