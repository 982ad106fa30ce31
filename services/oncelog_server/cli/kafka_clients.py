"""oncelog's own clients, made to answer a command in time and in one line.

A client waits until its cluster is there. A command ends instead: the address is tried first, and every call has a
deadline.
"""

import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, Unpack

from oncelog.client.core.addresses import Address
from oncelog.client.core.login import ClientLogin, properties_of
from oncelog.client.errors import ClientError
from oncelog.errors import ErrorCode, OncelogError
from oncelog_server.cli.addresses import checked_bootstrap
from oncelog_server.cli.client_config import login_of_address
from oncelog_server.cli.options import named

if TYPE_CHECKING:
    from oncelog.client.blocking import Admin, Consumer, Producer
    from oncelog.client.core.admin_results import TopicDescription
    from oncelog.client.options import ConsumerOptions, ProducerOptions

CLIENT_ID: Final = "oncelog-cli"
CONNECT_TIMEOUT_S: Final = 3.0
CALL_TIMEOUT_S: Final = 10.0
_CALL_TIMEOUT_MS: Final = int(CALL_TIMEOUT_S * 1000)

_HELLO: Final = b"\0\0\0\x0a" + b"\0\x12" + b"\0\0" + b"\0\0\0\1" + b"\xff\xff"
"""ApiVersions 0, which every Kafka listener answers before a login."""


# The clients are imported late: most commands do without.


@contextmanager
def admin(bootstrap: str) -> "Iterator[Admin]":
    """Raises OncelogError when nobody answers at the address, and for an error of the block."""
    from oncelog.client.blocking import Admin

    login = _reached(bootstrap)
    with (
        told(),
        Admin(
            str(bootstrap), login, client_id=CLIENT_ID, default_api_timeout_ms=_CALL_TIMEOUT_MS
        ) as client,
    ):
        yield client


@contextmanager
def producer(bootstrap: str, **options: "Unpack[ProducerOptions]") -> "Iterator[Producer]":
    """As `admin`. Leaving it delivers everything; an error of the block aborts the open transaction."""
    from oncelog.client.blocking import Producer

    login = _reached(bootstrap)
    options = {"client_id": CLIENT_ID, "max_block_ms": _CALL_TIMEOUT_MS, **options}
    with told(), Producer(str(bootstrap), login, **options) as client:
        yield client


@contextmanager
def consumer(bootstrap: str, **options: "Unpack[ConsumerOptions]") -> "Iterator[Consumer]":
    """As `admin`."""
    from oncelog.client.blocking import Consumer

    login = _reached(bootstrap)
    options = {"client_id": CLIENT_ID, "default_api_timeout_ms": _CALL_TIMEOUT_MS, **options}
    with told(), Consumer(str(bootstrap), login, **options) as client:
        yield client


def existing_topic(client: "Admin", name: str) -> "TopicDescription":
    """Raises OncelogError for a topic that does not exist."""
    found = client.describe_topics([name])
    error = found.errors.get(name)
    if error is not None and error.error_code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        raise OncelogError(
            f"there is no topic {name!r}; `oncelog topics list` lists all, `oncelog topics create {name}` makes it"
        )
    return found[name]


def existing_partitions(client: "Admin", topic: str, wanted: Sequence[int] | None) -> list[int]:
    """The wanted ones in order, all of them when none is named. Raises OncelogError for one that does not exist."""
    known = [one.partition for one in existing_topic(client, topic).partitions]
    chosen = sorted(set(wanted)) if wanted else known
    if unknown := [one for one in chosen if one not in known]:
        raise OncelogError(
            f"there is no partition {unknown[0]} of topic {topic!r}; its partitions are 0 to {known[-1]}"
        )
    return chosen


@contextmanager
def told(failed: str = "", hint: str = "") -> Iterator[None]:
    """ClientError becomes OncelogError with `failed`, Kafka's words and the way out."""
    try:
        yield
    except ClientError as error:
        if error.error_code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
            hint = "use an address of --bootstrap where you are a super user"
        before = f"{failed}: " if failed else ""
        raise OncelogError(f"{before}{words(error)}{hint and f'; {hint}'}") from None


def words(error: ClientError) -> str:
    """Its text, with Kafka's name for it."""
    text, code = str(error), error.error_code
    return text if code is None or code.name in text else f"{text} [{code.name}]"


def _reached(bootstrap: str) -> dict[str, str]:
    """The login as settings. Raises OncelogError when nobody answers at any of the addresses."""
    login = login_of_address(bootstrap)
    reasons = []
    for address in checked_bootstrap(bootstrap).split(","):
        host, _, port = address.strip().rpartition(":")
        try:
            _try_address(Address(host.strip("[]"), int(port)), login)
        except OSError as error:
            reasons.append((error.strerror or str(error) or "no answer").lower())
        else:
            return {} if login is None else properties_of(login)
    raise OncelogError(
        f"cannot reach oncelog at {named(bootstrap)} ({reasons[0]}); is `oncelog up` running? give --bootstrap"
    )


def _try_address(server: Address, login: ClientLogin | None) -> None:
    """Raises OSError when nobody is there, and OncelogError when a TLS listener meets a client without TLS: a client
    of Kafka would try for ever."""
    with socket.create_connection(server, CONNECT_TIMEOUT_S) as stream:
        if login is not None and login.has_tls:
            return
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
