"""`oncelog smoke-test` checks that a transaction works. One is committed, one aborted, and a read_committed consumer
must see the first alone. The command makes a topic of its own and deletes it again.
"""

import secrets
import time
from typing import TYPE_CHECKING, Annotated, Final

import typer

from oncelog.errors import OncelogError
from oncelog.ids import Partition
from oncelog_server.cli.kafka_clients import admin, consumer, producer
from oncelog_server.cli.options import Bootstrap

if TYPE_CHECKING:
    from oncelog.client.blocking import Delivery, Producer

COMMITTED: Final = (b"committed-1", b"committed-2")
ABORTED: Final = (b"aborted-1", b"aborted-2")
CALL_TIMEOUT_MS: Final = 30_000

app = typer.Typer(add_completion=False)


@app.command()
def smoke_test(
    bootstrap: Bootstrap = "",
    timeout: Annotated[
        float, typer.Option(min=1, help="seconds after which reading has failed")
    ] = 60.0,
) -> None:
    """Commit a transaction, abort another, and read both. Exit code 0: only the first is visible."""
    from oncelog.client.core.admin_results import NewTopic

    name = f"smoke-test-{secrets.token_hex(4)}"
    began = time.monotonic()
    with admin(bootstrap) as cluster:
        cluster.create_topic(NewTopic(name, 1))
        try:
            _write(bootstrap, name)
            wrote = time.monotonic()
            _must_see(name, "read_committed", COMMITTED, _committed(bootstrap, name, timeout))
            everything = _uncommitted(bootstrap, name, timeout)
            _must_see(name, "read_uncommitted", COMMITTED + ABORTED, everything)
        finally:
            cluster.delete_topic(name)
    typer.echo(
        f"ok: one transaction committed and one aborted in {wrote - began:.1f} s; "
        f"a read_committed consumer sees the {len(COMMITTED)} records of the first alone"
    )


def _write(bootstrap: str, name: str) -> None:
    with producer(
        bootstrap, transactional_id=name, linger_ms=0, max_block_ms=CALL_TIMEOUT_MS
    ) as writer:
        with writer.transaction():
            _send(writer, name, COMMITTED)
        writer.begin_transaction()
        deliveries = _send(writer, name, ABORTED)
        # An abort drops what is not yet sent.
        for delivery in deliveries:
            delivery.result(CALL_TIMEOUT_MS / 1000)
        writer.abort_transaction()


def _send(writer: "Producer", name: str, values: tuple[bytes, ...]) -> "list[Delivery]":
    return writer.send_all(name, [(None, value) for value in values])


def _committed(bootstrap: str, name: str, timeout_s: float) -> list[bytes]:
    """Return the values that a read_committed consumer reads. A commit is answered before its markers are written, so
    it first waits until no transaction is open.
    """
    with consumer(bootstrap, auto_offset_reset="earliest") as reader:
        reader.assign([Partition(name, 0)])
        lists = reader.read_until_decided(timeout_s=timeout_s)
        return [record.value for records in lists for record in records]


def _uncommitted(bootstrap: str, name: str, timeout_s: float) -> list[bytes]:
    """Return the values that a read_uncommitted consumer reads, up to the end of the partition."""
    deadline = time.monotonic() + timeout_s
    found: list[bytes] = []
    with consumer(
        bootstrap, isolation_level="read_uncommitted", auto_offset_reset="earliest"
    ) as reader:
        reader.assign([Partition(name, 0)])
        while reader.current_lag(Partition(name, 0)) != 0 and time.monotonic() < deadline:
            found += [record.value for record in reader.poll(0.1)]
    return found


def _must_see(name: str, isolation: str, wanted: tuple[bytes, ...], found: list[bytes]) -> None:
    """Raise OncelogError unless the consumer saw exactly these records."""
    if tuple(found) != wanted:
        shown = ", ".join(value.decode(errors="replace") for value in found) or "nothing"
        raise OncelogError(
            f"a {isolation} consumer of {name} saw {shown}, and not "
            f"{', '.join(value.decode() for value in wanted)}; see: oncelog partitions {name}"
        )
