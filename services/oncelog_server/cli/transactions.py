"""`oncelog transactions` lists transactions, finds those that hang, and ends them safely, all through the gateway."""

from collections.abc import Mapping
from typing import Annotated, Final, get_args

import typer

from oncelog_gateway.core.epoch_use import epoch_use
from oncelog_server.cli.cluster_answers import Failure, MarkerQueuePage
from oncelog_server.cli.explain import show_explanation
from oncelog_server.cli.hanging import moment, show_hanging
from oncelog_server.cli.lazy import command_group
from oncelog_server.cli.log_audit import audit
from oncelog_server.cli.options import (
    INT32_MAX,
    INT64_MAX,
    AsOutput,
    Execute,
    Gateway,
    Output,
    as_spelled,
    not_empty,
)
from oncelog_server.cli.prepared import complete, list_prepared, timeout_of, two_phase_fields
from oncelog_server.cli.rest import Rest, quoted
from oncelog_server.cli.tables import (
    Columns,
    duration,
    of_partition,
    printed_as_json,
    say,
    show_fields,
    show_rows,
    warn_of_incomplete,
)
from oncelog_server.cli.timelines import timeline
from oncelog_server.cli.transaction_answers import (
    AbortResult,
    ActiveProducer,
    Explanation,
    HangingPage,
    TerminateResult,
    Transaction,
    TransactionDetail,
    TransactionPage,
    TransactionPartition,
)

app = command_group("Show transactions, find hanging ones, end them.")
PAGE: Final = 500
ROWS_MAX: Final = 10_000
"""Maximum number of rows in one answer of the gateway."""

TransactionalId = Annotated[str, typer.Argument(callback=not_empty, help="the transactional.id")]
Topic = Annotated[str, typer.Option(help="the topic")]
Partition = Annotated[int, typer.Option(min=0, max=2**31 - 1, help="its partition")]


def _states(given: list[str] | None) -> list[str] | None:
    from oncelog_gateway.resources import TransactionState

    return given and as_spelled(given, get_args(TransactionState))


@app.command("list")
def list_transactions(
    state: Annotated[
        list[str] | None,
        typer.Option(
            callback=_states,
            help="Empty, Ongoing, PrepareCommit, PrepareAbort, CompleteCommit, CompleteAbort, Dead or "
            "PrepareEpochFence; repeatable",
        ),
    ] = None,
    producer_id: Annotated[
        list[int] | None,
        typer.Option(
            min=0, max=INT64_MAX, help="only transactions of this producer id; repeatable"
        ),
    ] = None,
    min_duration_ms: Annotated[
        int | None,
        typer.Option(min=0, max=INT64_MAX, help="only open transactions older than this"),
    ] = None,
    id_pattern: Annotated[
        str,
        typer.Option(help="only ids that match; * matches any characters", show_default=False),
    ] = "",
    coordinator: Annotated[
        int | None,
        typer.Option(min=0, max=2**31 - 1, help="only transactions that this node coordinates"),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="maximum number of rows")] = 1_000,
    gateway: Gateway = "",
    output: AsOutput = None,
) -> None:
    """List the transactional ids of every coordinator."""
    filters = {
        "state": state,
        "producer_id": producer_id,
        "min_duration_ms": min_duration_ms,
        "id_pattern": id_pattern,
        "coordinator": coordinator,
    }
    rows, total, incomplete = _pages(Rest(gateway), filters, limit)
    if not printed_as_json(rows, output):
        show_rows(
            {
                "transactional id": "transactional_id",
                "state": lambda row: row["state"] + (" late" if row["is_late"] else ""),
                ">age": lambda row: duration(row["age_ms"]),
                "begin": lambda row: moment(row["start_time_ms"]),
                "last change": lambda row: moment(row["last_update_time_ms"]),
                ">timeout": timeout_of,
                ">coordinator": "coordinator",
                ">pid": "producer_id",
                ">epoch": "producer_epoch",
                ">parts": "partition_count",
            },
            rows,
            empty="No transaction matches" if any(filters.values()) else "No transactions yet",
        )
        if total > len(rows):
            say(f"{len(rows)} of {total}; --limit shows more")
    warn_of_incomplete(incomplete)


