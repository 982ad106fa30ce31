"""The plan of the containers: which there are, on which machine, with which address and settings. Nothing is
started here."""

import ipaddress
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Final

from oncelog.errors import OncelogError
from oncelog_server.cluster.plan import (
    CONTROLLER,
    COORDINATOR,
    GATEWAY,
    LISTENER,
    MARKER_SENDER,
    POSTGRES,
    REDIS,
    ROLES,
    STORAGE,
    RolePlan,
)

MACHINE_COUNT: Final = 3
RPC_PORT: Final = 9090
KAFKA_PORT: Final = 9092
HTTP_PORT: Final = 8080
POSTGRES_PORT: Final = 5432
REDIS_PORT: Final = 6379
SUBNET: Final = "10.89.77.0/24"
SUBNET_VARIABLE: Final = "ONCELOG_CONTAINERS_SUBNET"
DATA: Final = "/var/lib/oncelog"
COUNTS: Final[Mapping[RolePlan, int]] = {
    CONTROLLER: 2,
    STORAGE: 3,
    COORDINATOR: 2,
    MARKER_SENDER: 2,
    LISTENER: 2,
    GATEWAY: 1,
}
_BY_ITSELF: Final = 0
"""The number of the machine of Postgres and Redis, which no fault of a machine strikes."""
_DATABASE: Final = "postgresql+psycopg://oncelog:{password}@{address}:5432/oncelog"
_REDIS_CONFIG: Final = "\n".join(
    ("bind * -::*", 'save ""', "appendonly no", "maxmemory 256mb", "requirepass {password}\n")
)
_REDIS_START: Final = (
    'umask 077; printf "%s\\n" "$REDIS_CONFIG" >/tmp/redis.conf; exec redis-server /tmp/redis.conf'
)


@dataclass(frozen=True, slots=True)
class Images:
    """The names of the images that containers run; the variables that set them are those of docker/compose.yaml."""

    prefix: str = "oncelog"
    tag: str = ""
    postgres: str = "docker.io/library/postgres:17"
    redis: str = "docker.io/library/redis:7"

    @classmethod
    def of_environment(cls) -> "Images":
        given = os.environ
        return cls(
            prefix=given.get("IMAGES") or cls().prefix,
            tag=given.get("TAG") or version("oncelog"),
            postgres=given.get("POSTGRES_IMAGE") or cls().postgres,
            redis=given.get("REDIS_IMAGE") or cls().redis,
        )

    def of_role(self, role: str) -> str:
        return f"{self.prefix}/{role}:{self.tag}"

    @property
    def tools(self) -> str:
        return self.of_role("tools")

    @property
    def needed(self) -> list[str]:
        return [*(self.of_role(one.role) for one in ROLES), self.tools, self.postgres, self.redis]


@dataclass(frozen=True, slots=True)
class Container:
    name: str
    role: str
    machine: int
    address: str
    ports: tuple[int, ...]
    """The ports on which the container answers when it is ready."""
    environment: Mapping[str, str]
    image: str = ""
    """The image of a container that is not oncelog's own; empty for a role, whose image depends on its version."""
    user: str = "10001:10001"
    volume: str = ""
    """The path at which the container's volume is mounted; empty when nothing of it is kept."""
    tmpfs: tuple[str, ...] = ("/tmp",)
    command: tuple[str, ...] = field(default=())

    @property
    def rpc_address(self) -> str:
        return f"{self.address}:{RPC_PORT}"


def given_subnet() -> str:
    return os.environ.get(SUBNET_VARIABLE) or SUBNET


