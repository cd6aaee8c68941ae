"""Command `mirrormq chaos`: load and faults on a temporary cluster."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from mirrormq.cli import program_exit
from mirrormq.cli.processes import ClusterError
from mirrormq.cli.program_exit import ended_by_signals

EXIT_NO_VERDICT = 2

KINDS = "kill, freeze, restart, partition (needs root), policy"

EXAMPLE = """Start a cluster, load it, inject faults, and check that no confirmed message was lost.

The exit code is 0 if no confirmed message was lost, 1 if one was lost, 2 if there is no verdict.

\b
Example: one minute of kills, freezes and restarts on three nodes, with the history in Parquet files:
  mirrormq chaos --history /tmp/history --duration 60

\b
Example: ten minutes with kills and network partitions, then the audit of the history:
  mirrormq chaos --history /tmp/history --duration 600 --fault kill --fault partition
  mirrormq pipeline audit --history /tmp/history --report report.html
"""


def chaos(
    history: Annotated[Path, typer.Option(help="Empty directory for the history.")],
    nodes: Annotated[int, typer.Option(help="Number of nodes.", min=1, max=9)] = 3,
    duration: Annotated[float, typer.Option(help="Seconds of load.", min=1)] = 60.0,
    fault: Annotated[
        list[str] | None, typer.Option(help=f"Fault to inject; may be repeated: {KINDS}.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the faults; equal seeds inject equal faults.")] = 0,
    queues: Annotated[int, typer.Option(help="Number of mirrored queues.", min=1)] = 2,
    publishers: Annotated[int, typer.Option(help="Number of publishers with confirms.", min=1)] = 3,
    consumers: Annotated[int, typer.Option(help="Number of consumers; at least one per queue.", min=1)] = 3,
    rate: Annotated[float, typer.Option(help="Messages per second of each publisher.", min=1)] = 500.0,
    conf: Annotated[Path | None, typer.Option(help="Configuration file of the nodes.")] = None,
) -> None:
    try:
        from mirrormq.chaos.chaos_run import ChaosError, ChaosOptions, ChaosRun
        from mirrormq.chaos.process_faults import KINDS as KNOWN
    except ImportError as missing:
        _fail(f"the package {missing.name} is missing: install mirrormq[spark]")
    kinds = tuple(fault or ("kill", "freeze", "restart", "policy"))
    unknown = [kind for kind in kinds if kind not in KNOWN]
    if unknown:
        _fail(f"unknown fault {unknown[0]!r}: --fault must be one of {', '.join(KNOWN)}")
    if "partition" in kinds:
        from mirrormq.testing.network_namespaces import NetworkNamespaces

        if (obstacle := NetworkNamespaces.obstacle()) is not None:
            _fail(f"{obstacle}; run without --fault partition")
    options = ChaosOptions(
        history=history, nodes=nodes, duration_s=duration, queues=queues, publishers=publishers,
        consumers=consumers, rate=rate, kinds=kinds, seed=seed, conf=_text_of(conf),
    )  # fmt: skip
    try:
        with ended_by_signals():
            outcome = ChaosRun(options, _show if sys.stderr.isatty() else _log).run()
    except (ChaosError, ClusterError) as error:
        _fail(str(error))
    except KeyboardInterrupt:
        _fail(
            f"interrupted; there is no verdict, and the history in {history} is incomplete",
            program_exit.INTERRUPTED,
        )
    if sys.stderr.isatty():
        sys.stderr.write("\r\x1b[K")
    print(f"{outcome.faults} faults (seed {seed})")
    print("\n".join(outcome.verdict.lines()))
    for queue, count in outcome.left.items():
        print(f"{queue} could not be emptied: {count:,} messages remain")
    if outcome.left or not outcome.verdict.sound:
        raise typer.Exit(1)


chaos.__doc__ = EXAMPLE


def _text_of(conf: Path | None) -> str:
    if conf is None:
        return ""
    try:
        return conf.read_text()
    except OSError as error:
        _fail(f"{conf} cannot be read: {error.strerror}; --conf names a configuration file")
    except ValueError:
        _fail(f"{conf} is not a text file; --conf names a configuration file")


def _fail(sentence: str, code: int = EXIT_NO_VERDICT) -> NoReturn:
    print(f"mirrormq chaos: {sentence}", file=sys.stderr)
    raise typer.Exit(code)


def _show(part: float, what: str) -> None:
    sys.stderr.write(f"\r{part:4.0%}  {what}\x1b[K")
    sys.stderr.flush()


def _log(part: float, what: str) -> None:
    if not what.startswith("confirmed"):
        print(f"{part:4.0%}  {what}", file=sys.stderr, flush=True)
