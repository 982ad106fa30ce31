"""The first look at a cluster: who answers at an address, and whether a run can begin there. For that it makes one
topic and one group, and one transaction with each client library.

Anything that the cluster lacks or does not allow becomes one sentence, which names it and says what to do.
"""

import importlib.util
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from oncelog.errors import KafkaError, OncelogError
from oncelog.protocol import versions
from oncelog.wording import counted
from oncelog_robustness.chaos.plan import REPLICAS
from oncelog_robustness.clients.admin import WireAdmin
from oncelog_robustness.clients.contract import ClientError, Clients
from oncelog_robustness.clients.java_process import JavaProcess, prepare
from oncelog_robustness.clients.libraries import LIBRARIES
from oncelog_robustness.clients.wire import SPOKEN, Brokers, Lost, Unreachable, check, types_of
from oncelog_robustness.history import Isolation, Partition

MODULES: Final[Mapping[str, str]] = {
    "aiokafka": "aiokafka",
    "confluent-kafka": "confluent_kafka",
    "kafka-python": "kafka",
    "oncelog": "oncelog",
}
"""The module that must be installed for each client library of Python."""
JAVA: Final = "java"
NEEDED: Final = (
    versions.METADATA,
    versions.LIST_OFFSETS,
    versions.OFFSET_FETCH,
    versions.FIND_COORDINATOR,
    versions.CREATE_TOPICS,
    versions.DELETE_TOPICS,
    versions.DELETE_GROUPS,
)
PROBE_TIMEOUT_MS: Final = 30_000
READ_LIMIT_S: Final = 20.0
POLL_MS: Final = 200

ResultT = TypeVar("ResultT")


@dataclass(frozen=True, slots=True)
class Found:
    """The result of the first look at a cluster: the number of its brokers, its id, and the client libraries that can
    work with it."""

    brokers: int
    cluster_id: str
    libraries: tuple[str, ...]
    left_out: tuple[str, ...]
    """A sentence for each client library that takes no part."""

    @property
    def replicas(self) -> int:
        return min(REPLICAS, self.brokers)

    @property
    def topic_config(self) -> dict[str, str]:
        """Return the configuration of topics: all replicas but one must be in sync, and at least one."""
        return {"min.insync.replicas": str(max(1, self.replicas - 1))}


async def look(
    bootstrap: Sequence[str], prefix: str, wanted: Sequence[str], on_step: Callable[[str], None]
) -> Found:
    """Make one transaction with each client library in `wanted`. Return what was found: the brokers, and the libraries
    that could commit. `on_step` is called with the name of each step.

    The topic and the group for this begin with `prefix`, and are left there. Raises OncelogError if no Kafka broker
    answers, the cluster does not allow something, or no library can commit.
    """
    on_step("asking the brokers")
    brokers = Brokers(bootstrap, "oncelog-verify")
    try:
        count, cluster_id = await _ask(brokers, ",".join(bootstrap))
    finally:
        brokers.close()
    topic, group = f"{prefix}probe", f"{prefix}probe"
    found = Found(count, cluster_id, (), ())
    admin = WireAdmin(bootstrap, "oncelog-verify")
    try:
        on_step("making a topic")
        await _allowed(
            admin.create_topic(topic, 1, found.replicas, found.topic_config),
            f"cannot make the topic {topic} with {counted(found.replicas, 'replica')}",
            "CREATE on the cluster or on topics",
        )
        on_step("asking for a group")
        await _allowed(
            admin.committed(group, [(topic, 0)]), f"cannot read the group {group}", "READ on groups"
        )
    finally:
        await admin.close()
    libraries, left_out = [], []
    for name in wanted:
        on_step(f"one transaction with {name}")
        failure = await _fails(name, bootstrap, topic, group)
        if failure:
            left_out.append(f"{name} takes no part: {failure}")
        else:
            libraries.append(name)
    JavaProcess.end_mine()
    if not libraries:
        raise OncelogError("no client can commit a transaction here. " + ". ".join(left_out))
    return Found(count, cluster_id, tuple(libraries), tuple(left_out))


