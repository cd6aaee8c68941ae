"""`mirrormq pipeline`: the jobs that run on Spark. Nothing here loads Spark before a job is asked for."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mirrormq.cli import pipeline_queues
from mirrormq.cli.pipeline_common import EXIT_INTERRUPTED, EXIT_UNUSABLE, spark_settings

if TYPE_CHECKING:
    from mirrormq.spark.audit.findings import Findings

app = typer.Typer(
    help="Jobs on Spark over what flows through the queues.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.callback()
def _jobs() -> None:
    """Jobs on Spark over what flows through the queues."""


app.command()(pipeline_queues.archive)
app.command()(pipeline_queues.replay)
app.command()(pipeline_queues.stats)


@app.command()
def audit(
    history: Annotated[str, typer.Option(help="Directory with a history, as mirrormq chaos writes it.")],
    report: Annotated[Path | None, typer.Option(help="Write the report to this HTML file.")] = None,
    master: Annotated[
        str, typer.Option(help="Spark master, or sc://HOST:PORT of a Connect server.")
    ] = "local[*]",
    conf: Annotated[list[str] | None, typer.Option(help="KEY=VALUE for Spark; may be repeated.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")] = False,
) -> None:
    """Judge a history of load and faults: was anything confirmed lost, doubled, reordered?

    The exit code is 0 when nothing serious was found, 1 when something was (a confirmed message lost, a
    message nobody sent, a redelivery without its flag, two masters in one epoch, replicas that differ,
    messages out of order, no publishes at all), 2 when the history cannot be judged.

    \b
    Example:
      mirrormq pipeline audit --history var/history --report audit.html --master "local[2]"
    """
    from mirrormq.spark.errors import PipelineError
    from mirrormq.spark.jobs.audit import FAILED, PASSED, Options, run

    try:
        found = run(Options(history, report, master, spark_settings(conf or [])))
    except PipelineError as error:
        print(f"mirrormq pipeline audit: {error}", file=sys.stderr)
        raise typer.Exit(EXIT_UNUSABLE) from None
    except KeyboardInterrupt:
        print("mirrormq pipeline audit: stopped; nothing was written", file=sys.stderr)
        raise typer.Exit(EXIT_INTERRUPTED) from None
    if as_json:
        print(json.dumps(found.as_dict()))
    else:
        print("\n".join(_lines(found, report)))
    raise typer.Exit(PASSED if found.passed else FAILED)


def _lines(found: Findings, report: Path | None) -> list[str]:
    """The findings for a terminal: the verdict, the classes, what there is to know, where the page is."""
    counts = ("attempted", "confirmed", "ok", "lost", "unexpected", "duplicated", "recovered")
    lines = [
        f"{'PASSED' if found.passed else 'FAILED'}: {found.verdict}.",
        "  " + "  ".join(f"{name} {found.totals[name]:,}" for name in counts),
    ]
    lines += [f"  {'!' if problem.serious else '-'} {problem.title}" for problem in found.problems]
    for row in found.latencies:
        times = ", ".join(f"{name} {row[name] / 1e6:,.1f} ms" for name in ("p50", "p99", "max"))
        lines.append(f"  time to {row['measure']}: {times}")
    longest = [row for row in found.silences if row["kind"] == "confirmed"]
    lines += [
        f"  longest time without a confirm at {r['node']}: {r['silence_ns'] / 1e6:,.0f} ms" for r in longest
    ]
    return [*lines, f"The report is {report}."] if report else lines