def plan_containers(
    subnet: str, images: Images, passwords: Mapping[str, str]
) -> tuple[Container, ...]:
    """Return the containers in the order in which they start. `passwords` are those of Postgres and Redis. Raises
    OncelogError if `subnet` is no network, or too small."""
    try:
        hosts = list(ipaddress.IPv4Network(subnet).hosts())
    except ValueError as error:
        raise OncelogError(f"{SUBNET_VARIABLE} {subnet!r} is no network: {error}") from error
    if len(hosts) < 10 * (MACHINE_COUNT + 1) + 10:
        raise OncelogError(f"{SUBNET_VARIABLE} {subnet!r} is too small; a /24 has room")
    members = [(role, index) for role, count in COUNTS.items() for index in range(count)]
    taken = dict.fromkeys(range(MACHINE_COUNT + 1), 0)

    def address(machine: int) -> str:
        taken[machine] += 1
        return str(hosts[10 * (machine + 1) + taken[machine] - 1])

    postgres = _postgres(address(_BY_ITSELF), images, passwords[POSTGRES])
    redis = _redis(address(_BY_ITSELF), images, passwords[REDIS])
    # The gateway goes to the machine with only a storage node, which makes the machines about equal.
    machines = {one: MACHINE_COUNT if one[0] is GATEWAY else one[1] + 1 for one in members}
    addresses = {one: address(machines[one]) for one in members}
    controllers = ",".join(
        f"{found}:{RPC_PORT}" for (role, _), found in addresses.items() if role is CONTROLLER
    )
    settings = _settings(controllers, postgres.address, redis.address, passwords)
    ports = {LISTENER: (RPC_PORT, KAFKA_PORT), GATEWAY: (RPC_PORT, HTTP_PORT)}
    found = [postgres, redis]
    for role, index in members:
        here = addresses[role, index]
        environment = {
            **settings[role],
            "ONCELOG_NODE_NODE_ID": str(role.first_node_id + index),
            "ONCELOG_NODE_ADVERTISED_ADDRESS": f"{here}:{RPC_PORT}",
        }
        if role is LISTENER:
            environment["ONCELOG_LISTENER_ADVERTISED_HOST"] = here
        if role is GATEWAY:
            environment["ONCELOG_GATEWAY_ALLOWED_HOSTS"] = here
        found.append(
            Container(
                name=f"{role.role}-{index + 1}",
                role=role.role,
                machine=machines[role, index],
                address=here,
                ports=ports.get(role, (RPC_PORT,)),
                environment=environment,
                volume=DATA if role in (STORAGE, GATEWAY) else "",
            )
        )
    return tuple(found)


def _settings(
    controllers: str, postgres: str, redis: str, passwords: Mapping[str, str]
) -> Mapping[RolePlan, Mapping[str, str]]:
    """Return, for each role, the environment variables that every process of it gets. `controllers`, `postgres` and
    `redis` are their addresses."""
    redis_url = f"redis://:{passwords[REDIS]}@{redis}:{REDIS_PORT}/0"
    own = {
        CONTROLLER: {
            "ONCELOG_CONTROLLER_DATABASE_URL": _DATABASE.format(
                password=passwords[POSTGRES], address=postgres
            ),
            "ONCELOG_CONTROLLER_BOOTSTRAP_STORAGE_NODES": str(COUNTS[STORAGE]),
        },
        STORAGE: {
            "ONCELOG_STORAGE_DATA_DIR": f"{DATA}/data",
            "ONCELOG_STORAGE_REDIS_URL": redis_url,
        },
        COORDINATOR: {"ONCELOG_COORDINATOR_REDIS_URL": redis_url},
        MARKER_SENDER: {"ONCELOG_MARKER_SENDER_REDIS_URL": redis_url},
        LISTENER: {"ONCELOG_LISTENER_HOST": "0.0.0.0", "ONCELOG_LISTENER_PORT": str(KAFKA_PORT)},
        GATEWAY: {
            "ONCELOG_GATEWAY_HOST": "0.0.0.0",
            "ONCELOG_GATEWAY_AUTHENTICATION": "none",
            "ONCELOG_GATEWAY_PORT": str(HTTP_PORT),
            "ONCELOG_GATEWAY_AUDIT_PATH": f"{DATA}/audit.jsonl",
            "ONCELOG_GATEWAY_REDIS_URL": redis_url,
        },
    }
    shared = {"ONCELOG_NODE_HOST": "0.0.0.0", "ONCELOG_NODE_CONTROLLERS": controllers}
    return {role: {**shared, **settings} for role, settings in own.items()}


def _postgres(address: str, images: Images, password: str) -> Container:
    return Container(
        name=POSTGRES,
        role=POSTGRES,
        machine=_BY_ITSELF,
        address=address,
        ports=(POSTGRES_PORT,),
        environment={
            "POSTGRES_USER": "oncelog",
            "POSTGRES_PASSWORD": password,
            "POSTGRES_DB": "oncelog",
            "POSTGRES_INITDB_ARGS": "--auth=scram-sha-256 --data-checksums",
            "PGDATA": "/var/lib/postgresql/data/pgdata",
        },
        image=images.postgres,
        user="999:999",
        volume="/var/lib/postgresql/data",
        tmpfs=("/tmp", "/run"),
    )


def _redis(address: str, images: Images, password: str) -> Container:
    return Container(
        name=REDIS,
        role=REDIS,
        machine=_BY_ITSELF,
        address=address,
        ports=(REDIS_PORT,),
        environment={"REDIS_CONFIG": _REDIS_CONFIG.format(password=password)},
        image=images.redis,
        user="999:999",
        tmpfs=("/tmp", "/data"),
        command=("sh", "-euc", _REDIS_START),
    )
