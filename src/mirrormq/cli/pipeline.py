"""Command `mirrormq pipeline`: the Spark jobs. Spark is loaded only when a job runs."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mirrormq.cli import pipeline_queues
from mirrormq.cli.help_pages import CommandGroup
from mirrormq.cli.pipeline_common import errors_reported, spark_settings

if TYPE_CHECKING:
    from mirrormq.spark.audit.findings import Findings
    from mirrormq.spark.jobs.live_audit import LiveAuditOptions as LiveOptions

app = typer.Typer(
    cls=CommandGroup,
    help="""Run Spark jobs that archive, replay, count and audit the messages of queues.

    \b
    Example:
      mirrormq pipeline archive --queues "orders.*" --to var/archive --once
      mirrormq pipeline replay --from var/archive --exchange again
    """,
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.callback()
def _jobs() -> None:
    """Run Spark jobs that archive, replay, count and audit the messages of queues."""


app.command()(pipeline_queues.archive)
app.command()(pipeline_queues.replay)
app.command()(pipeline_queues.stats)


@app.command()
def package(
    to: Annotated[Path, typer.Option(help="File to write.")] = Path("mirrormq-spark.tar.gz"),
) -> None:
    """Pack MirrorMQ and its libraries for the workers of a Spark cluster that do not have them.

    The workers need the same version of Python and the same kind of processor as this machine.

    \b
    Example:
      mirrormq pipeline package --to mirrormq-spark.tar.gz
      spark-submit --archives mirrormq-spark.tar.gz#mirrormq-spark \\
        --conf spark.executorEnv.PYTHONPATH=./mirrormq-spark job.py
    """
    with errors_reported("package", "run it again"):
        from mirrormq.spark.worker_archive import python_version, write_archive

        size = write_archive(to)
        print(f"{to}: {size / 1e6:.0f} MB for workers with {python_version()}")


@app.command()
def audit(
    history: Annotated[
        str | None, typer.Option(help="Directory with a history, as mirrormq chaos writes it.")
    ] = None,
    live: Annotated[bool, typer.Option("--live", help="Follow a cluster's traces instead.")] = False,
    uri: Annotated[
        str | None, typer.Option(help="AMQP URIs of the cluster to follow, or to send the result to.")
    ] = None,
    report: Annotated[Path | None, typer.Option(help="Write the report to this HTML file.")] = None,
    queues: Annotated[
        str, typer.Option(help="With --live: regular expression of the queues to check.")
    ] = ".*",
    duration: Annotated[str | None, typer.Option("--for", help="With --live: duration, such as 10m.")] = None,
    trigger: Annotated[str, typer.Option(help="With --live: interval between checks.")] = "5s",
    grace: Annotated[str, typer.Option(help="With --live: largest delay of a trace.")] = "5s",
    state: Annotated[
        Path | None, typer.Option(help="With --live: directory of the state, to continue later.")
    ] = None,
    master: Annotated[
        str, typer.Option(help="Spark master, or sc://HOST:PORT of a Connect server.")
    ] = "local[*]",
    conf: Annotated[list[str] | None, typer.Option(help="KEY=VALUE for Spark; may be repeated.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")] = False,
) -> None:
    """Check a history of load and faults, or a live trace, for lost, duplicated and reordered messages.

    The exit code is 0 if no serious problem was found, 1 if one was found (a lost confirmed message, a
    message that no client published, a redelivery without its flag, two masters in one epoch, replicas that
    differ, messages out of order, no publishes at all), 2 if the history cannot be checked. With --live,
    which needs mirrormqctl trace_on, the audit covers what a trace shows and prints each finding at once.

    \b
    Examples:
      mirrormq pipeline audit --history var/history --report audit.html --master "local[2]"
      mirrormq pipeline audit --live --uri amqp://guest:guest@127.0.0.1:5672/%2F --for 10m
    """
    from mirrormq.spark.pipeline_errors import PipelineError

    with errors_reported("audit", "nothing was written" if not state else "run it again to continue"):
        from mirrormq.spark.jobs.live_audit import LiveAuditOptions

        settings = spark_settings(conf or [])
        if live == (history is not None):
            raise PipelineError("give either --history DIRECTORY or --live")
        if history is not None:
            _history(history, report, master, settings, uri, as_json)
        else:
            where = uri or pipeline_queues.DEFAULT_URI
            options = (where, queues, report, duration, trigger, grace, state, master, settings)
            _live(LiveAuditOptions(*options), as_json)


def _history(
    history: str, report: Path | None, master: str, settings: dict[str, str], uri: str | None, as_json: bool
) -> None:
    from mirrormq.spark.jobs.audit import FAILED, PASSED, AuditOptions, run

    findings = run(AuditOptions(history, report, master, settings, uri))
    if as_json:
        print(json.dumps(findings.as_dict()))
    else:
        print("\n".join(_lines(findings, report)))
    raise typer.Exit(PASSED if findings.passed else FAILED)


def _live(options: LiveOptions, as_json: bool) -> None:
    from mirrormq.spark.jobs.audit import FAILED, PASSED
    from mirrormq.spark.jobs.live_audit import run

    book = run(options, (lambda text: None) if as_json else partial(print, flush=True))
    if as_json:
        print(json.dumps(book.as_dict()))
    else:
        print(f"{'PASSED' if book.passed else 'FAILED'}: {book.verdict}.")
        print("  " + "  ".join(f"{name} {count:,}" for name, count in book.totals.items()))
        if options.report is not None:
            print(f"The report is {options.report}.")
    raise typer.Exit(PASSED if book.passed else FAILED)


def _lines(findings: Findings, report: Path | None) -> list[str]:
    """Return the findings for a terminal: verdict, counts, problems, latencies, and the path of the
    report."""
    counts = ("attempted", "confirmed", "ok", "lost", "unexpected", "duplicated", "recovered")
    lines = [
        f"{'PASSED' if findings.passed else 'FAILED'}: {findings.verdict}.",
        "  " + "  ".join(f"{name} {findings.totals[name]:,}" for name in counts),
    ]
    lines += [f"  {'!' if problem.serious else '-'} {problem.title}" for problem in findings.problems]
    for row in findings.latencies:
        times = ", ".join(f"{name} {row[name] / 1e6:,.1f} ms" for name in ("p50", "p99", "max"))
        lines.append(f"  time to {row['measure']}: {times}")
    lines += _silences(findings)
    return [*lines, f"The report is {report}."] if report else lines


def _silences(findings: Findings) -> list[str]:
    """Return the longest times without a confirm, the cluster's first. A node's time is longer if that
    node was down."""
    cluster_wide = [row for row in findings.cluster_silences if row["kind"] == "confirmed"]
    nodes = [row for row in findings.silences if row["kind"] == "confirmed"]
    lines = ["  longest time without a confirm:"] if cluster_wide else []
    lines += [
        f"    {row['node']}: {_milliseconds(row)} (the outage for clients that may connect to any node)"
        for row in cluster_wide
    ]
    for row in nodes:
        faults = [_fault(fault) for fault in findings.faults if _explains(fault, row)]
        away = f" (no outage of the cluster: {', '.join(faults)})" if faults else ""
        lines.append(f"    {row['node']}: {_milliseconds(row)}{away}")
    return lines


def _milliseconds(row: dict[str, Any]) -> str:
    return f"{row['silence_ns'] / 1e6:,.0f} ms"


def _explains(fault: dict[str, Any], silence: dict[str, Any]) -> bool:
    """Report whether the fault hit this node during its silence."""
    over = fault["end_ns"] is not None and fault["end_ns"] < silence["from_ns"]
    here = (fault["run"], fault["node"]) == (silence["run"], silence["node"])
    return here and not over and fault["begin_ns"] <= silence["to_ns"]


def _fault(fault: dict[str, Any]) -> str:
    if fault["end_ns"] is None:
        return f"{fault['what']} of this node, permanent"
    return f"{fault['what']} of this node, for {(fault['end_ns'] - fault['begin_ns']) / 1e9:,.1f} s"
