"""Commands `mirrormq pipeline archive`, `replay` and `stats`: queues to files, files to exchanges, counts."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mirrormq.cli.pipeline_common import errors_reported, pairs, spark_settings

Uri = Annotated[str, typer.Option(help="Comma-separated AMQP URIs of the cluster's nodes.")]
Master = Annotated[str, typer.Option(help="Spark master, or sc://HOST:PORT of a Connect server.")]
Conf = Annotated[list[str] | None, typer.Option(help="KEY=VALUE for Spark; may be repeated.")]

DEFAULT_URI = "amqp://guest:guest@127.0.0.1:5672/%2F"


def archive(
    queues: Annotated[str, typer.Option(help="Regular expression of the queues to archive.")],
    to: Annotated[str, typer.Option(help="Directory of the archive, on any file system of Spark.")],
    uri: Uri = DEFAULT_URI,
    file_format: Annotated[str, typer.Option("--format", help="parquet, delta or iceberg.")] = "parquet",
    partition_by: Annotated[str, typer.Option(help="Directories: date, hour, queue.")] = "date,queue",
    once: Annotated[bool, typer.Option("--once", help="Archive the messages present now, then end.")] = False,
    trigger: Annotated[str, typer.Option(help="Interval between batches.")] = "10s",
    compact: Annotated[bool, typer.Option("--compact", help="Merge small files, also at the end.")] = False,
    retention: Annotated[str | None, typer.Option(help="Delete days older than this, such as 30d.")] = None,
    upkeep: Annotated[str, typer.Option(help="Interval of --compact and --retention.")] = "10m",
    typed_headers: Annotated[
        bool, typer.Option("--typed-headers", help="Keep the types of headers, for a replay.")
    ] = False,
    option: Annotated[
        list[str] | None, typer.Option(help="KEY=VALUE for the source, such as maxMessagesPerTrigger=10000.")
    ] = None,
    master: Master = "local[*]",
    conf: Conf = None,
) -> None:
    """Move the messages of queues into Parquet files or a table, each exactly once.

    After a failure, run the command again: it continues where it stopped. Ctrl-C stops after the current
    batch.

    \b
    Example:
      mirrormq pipeline archive --queues "orders.*" --to var/archive --once
    """
    with errors_reported("archive"):
        from mirrormq.spark.jobs.archive import ArchiveOptions, run

        columns = tuple(name.strip() for name in partition_by.split(",") if name.strip())
        count = run(
            ArchiveOptions(
                uri, queues, to, columns, once, trigger, compact,
                pairs("--option", option or []), master, spark_settings(conf or []), file_format,
                retention, upkeep, typed_headers,
            )
        )  # fmt: skip
        print(f"{count:,} messages archived in {to}")


def replay(
    source: Annotated[str, typer.Option("--from", help="Directory of an archive.")],
    uri: Uri = DEFAULT_URI,
    where: Annotated[str | None, typer.Option(help="SQL condition that selects messages.")] = None,
    exchange: Annotated[
        str | None, typer.Option(help="Exchange to publish to; defaults to the original one.")
    ] = None,
    routing_key: Annotated[
        str | None, typer.Option(help="Routing key to publish with; defaults to the original one.")
    ] = None,
    queue: Annotated[str | None, typer.Option(help="Queue to publish all messages to.")] = None,
    parallel: Annotated[int, typer.Option(help="Queues of the archive to publish at the same time.")] = 1,
    rate: Annotated[str | None, typer.Option(help="Upper limit of the rate, such as 1000/s.")] = None,
    speed: Annotated[
        str | None, typer.Option(help="Keep the original intervals, at a speed such as 2x.")
    ] = None,
    progress: Annotated[Path | None, typer.Option(help="File that records the progress.")] = None,
    master: Master = "local[*]",
    conf: Conf = None,
) -> None:
    """Publish the messages of an archive again, each exactly once.

    After a failure, run the command again: it continues where it stopped. To publish everything once more,
    delete the progress file.

    \b
    Example:
      mirrormq pipeline replay --from var/archive --where "date = '2026-01-31'" --exchange again --rate 5000/s
    """
    with errors_reported("replay"):
        from mirrormq.spark.jobs.replay import ReplayOptions, run

        settings = spark_settings(conf or [])
        count = run(
            ReplayOptions(
                uri, source, where, exchange, rate, speed, progress, routing_key, queue, parallel, master,
                settings,
            )
        )  # fmt: skip
        print(f"{count:,} messages published")


def stats(
    to: Annotated[str, typer.Option(help="Directory for the windows and the summary.")],
    uri: Uri = DEFAULT_URI,
    window: Annotated[str, typer.Option(help="Length of a window.")] = "10s",
    once: Annotated[bool, typer.Option("--once", help="Count the messages present now, then end.")] = False,
    trigger: Annotated[str, typer.Option(help="Interval between batches.")] = "5s",
    queue: Annotated[str, typer.Option(help="Queue that collects traces and events.")] = "mirrormq.stats",
    master: Master = "local[*]",
    conf: Conf = None,
) -> None:
    """Count the messages of a cluster: rates, sizes and ages by queue and node, in windows.

    Publishes and deliveries are counted while tracing is on: mirrormqctl trace_on.

    \b
    Example:
      mirrormq pipeline stats --to var/stats --window 10s
    """
    with errors_reported("stats"):
        from mirrormq.spark.jobs.stats import StatsOptions, run

        count = run(StatsOptions(uri, to, window, once, trigger, queue, master, spark_settings(conf or [])))
        print(f"{count:,} traces, events and ticks counted in {to}")
