"""`oncelog transactions audit`: runs the Spark job that checks whole logs for faults (`oncelog_server.log_audit`)."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from oncelog.errors import OncelogError
from oncelog.wording import counted
from oncelog_server.cli.client_config import login_properties
from oncelog_server.cli.options import AsOutput, Bootstrap
from oncelog_server.cli.tables import duration, of_partition, printed_as_json, say, show_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from oncelog_server.log_audit.report import Report


def audit(
    folders: Annotated[
        list[Path] | None,
        typer.Argument(
            help="data folders of stopped nodes, all of a cluster's; none: the running cluster at --bootstrap",
            metavar="[FOLDER]...",
            show_default=False,
        ),
    ] = None,
    topic: Annotated[
        list[str] | None, typer.Option(help="of a running cluster only this topic; repeatable")
    ] = None,
    save: Annotated[
        str, typer.Option(metavar="FOLDER", help="keep all that was found there, as Parquet")
    ] = "",
    master: Annotated[
        str, typer.Option(metavar="URL", help="of Spark, where the work is done")
    ] = "local[*]",
    bootstrap: Bootstrap = "",
    output: AsOutput = None,
) -> None:
    """Look for hanging transactions, gaps, duplicates and damage, and for what held readers back, in whole logs.

    It needs `pip install 'oncelog[spark]'` and Java. It reads, and changes nothing. Exit code 1: something is wrong.
    """
    if folders and topic:
        raise OncelogError("--topic is for a running cluster: folders are read whole")
    for folder in folders or ():
        if not folder.is_dir():
            raise OncelogError(f"there is no folder {folder}; name the data folder of a node")
    try:
        from oncelog_server.log_audit.job import audit_cluster, audit_folders
        from oncelog_server.log_audit.report import report_of
    except ImportError as error:
        raise OncelogError(
            f"the audit runs on Spark ({error}): pip install 'oncelog[spark]'"
        ) from error
    spark = _session(master)
    try:
        if folders:
            found = audit_folders(spark, folders)
        else:
            found = audit_cluster(spark, _options(bootstrap, topic))
        report = report_of(found)
        if save:
            found.save(save)
    finally:
        spark.stop()
    if not printed_as_json(report, output):
        _show(report)
    if report["fault_count"]:
        raise typer.Exit(1)


def _options(bootstrap: str, topics: list[str] | None) -> dict[str, str]:
    login = {f"kafka.{name}": value for name, value in login_properties(bootstrap).items()}
    wanted = {"subscribe": ",".join(topics)} if topics else {}
    return {"bootstrap.servers": bootstrap, **wanted, **login}


def _session(master: str) -> "SparkSession":
    """Return a Spark session that prints only errors on the terminal."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master(master).appName("oncelog audit")
    spark = builder.config("spark.ui.showConsoleProgress", "false").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def _show(report: "Report") -> None:
    from oncelog_server.log_audit.report import sentence_of

    ended = report["transactions"]
    say(
        f"{report['batches']} batches in {counted(report['logs'], 'log')} of "
        f"{counted(report['partitions'], 'partition')}: {ended.get('commit', 0)} committed and "
        f"{ended.get('abort', 0)} aborted transactions"
    )
    show_rows(
        {
            "partition": of_partition,
            ">offset": "offset",
            "": lambda one: "fault" if one["is_fault"] else "note",
            "what": sentence_of,
            "replica": "replica",
        },
        report["first_findings"],
        empty="Nothing is wrong",
    )
    more = sum(report["findings"].values()) - len(report["first_findings"])
    if more:
        say(f"{more} more findings are not shown: --save keeps them all")
    show_rows(
        {
            "partition": of_partition,
            ">LSO stood at": "offset",
            ">for": lambda one: duration(one["stood_ms"]),
            ">offsets behind": "total",
            "because of": lambda one: one["transactional_id"] or f"producer {one['producer_id']}",
            "until": "outcome",
        },
        report["standstills"],
        empty="No transaction held an LSO",
    )
