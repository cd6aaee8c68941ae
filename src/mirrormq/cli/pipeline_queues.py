"""`mirrormq pipeline archive` and `replay`: queues into files, files into exchanges."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mirrormq.cli.pipeline_common import pairs, spark_settings, told

Uri = Annotated[str, typer.Option(help="AMQP URIs of the cluster's nodes, with commas between them.")]
Master = Annotated[str, typer.Option(help="Spark master, or sc://HOST:PORT of a Connect server.")]
Conf = Annotated[list[str] | None, typer.Option(help="KEY=VALUE for Spark; may be repeated.")]

DEFAULT_URI = "amqp://guest:guest@127.0.0.1:5672/%2F"


def archive(
    queues: Annotated[str, typer.Option(help="Regular expression of the names of queues to archive.")],
    to: Annotated[str, typer.Option(help="Directory of the archive, on any file system Spark knows.")],
    uri: Uri = DEFAULT_URI,
    file_format: Annotated[str, typer.Option("--format", help="parquet or delta.")] = "parquet",
    partition_by: Annotated[str, typer.Option(help="date, queue, or both.")] = "date,queue",
    once: Annotated[bool, typer.Option("--once", help="Archive what is there now, then end.")] = False,
    trigger: Annotated[str, typer.Option(help="How often to look for messages.")] = "10s",
    compact: Annotated[bool, typer.Option("--compact", help="Put small files together at the end.")] = False,
    option: Annotated[
        list[str] | None, typer.Option(help="KEY=VALUE for the source, as maxMessagesPerTrigger=10000.")
    ] = None,
    master: Master = "local[*]",
    conf: Conf = None,
) -> None:
    """Move the messages of queues into Parquet files or a Delta table, each of them once.

    Whatever dies meanwhile, run the command again: it goes on where it was. Ctrl-C stops after the batch
    that is being written.

    \b
    Example:
      mirrormq pipeline archive --queues "orders.*" --to var/archive --once
    """
    from mirrormq.spark.jobs.archive import ArchiveOptions, run

    with told("archive"):
        columns = tuple(name.strip() for name in partition_by.split(",") if name.strip())
        count = run(
            ArchiveOptions(
                uri, queues, to, columns, once, trigger, compact,
                pairs("--option", option or []), master, spark_settings(conf or []), file_format,
            )
        )  # fmt: skip
        print(f"{count:,} messages archived in {to}")


def replay(
    source: Annotated[str, typer.Option("--from", help="Directory of an archive.")],
    uri: Uri = DEFAULT_URI,
    where: Annotated[str | None, typer.Option(help="Only messages for which this SQL is true.")] = None,
    exchange: Annotated[
        str | None, typer.Option(help="Publish to this exchange; else to the one they came by.")
    ] = None,
    rate: Annotated[str | None, typer.Option(help="No faster than this, as 1000/s.")] = None,
    speed: Annotated[str | None, typer.Option(help="As far apart as their time stamps say, but 2x.")] = None,
    progress: Annotated[Path | None, typer.Option(help="File that says what was published.")] = None,
    master: Master = "local[*]",
    conf: Conf = None,
) -> None:
    """Publish the messages of an archive again, each of them once.

    Whatever dies meanwhile, run the command again: it goes on where it was. To publish all of it once more,
    delete the file that says what was published.

    \b
    Example:
      mirrormq pipeline replay --from var/archive --where "date = '2026-01-31'" --exchange again --rate 5000/s
    """
    from mirrormq.spark.jobs.replay import ReplayOptions, run

    with told("replay"):
        settings = spark_settings(conf or [])
        count = run(ReplayOptions(uri, source, where, exchange, rate, speed, progress, master, settings))
        print(f"{count:,} messages published")


def stats(
    to: Annotated[str, typer.Option(help="Directory for the windows and the summary.")],
    uri: Uri = DEFAULT_URI,
    window: Annotated[str, typer.Option(help="How long a window is.")] = "10s",
    once: Annotated[bool, typer.Option("--once", help="Count what is there now, then end.")] = False,
    trigger: Annotated[str, typer.Option(help="How often to look for more.")] = "5s",
    queue: Annotated[str, typer.Option(help="The queue that collects traces and events.")] = "mirrormq.stats",
    master: Master = "local[*]",
    conf: Conf = None,
) -> None:
    """Count what flows through the cluster: rates, sizes and ages by queue and node, in windows.

    Publishes and deliveries are seen while tracing is on: mirrormqctl trace_on.

    \b
    Example:
      mirrormq pipeline stats --to var/stats --window 10s
    """
    from mirrormq.spark.jobs.stats import StatsOptions, run

    with told("stats"):
        count = run(StatsOptions(uri, to, window, once, trigger, queue, master, spark_settings(conf or [])))
        print(f"{count:,} traces, events and ticks counted in {to}")
