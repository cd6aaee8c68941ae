"""Command `mirrormq perf`: options, progress line and output of the load generator."""

from __future__ import annotations

import json
import signal
import sys
from typing import Annotated

import typer

from mirrormq.perf.perf_options import DEFAULT_URI, PerfError, PerfOptions

BAR_WIDTH = 24

EXAMPLE = """Load a broker with messages and measure throughput and latency.

\b
Example: one publisher and one consumer for 10 seconds, persistent messages, at most 1000 unconfirmed:
  mirrormq perf --uri amqp://guest:guest@127.0.0.1:5672/%2F --durable --persistent --confirm-window 1000

\b
Example: 200 connections with one message in flight each, latency percentiles as JSON:
  mirrormq perf --mode latency --connections 200 --duration 5 --json
"""


def perf(
    uri: Annotated[
        list[str] | None, typer.Option(help="Broker, amqp:// or amqps://; repeat to distribute connections.")
    ] = None,
    consume_uri: Annotated[
        list[str] | None, typer.Option(help="Broker of the consumers; defaults to --uri.")
    ] = None,
    mode: Annotated[str, typer.Option(help="publish, consume, both or latency.")] = "both",
    queue: Annotated[str, typer.Option(help="Queue to use; declared if absent.")] = "perf",
    queues: Annotated[int, typer.Option(help="Number of queues, named QUEUE-0001 and so on.")] = 1,
    queue_type: Annotated[str, typer.Option(help="Value of x-queue-type, e.g. quorum.")] = "",
    exchange: Annotated[str, typer.Option(help="Exchange to publish to; it is bound to the queue.")] = "",
    exchange_type: Annotated[str, typer.Option(help="Type of the exchange.")] = "direct",
    producers: Annotated[int, typer.Option(help="Number of publishing connections.")] = 1,
    consumers: Annotated[int, typer.Option(help="Number of consuming connections.")] = 1,
    connections: Annotated[int, typer.Option(help="Number of connections of --mode latency.")] = 200,
    size: Annotated[int, typer.Option(help="Body size in bytes.")] = 100,
    vary: Annotated[bool, typer.Option("--vary", help="Vary the size from 0.5 to 1.5 times --size.")] = False,
    persistent: Annotated[
        bool, typer.Option("--persistent", help="Publish persistent messages (delivery mode 2).")
    ] = False,
    durable: Annotated[bool, typer.Option("--durable/--transient", help="Durability of the queue.")] = False,
    confirm_window: Annotated[
        int, typer.Option(help="Largest number of unconfirmed messages; 0 = no confirms.")
    ] = 1000,
    batch: Annotated[int, typer.Option(help="Largest number of messages per send; 0 = automatic.")] = 0,
    prefetch: Annotated[int, typer.Option(help="Consumer prefetch; 0 = unlimited.")] = 500,
    ack_every: Annotated[int, typer.Option(help="Acknowledge every N deliveries together.")] = 100,
    auto_ack: Annotated[bool, typer.Option("--auto-ack", help="Consume without acknowledgements.")] = False,
    rate: Annotated[float, typer.Option(help="Messages per second of each producer; 0 = no limit.")] = 0.0,
    duration: Annotated[float, typer.Option(help="Seconds to measure.")] = 10.0,
    warmup: Annotated[float, typer.Option(help="Seconds to run before measuring.")] = 1.0,
    messages: Annotated[int, typer.Option(help="Stop after N messages instead of --duration.")] = 0,
    purge: Annotated[bool, typer.Option("--purge", help="Empty the queue first.")] = False,
    keep: Annotated[bool, typer.Option("--keep", help="Do not delete the queue after --mode both.")] = False,
    timeout: Annotated[float, typer.Option(help="Seconds to wait for the broker's replies.")] = 30.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    options = PerfOptions(
        uris=uri or [DEFAULT_URI], consume_uris=consume_uri or [], mode=mode, queue=queue, queues=queues,
        queue_type=queue_type, exchange=exchange, exchange_type=exchange_type,
        producers=producers, consumers=consumers, connections=connections, size=size, vary=vary,
        persistent=persistent, durable=durable, confirm_window=confirm_window, batch=batch, prefetch=prefetch,
        ack_every=ack_every, auto_ack=auto_ack, rate=rate, duration=duration, warmup=warmup,
        messages=messages, purge=purge, keep=keep, timeout=timeout,
    )  # fmt: skip
    _run(options, as_json)


perf.__doc__ = EXAMPLE


def _run(options: PerfOptions, as_json: bool) -> None:
    from mirrormq.perf.load_run import run  # Imported here, so that other commands do not load it.

    progress = _show_progress if sys.stderr.isatty() else None
    # Shells start background jobs with SIGINT ignored; it must end the load early all the same.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        report = run(options, progress)
    except PerfError as error:
        _clear_progress()
        print(f"mirrormq perf: {error}", file=sys.stderr)
        raise typer.Exit(1) from None
    _clear_progress()
    if as_json:
        print(json.dumps(report.as_dict()))
    else:
        print("\n".join(report.lines()))


def _show_progress(part: float, published: int, consumed: int) -> None:
    done = round(part * BAR_WIDTH)
    bar = "█" * done + "░" * (BAR_WIDTH - done)
    sys.stderr.write(f"\r{bar} {part:4.0%}  published {published:,}  consumed {consumed:,}\x1b[K")
    sys.stderr.flush()


def _clear_progress() -> None:
    if sys.stderr.isatty():
        sys.stderr.write("\r\x1b[K")


def main() -> None:
    """Run the command by itself, as `python -m mirrormq.perf` does."""
    typer.run(perf)
