"""`mirrormq chaos`: load with faults on a cluster of its own."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from mirrormq.cli.pipeline_common import EXIT_INTERRUPTED
from mirrormq.cli.processes import ClusterError
from mirrormq.cli.signals import ended_by_signals

EXIT_NO_VERDICT = 2

KINDS = "kill, freeze, restart, partition (needs root), policy"

EXAMPLE = """Start a cluster, load it, inject faults, and check that no confirmed message was lost.

The exit code is 0 when nothing was lost, 1 when something was, 2 when there is no verdict.

\b
Example: one minute of kills, freezes and restarts on three nodes; the history is kept as Parquet:
  mirrormq chaos --history /tmp/history --duration 60

\b
Example: ten minutes with network partitions too, then the audit of the history:
  mirrormq chaos --history /tmp/history --duration 600 --fault kill --fault partition
  mirrormq pipeline audit --history /tmp/history --report report.html
"""


def chaos(
    history: Annotated[Path, typer.Option(help="Where the history goes; an empty directory.")],
    nodes: Annotated[int, typer.Option(help="Nodes of the cluster.", min=1, max=9)] = 3,
    duration: Annotated[float, typer.Option(help="Seconds of load.", min=1)] = 60.0,
    fault: Annotated[list[str] | None, typer.Option(help=f"Repeat for several: {KINDS}.")] = None,
    seed: Annotated[int, typer.Option(help="The same seed draws the same faults.")] = 0,
    queues: Annotated[int, typer.Option(help="Mirrored queues.", min=1)] = 2,
    publishers: Annotated[int, typer.Option(help="Publishers with confirms.", min=1)] = 3,
    consumers: Annotated[int, typer.Option(help="Consumers; at least one per queue.", min=1)] = 3,
    rate: Annotated[float, typer.Option(help="Messages per second and publisher.", min=1)] = 500.0,
    conf: Annotated[Path | None, typer.Option(help="A configuration file for the nodes.")] = None,
) -> None:
    try:
        from mirrormq.chaos.chaos_run import ChaosError, ChaosOptions, ChaosRun
        from mirrormq.chaos.process_faults import KINDS as KNOWN
    except ImportError as missing:
        _fail(f"this needs {missing.name}: install mirrormq[spark]")
    kinds = tuple(fault or ("kill", "freeze", "restart", "policy"))
    unknown = [kind for kind in kinds if kind not in KNOWN]
    if unknown:
        _fail(f"there is no fault {unknown[0]!r}: --fault is one of {', '.join(KNOWN)}")
    if "partition" in kinds:
        from mirrormq.testing.network_namespaces import NetworkNamespaces

        if (obstacle := NetworkNamespaces.obstacle()) is not None:
            _fail(f"{obstacle}; leave out --fault partition")
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
        _fail(f"stopped; there is no verdict, and what is in {history} is not whole", EXIT_INTERRUPTED)
    if sys.stderr.isatty():
        sys.stderr.write("\r\x1b[K")
    print(f"{outcome.faults} faults (seed {seed})")
    print("\n".join(outcome.verdict.lines()))
    for queue, count in outcome.left.items():
        print(f"{queue} could not be emptied: {count:,} messages are left")
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
        _fail(f"{conf} is no text; --conf names a configuration file")


def _fail(sentence: str, code: int = EXIT_NO_VERDICT) -> NoReturn:
    print(f"mirrormq chaos: {sentence}", file=sys.stderr)
    raise typer.Exit(code)


def _show(part: float, what: str) -> None:
    sys.stderr.write(f"\r{part:4.0%}  {what}\x1b[K")
    sys.stderr.flush()


def _log(part: float, what: str) -> None:
    if not what.startswith("confirmed"):
        print(f"{part:4.0%}  {what}", file=sys.stderr, flush=True)