@app.command("describe")
def describe_transaction(
    transactional_id: TransactionalId, gateway: Gateway = "", output: AsOutput = None
) -> None:
    """Show one transaction, its partitions, and its first offset in each."""
    found: TransactionDetail = Rest(gateway).get(f"/v1/transactions/{quoted(transactional_id)}")
    if printed_as_json(found, output):
        return
    show_fields(
        [
            ("transactional id", found["transactional_id"]),
            ("state", found["state"] + (", longer than its timeout" if found["is_late"] else "")),
            ("age", duration(found["age_ms"])),
            ("begin", moment(found["start_time_ms"])),
            ("last change", moment(found["last_update_time_ms"])),
            ("timeout", timeout_of(found)),
            *two_phase_fields(found),
            ("producer", f"{found['producer_id']}, epoch {found['producer_epoch']}"),
            ("coordinator", f"node {found['coordinator']}, shard {found['shard']}"),
            ("producer epoch", epoch_use(found["state"], found["transaction_version"])),
            ("trace", found.get("trace_url") or found.get("trace_id") or "–"),
        ]
    )
    columns: Columns[TransactionPartition] = {
        "partition": of_partition,
        ">start offset": "start_offset",
        ">held back": "held_back",
    }
    show_rows(columns, found["partitions"], empty="no partitions")


@app.command("explain")
def explain(
    subject: Annotated[
        str,
        typer.Argument(
            callback=not_empty,
            help="a transactional.id, a producer id, a topic-partition, a group or a sink",
        ),
    ],
    kind: Annotated[
        str,
        typer.Option(
            help="transaction, producer, partition, group or sink; only where a name is several",
            show_default=False,
        ),
    ] = "",
    gateway: Gateway = "",
    output: AsOutput = None,
) -> None:
    """Say why something waits or was refused: a verdict, its causes, and the next command."""
    found: Explanation = Rest(gateway).get("/v1/explain", {"subject": subject, "kind": kind})
    if not printed_as_json(found, output):
        show_explanation(found)


@app.command("timeline")
def show_timeline(
    transactional_id: TransactionalId,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="print new events until Ctrl-C")
    ] = False,
    limit: Annotated[
        int, typer.Option(min=1, max=ROWS_MAX, help="maximum number of events, the newest")
    ] = 200,
    gateway: Gateway = "",
    output: AsOutput = None,
) -> None:
    """Show every state, epoch, partition, refusal and marker of a transaction, with its cause."""
    timeline(Rest(gateway), transactional_id, limit, follow=follow, is_json=output == Output.JSON)


@app.command("describe-producers")
def describe_producers(
    topic: Topic, partition: Partition, gateway: Gateway = "", output: AsOutput = None
) -> None:
    """List the producers of a partition, and the open transaction of each."""
    found: list[ActiveProducer] = Rest(gateway).get(
        f"/v1/partitions/{quoted(topic)}/{partition}/producers", {"limit": ROWS_MAX}
    )["producers"]
    if printed_as_json(found, output):
        return
    show_rows(
        {
            ">pid": "producer_id",
            ">epoch": "producer_epoch",
            ">last seq": "last_sequence",
            ">start offset": "current_txn_start_offset",
            ">coord epoch": "coordinator_epoch",
            "transactional id": "transactional_id",
        },
        found,
        empty=f"{topic}-{partition} remembers no producer",
    )