def installed(
    wanted: Sequence[str], java_classpath: str
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return which of these client libraries are installed, and a sentence for each that is not. Java's program is
    compiled here, against the jars of `java_classpath`."""
    there, missing = [], []
    for one in wanted:
        reason = _absence(one, java_classpath)
        if reason:
            missing.append(f"{one} takes no part: {reason}")
        else:
            there.append(one)
    return tuple(there), tuple(missing)


def _absence(library: str, java_classpath: str) -> str:
    """Return why a client library cannot be used on this machine; empty when it can."""
    if library == JAVA:
        return prepare(java_classpath)
    if importlib.util.find_spec(MODULES[library]) is None:
        return "it is not installed (pip install 'oncelog[verify]')"
    return ""


async def _ask(brokers: Brokers, address: str) -> tuple[int, str]:
    """Return the number of brokers and the cluster's id (empty if it has none), as any broker says. Raises
    OncelogError, which names `address`, if none answers as a broker that the run can use."""
    request = types_of(versions.API_VERSIONS).ApiVersionsRequest(
        client_software_name="oncelog-verify", client_software_version="1"
    )
    try:
        response = await brokers.call_any(versions.API_VERSIONS, request)
        check(response.error_code.value, "ApiVersions")
    except Unreachable as error:
        raise OncelogError(f"nobody answers at {address}: {error}") from error
    except (Lost, KafkaError) as error:
        raise OncelogError(
            f"{address} does not answer as a Kafka broker ({error}): if it wants TLS or a login, "
            "give --config client.properties"
        ) from error
    served = {one.api_key: (one.min_version, one.max_version) for one in response.api_keys}
    for api_key in NEEDED:
        low, high = served.get(api_key, (0, -1))
        if not low <= SPOKEN[api_key] <= high:
            name = versions.APIS[api_key].name
            serves = f"serves {name} {low} to {high}" if high >= 0 else f"does not serve {name}"
            raise OncelogError(
                f"{address} {serves}; verify asks for version {SPOKEN[api_key]}, which brokers have "
                "since Apache Kafka 2.5 (is this a controller's port?)"
            )
    if versions.END_TXN not in served:
        raise OncelogError(f"{address} has no transactions: it does not serve EndTxn")
    types = types_of(versions.METADATA)
    try:
        metadata = await brokers.call_any(
            versions.METADATA,
            types.MetadataRequest(
                topics=(),
                allow_auto_topic_creation=False,
                include_cluster_authorized_operations=False,
                include_topic_authorized_operations=False,
            ),
        )
    except (Unreachable, Lost) as error:
        raise OncelogError(
            f"{address} hangs up on who has not logged in ({error}): give --config client.properties"
        ) from error
    return len(metadata.brokers), str(metadata.cluster_id or "")


async def _allowed(call: Coroutine[Any, Any, ResultT], failure: str, grant: str) -> ResultT:
    try:
        return await call
    except ClientError as error:
        raise OncelogError(f"{failure}: {_reason(error, grant)}") from error


def _reason(error: ClientError, grant: str) -> str:
    text = " ".join(str(error).split()) or repr(error)
    if "uthorization" in text or "AUTHORIZATION" in text:
        return f"{text}; allow {grant} with the prefix oncelog-verify-"
    return text


async def _fails(name: str, bootstrap: Sequence[str], topic: str, group: str) -> str:
    """Return why this client library cannot commit a record and an offset on the cluster, and read them; empty when it
    can."""
    partition = (topic, 0)
    clients = LIBRARIES[name](bootstrap)
    try:
        await _commit(clients, partition, group)
        await _read(clients, partition)
    except (ClientError, OncelogError) as error:
        grant = "WRITE and DESCRIBE on transactional ids and topics, READ on topics and groups,"
        return _reason(error, grant) if isinstance(error, ClientError) else str(error)
    return ""


async def _commit(clients: Clients, partition: Partition, group: str) -> None:
    client = f"{partition[0]}-{clients.library}"
    producer = await clients.producer(client, client, PROBE_TIMEOUT_MS)
    try:
        await producer.init_transactions()
        await producer.begin()
        await producer.send(partition, client)
        await producer.send_offsets({partition: 0}, group)
        await producer.commit()
    finally:
        await producer.close()


async def _read(clients: Clients, partition: Partition) -> None:
    consumer = await clients.consumer(f"{partition[0]}-reader", Isolation.READ_COMMITTED, None)
    try:
        await consumer.assign({partition: 0})
        deadline = time.monotonic() + READ_LIMIT_S
        wanted = f"{partition[0]}-{clients.library}"
        while not any(one.value == wanted for one in await consumer.poll(POLL_MS)):
            if time.monotonic() > deadline:
                raise OncelogError(
                    f"what it committed cannot be read at read_committed within {READ_LIMIT_S:.0f} s"
                )
    finally:
        await consumer.close()
