"""oncelog's own Kafka clients, set up for commands: they answer in time and report an error in one line.

A client waits until its cluster is there. A command fails instead. So it first tries to connect to the address, and
every call has a deadline.
"""

import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, BinaryIO, Final, Unpack

from oncelog.client.core.addresses import Address
from oncelog.client.core.login import ClientLogin
from oncelog.client.errors import AuthorizationError, ClientError, TimedOutError
from oncelog.errors import ErrorCode, OncelogError
from oncelog_server.cli.addresses import checked_bootstrap
from oncelog_server.cli.client_config import login_of_address, login_properties
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
"""The request ApiVersions 0, which every Kafka listener answers before a login."""
_QUESTION: Final = b"\0\0\0\x0d" + b"\0\x3c" + b"\0\0" + b"\0\0\0\2" + b"\xff\xff\0" + b"\0\0"
"""The request DescribeCluster 0, which a listener answers only after the login."""

_TLS_ALERT: Final = b"\x15"
_NO_SUCH_TOPIC: Final = (
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.INVALID_TOPIC_EXCEPTION,
)


# The clients are imported late: most commands do without.


@contextmanager
def admin(bootstrap: str) -> "Iterator[Admin]":
    """Yield an admin client. Raises OncelogError when no listener answers at the address, and when a call within the
    block fails.
    """
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
    """Yield a producer, with errors as of `admin`. Leaving the block waits for all records to be delivered. An error in
    the block aborts the open transaction.
    """
    from oncelog.client.blocking import Producer

    login = _reached(bootstrap)
    options = {"client_id": CLIENT_ID, "max_block_ms": _CALL_TIMEOUT_MS, **options}
    with told(), Producer(str(bootstrap), login, **options) as client:
        yield client


@contextmanager
def consumer(bootstrap: str, **options: "Unpack[ConsumerOptions]") -> "Iterator[Consumer]":
    """Yield a consumer. Raises OncelogError when no listener answers at the address, and when a call within the block
    fails.
    """
    from oncelog.client.blocking import Consumer

    login = _reached(bootstrap)
    options = {"client_id": CLIENT_ID, "default_api_timeout_ms": _CALL_TIMEOUT_MS, **options}
    with told(), Consumer(str(bootstrap), login, **options) as client:
        yield client


def existing_topic(client: "Admin", name: str) -> "TopicDescription":
    """Return the topic's description. Raises OncelogError for a topic that does not exist."""
    found = client.describe_topics([name])
    error = found.errors.get(name)
    if error is not None and error.error_code in _NO_SUCH_TOPIC:
        raise OncelogError(
            f"there is no topic {name!r}; `oncelog topics list` lists all, `oncelog topics create {name}` makes it"
        )
    return found[name]


def existing_partitions(client: "Admin", topic: str, wanted: Sequence[int] | None) -> list[int]:
    """Return the wanted partitions in order, or all if none is named. Raises OncelogError for one that does not
    exist.
    """
    known = [one.partition for one in existing_topic(client, topic).partitions]
    chosen = sorted(set(wanted)) if wanted else known
    if unknown := [one for one in chosen if one not in known]:
        raise OncelogError(
            f"there is no partition {unknown[0]} of topic {topic!r}; its partitions are 0 to {known[-1]}"
        )
    return chosen


@contextmanager
def told(failed: str = "", hint: str = "", *, item: str = "") -> Iterator[None]:
    """Turn a ClientError of the block into an OncelogError. Its text says what `failed` for which `item`, and `hint` as
    the way out.
    """
    try:
        yield
    except ClientError as error:
        said = words(error).removeprefix(f"{item}: ") if item else words(error)
        before = " ".join(filter(None, [item, failed]))
        after = _way_out(error) or hint
        raise OncelogError(
            ": ".join(filter(None, [before, said])) + (after and f"; {after}")
        ) from None


def _way_out(error: ClientError) -> str:
    if error.error_code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
        return "use an address of --bootstrap where you are a super user"
    if isinstance(error, AuthorizationError):
        return "a super user allows it with: oncelog acls add"
    if isinstance(error, TimedOutError):
        return "`oncelog health` shows what is wrong; a change may be made all the same"
    return ""


def words(error: ClientError) -> str:
    """Return a client's error as text, with Kafka's name of the error."""
    text, code = str(error), error.error_code
    return text if code is None or code.name in text else f"{text} [{code.name}]"


def _reached(bootstrap: str) -> dict[str, str]:
    """Return the login as client settings, once a listener has answered at one of the addresses. Raises OncelogError
    when none does.
    """
    login = login_of_address(bootstrap)
    reasons = []
    for address in checked_bootstrap(bootstrap).split(","):
        host, _, port = address.strip().rpartition(":")
        try:
            _try_address(Address(host.strip("[]"), int(port)), login)
        except OSError as error:
            reasons.append((error.strerror or str(error) or "no answer").lower())
        else:
            return login_properties(bootstrap)
    raise OncelogError(
        f"cannot reach oncelog at {named(bootstrap)} ({reasons[0]}); is `oncelog up` running? give --bootstrap"
    )


def _try_address(server: Address, login: ClientLogin | None) -> None:
    """Connect to a listener once, because a Kafka client would try for ever. Raises OSError when none is there, and
    OncelogError for one that wants another login.
    """
    has_tls = login is not None and login.has_tls
    has_sasl = login is not None and login.has_sasl
    with _connected(server, login) as stream:
        try:
            stream.sendall(_HELLO if has_sasl else _HELLO + _QUESTION)
            with stream.makefile("rb") as answers:
                is_greeted = _is_answered(server, answers)
                is_served = is_greeted and (has_sasl or _is_answered(server, answers))
        except TimeoutError:
            return  # Perhaps it is frozen for a moment; the command has a deadline of its own.
    if not is_served:
        missing = "a login" if is_greeted or has_tls else "TLS"
        way_out = (
            f"security.protocol is {login.protocol}"
            if login is not None
            else "--config client.properties says how to log in"
        )
        raise OncelogError(f"{server} hangs up on a client without {missing}; {way_out}")


def _connected(server: Address, login: ClientLogin | None) -> socket.socket:
    stream = socket.create_connection(server, CONNECT_TIMEOUT_S)
    if login is None or not login.has_tls:
        return stream
    # Imported late: most commands do without.
    import ssl

    from oncelog.client.login import with_tls

    try:
        return with_tls(stream, server.host, login)
    except (ssl.SSLEOFError, ConnectionResetError):
        raise OncelogError(
            f"{server} hangs up on a client with TLS; if it has none, security.protocol is without SSL"
        ) from None


def _is_answered(server: Address, answers: BinaryIO) -> bool:
    """Read one response of the server. Returns False if the server closed the connection instead."""
    try:
        size = answers.read(4)
        if size[:1] in (b"", _TLS_ALERT):
            return False
        if size[0] == 0 and answers.read(int.from_bytes(size)):
            return True
    except ConnectionResetError:
        return False
    raise OncelogError(f"{server} is no Kafka listener; give --bootstrap the address of one")