@app.command("find-hanging")
def find_hanging(
    topic: Annotated[str | None, typer.Option(help="only this topic")] = None,
    partition: Annotated[
        int | None, typer.Option(min=0, max=INT32_MAX, help="only this partition of it")
    ] = None,
    broker_id: Annotated[
        int | None,
        typer.Option(min=0, max=INT32_MAX, help="only partitions with a replica on this node"),
    ] = None,
    max_transaction_timeout: Annotated[
        int | None,
        typer.Option(
            min=0, max=INT64_MAX // 60_000, help="only with no record for more minutes than this"
        ),
    ] = None,
    min_idle_ms: Annotated[
        int, typer.Option(min=0, max=INT64_MAX, help="only with no record for this long")
    ] = 0,
    coordinator: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=INT32_MAX,
            help="only with a known transactional.id that this node coordinates",
        ),
    ] = None,
    gateway: Gateway = "",
    output: AsOutput = None,
) -> None:
    """Find transactions that are open in a partition and that no coordinator will end."""
    query = {"topic": topic, "partition": partition, "broker": broker_id, "limit": ROWS_MAX}
    hides = []
    if min_idle_ms:
        query["min_idle_ms"] = min_idle_ms
        hides.append(f"--min-idle-ms {min_idle_ms}")
    if max_transaction_timeout is not None:
        query["max_transaction_timeout_ms"] = max_transaction_timeout * 60_000
        hides.append(f"--max-transaction-timeout {max_transaction_timeout}")
    if coordinator is not None:
        query["coordinator"] = coordinator
        hides.append(f"--coordinator {coordinator}")
    found: HangingPage = Rest(gateway).get("/v1/hanging-transactions", query)
    if not printed_as_json(found, output):
        show_hanging(found, " ".join(hides))
    warn_of_incomplete(found["incomplete"])


app.command("prepared")(list_prepared)
app.command("complete")(complete)
app.command("audit")(audit)


@app.command("markers")
def marker_queues(gateway: Gateway = "", output: AsOutput = None) -> None:
    """Show markers that wait for a node. Read_committed consumers wait until they are written."""
    found: MarkerQueuePage = Rest(gateway).get("/v1/marker-queues", {"limit": ROWS_MAX})
    if not printed_as_json(found["marker_queues"], output):
        show_rows(
            {
                ">marker sender": "marker_sender",
                ">for node": lambda one: "no leader" if one["node"] is None else one["node"],
                ">markers": "marker_count",
                ">oldest": lambda one: duration(one["oldest_age_ms"]),
            },
            found["marker_queues"],
            empty="No marker waits",
        )
    warn_of_incomplete(found["incomplete"])


@app.command("abort")
def abort(
    topic: Topic,
    partition: Partition,
    start_offset: Annotated[
        int,
        typer.Option(min=0, max=INT64_MAX, help="first offset of the transaction in the partition"),
    ],
    producer_epoch: Annotated[
        int | None, typer.Option(min=0, max=32_767, help="producer epoch of the transaction")
    ] = None,
    execute: Execute = False,
    gateway: Gateway = "",
    output: AsOutput = None,
) -> None:
    """Write an abort marker for a hanging transaction. Refused if a coordinator owns the transaction."""
    answer: AbortResult = Rest(gateway).post(
        "/v1/transactions/abort",
        {
            "topic": topic,
            "partition": partition,
            "start_offset": start_offset,
            "producer_epoch": producer_epoch,
            "dry_run": not execute,
        },
    )
    if printed_as_json(answer, output):
        return
    say(answer["detail"])
    say(f"audit {answer['audit_id']}" if execute else "nothing was written; add --execute to do it")


@app.command("terminate")
def terminate(
    transactional_id: TransactionalId,
    execute: Execute = False,
    gateway: Gateway = "",
    output: AsOutput = None,
) -> None:
    """Fence the producer and abort its transaction, by its coordinator."""
    answer: TerminateResult = Rest(gateway).post(
        f"/v1/transactions/{quoted(transactional_id)}/terminate", {"dry_run": not execute}
    )
    if printed_as_json(answer, output):
        return
    say(answer["detail"])
    say(f"audit {answer['audit_id']}" if execute else "nothing was ended; add --execute to do it")


def _pages(
    rest: Rest, filters: Mapping[str, object], limit: int
) -> tuple[list[Transaction], int, list[Failure]]:
    rows: list[Transaction] = []
    cursor = None
    while True:
        page: TransactionPage = rest.get(
            "/v1/transactions",
            {**filters, "limit": min(PAGE, limit - len(rows)), "cursor": cursor},
        )
        rows += page["transactions"]
        cursor = page["next_cursor"]
        if cursor is None or len(rows) >= limit:
            return rows, page["total"], page["incomplete"]
