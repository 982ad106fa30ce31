"""`oncelog smoke-test`: does a transaction work here? One is committed, one aborted, and a read_committed consumer must
see the first alone. It makes a topic of its own and deletes it again."""

import secrets
import time
from typing import Annotated, Final

import typer
from confluent_kafka import KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from oncelog.errors import OncelogError
from oncelog_server.cli.librdkafka_clients import admin, consumer, kafka_errors, producer, words
from oncelog_server.cli.options import Bootstrap

COMMITTED: Final = (b"committed-1", b"committed-2")
ABORTED: Final = (b"aborted-1", b"aborted-2")
CALL_TIMEOUT_S: Final = 30.0

app = typer.Typer(add_completion=False)


@app.command()
def smoke_test(
    bootstrap: Bootstrap = "",
    timeout: Annotated[
        float, typer.Option(min=1, help="seconds after which reading has failed")
    ] = 60.0,
) -> None:
    """Commit a transaction, abort another, and read both. Exit code 0: only the first is visible."""
    name = f"smoke-test-{secrets.token_hex(4)}"
    began = time.monotonic()
    client = admin(bootstrap)
    with kafka_errors():
        _create(client, name)
        try:
            _write(bootstrap, name)
            wrote = time.monotonic()
            _must_see(bootstrap, name, "read_committed", COMMITTED, timeout)
            _must_see(bootstrap, name, "read_uncommitted", COMMITTED + ABORTED, timeout)
        finally:
            client.delete_topics([name], operation_timeout=CALL_TIMEOUT_S)[name].result()
    typer.echo(
        f"ok: one transaction committed and one aborted in {wrote - began:.1f} s; "
        f"a read_committed consumer sees the {len(COMMITTED)} records of the first alone"
    )


def _create(client: object, name: str) -> None:
    assert isinstance(client, AdminClient)
    client.create_topics([NewTopic(name, 1)], operation_timeout=CALL_TIMEOUT_S)[name].result()


def _write(bootstrap: str, name: str) -> None:
    writer = producer(bootstrap, {"transactional.id": name, "linger.ms": 0})
    writer.init_transactions(CALL_TIMEOUT_S)
    writer.begin_transaction()
    _send(writer, name, COMMITTED)
    writer.commit_transaction(CALL_TIMEOUT_S)
    writer.begin_transaction()
    _send(writer, name, ABORTED)
    # An abort drops what is not yet sent.
    if left := writer.flush(CALL_TIMEOUT_S):
        raise OncelogError(f"{left} records were not written within {CALL_TIMEOUT_S:.0f} s")
    writer.abort_transaction(CALL_TIMEOUT_S)


def _send(writer: "Producer", name: str, values: tuple[bytes, ...]) -> None:
    for value in values:
        writer.produce(name, value)


def _must_see(
    bootstrap: str, name: str, isolation: str, wanted: tuple[bytes, ...], timeout_s: float
) -> None:
    """Raises OncelogError unless exactly these records stand there, up to the end of the partition."""
    configuration = {
        "group.id": name,
        "isolation.level": isolation,
        "enable.auto.commit": False,
        "enable.partition.eof": True,
    }
    reader = consumer(bootstrap, configuration)
    reader.assign([TopicPartition(name, 0, 0)])
    found: list[bytes | None] = []
    deadline = time.monotonic() + timeout_s
    # A commit is answered before its markers are written: the end of the partition may still be before them.
    while tuple(found[: len(wanted)]) != wanted:
        record = reader.poll(max(0.0, min(1.0, deadline - time.monotonic())))
        error = record.error() if record is not None else None
        if error is not None and error.code() != KafkaError._PARTITION_EOF:
            raise OncelogError(f"reading {name} ({isolation}) failed: {words(error)}")
        if record is not None and error is None:
            found.append(record.value())
        if len(found) > len(wanted) or time.monotonic() > deadline:
            break
    # Once more up to the end: nothing may follow.
    while len(found) == len(wanted):
        record = reader.poll(max(0.0, min(5.0, deadline - time.monotonic())))
        if record is None or record.error() is not None:
            break
        found.append(record.value())
    reader.close()
    if tuple(found) != wanted:
        shown = ", ".join((value or b"").decode(errors="replace") for value in found) or "nothing"
        raise OncelogError(
            f"a {isolation} consumer of {name} saw {shown}, and not "
            f"{', '.join(value.decode() for value in wanted)}; see: oncelog partitions {name}"
        )
