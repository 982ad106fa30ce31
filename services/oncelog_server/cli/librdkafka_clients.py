"""confluent-kafka's clients, made to answer in time and in one line. `kafka_clients` follows them.

librdkafka tries for ever and logs to stderr as it does. A command ends instead: the address is tried first, and every
call has a deadline. Its log goes nowhere: what matters comes back as an exception or a callback.
"""

import logging
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, TopicMetadata

from oncelog.client.core.addresses import Address
from oncelog.client.core.login import ClientLogin
from oncelog.client.login import confluent_settings
from oncelog.errors import KafkaError as RefusedByKafka
from oncelog.errors import OncelogError
from oncelog_server.cli.addresses import checked_bootstrap
from oncelog_server.cli.client_config import login_of_address
from oncelog_server.cli.options import named

CLIENT_ID: Final = "oncelog-cli"
CONNECT_TIMEOUT_S: Final = 3.0
CALL_TIMEOUT_S: Final = 10.0

_HELLO: Final = b"\0\0\0\x0a" + b"\0\x12" + b"\0\0" + b"\0\0\0\1" + b"\xff\xff"
"""ApiVersions 0, which every Kafka listener answers before a login."""

_silent = logging.getLogger("oncelog.librdkafka")
_silent.addHandler(logging.NullHandler())
_silent.propagate = False


def admin(bootstrap: str) -> AdminClient:
    """Raises OncelogError when nobody answers at the address."""
    return AdminClient(_configuration(bootstrap), logger=_silent)


def producer(bootstrap: str, configuration: Mapping[str, Any]) -> Producer:
    """Raises OncelogError when nobody answers at the address."""
    return Producer({**_configuration(bootstrap), **configuration}, logger=_silent)


def consumer(bootstrap: str, configuration: Mapping[str, Any]) -> Consumer:
    """Raises OncelogError when nobody answers at the address."""
    return Consumer({**_configuration(bootstrap), **configuration}, logger=_silent)


def topics(client: AdminClient | Producer | Consumer) -> dict[str, TopicMetadata]:
    """Every topic of the cluster by name. All of them are asked for: naming one could create it."""
    with kafka_errors():
        found: dict[str, TopicMetadata] = client.list_topics(timeout=CALL_TIMEOUT_S).topics
        return found


def existing_topic(client: AdminClient | Producer | Consumer, name: str) -> TopicMetadata:
    """Raises OncelogError for a topic that does not exist."""
    found = topics(client).get(name)
    if found is None:
        raise OncelogError(
            f"there is no topic {name!r}; `oncelog topics list` lists all, `oncelog topics create {name}` makes it"
        )
    return found


def existing_partitions(
    client: AdminClient | Producer | Consumer, topic: str, wanted: Sequence[int] | None
) -> list[int]:
    """The wanted ones in order, all of them when none is named. Raises OncelogError for one that does not exist."""
    known = sorted(existing_topic(client, topic).partitions)
    chosen = sorted(set(wanted)) if wanted else known
    if unknown := [one for one in chosen if one not in known]:
        raise OncelogError(
            f"there is no partition {unknown[0]} of topic {topic!r}; its partitions are 0 to {known[-1]}"
        )
    return chosen


def offsets_of_time(
    client: Consumer, topic: str, partitions: Sequence[int], from_ms: int
) -> dict[int, int]:
    """By partition, the offset of the first record of that time or later; a partition without one is left out."""
    times = [TopicPartition(topic, one, from_ms) for one in partitions]
    found: dict[int, int] = {}
    for one in client.offsets_for_times(times, timeout=CALL_TIMEOUT_S):
        if one.error is not None:
            raise OncelogError(
                f"{topic}-{one.partition} does not say which offset a time has: {words(one.error)}"
            )
        if one.offset >= 0:
            found[one.partition] = one.offset
    return found


@contextmanager
def kafka_errors() -> Iterator[None]:
    """KafkaException becomes OncelogError with Kafka's name for what happened."""
    try:
        yield
    except KafkaException as error:
        raise OncelogError(words(error.args[0])) from None


def answer_of(future: Any, failed: str, hint: str = "") -> Any:
    """What a call of the AdminClient answers. Raises OncelogError with `failed`, Kafka's words and the way out."""
    try:
        return future.result(CALL_TIMEOUT_S)
    except KafkaException as error:
        reason: KafkaError = error.args[0]
        if reason.code() == KafkaError.CLUSTER_AUTHORIZATION_FAILED:
            hint = "use an address of --bootstrap where you are a super user"
        raise OncelogError(f"{failed}: {words(reason)}{hint and f'; {hint}'}") from None
    except TimeoutError:
        raise OncelogError(
            f"{failed}: no answer in {CALL_TIMEOUT_S:.0f} s; `oncelog health` shows what is wrong"
        ) from None


def words(error: KafkaError | str) -> str:
    """Kafka's name and sentence."""
    if isinstance(error, str):
        return error
    return f"{error.str()} [{error.name().lstrip('_')}]"


def _configuration(bootstrap: str) -> dict[str, Any]:
    login = login_of_address(bootstrap)
    _try_addresses(bootstrap, login)
    return {
        "bootstrap.servers": str(bootstrap),
        "client.id": CLIENT_ID,
        "error_cb": _ignored,
        "socket.timeout.ms": int(CALL_TIMEOUT_S * 1000),
        **confluent_settings(login),
    }


def _ignored(_error: KafkaError) -> None:
    """Global errors (a lost connection) are told by the call that they make fail."""


def _try_addresses(bootstrap: str, login: ClientLogin | None) -> None:
    """A login is tried as well: librdkafka would try a wrong password again and again, and say nothing."""
    reasons = []
    for address in checked_bootstrap(bootstrap).split(","):
        host, _, port = address.strip().rpartition(":")
        server = Address(host.strip("[]"), int(port))
        try:
            if login is None or not login.has_tls:
                _must_be_plain(server)
            if login is not None:
                _log_in(server, login)
        except OSError as error:
            reasons.append((error.strerror or str(error) or "no answer").lower())
        except RefusedByKafka as error:
            reasons.append(error.message)
        else:
            return
    raise OncelogError(
        f"cannot reach oncelog at {named(bootstrap)} ({reasons[0]}); is `oncelog up` running? give --bootstrap"
    )


def _must_be_plain(server: Address) -> None:
    """Raises OSError when nobody is there, and OncelogError when a TLS listener is: librdkafka would try for ever."""
    with socket.create_connection(server, CONNECT_TIMEOUT_S) as stream:
        stream.sendall(_HELLO)
        try:
            answer = stream.recv(1)
        except TimeoutError:
            return  # Perhaps it is frozen for a moment; the command has a deadline of its own.
        except ConnectionResetError:
            answer = b""
    if answer != _HELLO[:1]:
        raise OncelogError(
            f"{server} hangs up on a client without TLS; --config client.properties says how to log in"
        )


def _log_in(server: Address, login: ClientLogin) -> None:
    """Raises OncelogError when it is refused, or nobody is there."""
    # Imported late: only a login needs Kafka's messages in Python.
    from oncelog.client.connection import Connection, Deadline

    Connection.connect(server, CLIENT_ID, Deadline(int(CONNECT_TIMEOUT_S * 1000)), login).close()
