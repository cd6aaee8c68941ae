"""`mirrormq perf`: the load generator's options, its progress line and its answer."""

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
        list[str] | None, typer.Option(help="Broker, amqp:// or amqps://; repeat to spread connections.")
    ] = None,
    consume_uri: Annotated[
        list[str] | None, typer.Option(help="Where consumers connect; as --uri if not given.")
    ] = None,
    mode: Annotated[str, typer.Option(help="publish, consume, both or latency.")] = "both",
    queue: Annotated[str, typer.Option(help="Queue to use; declared when it is not there.")] = "perf",
    queues: Annotated[int, typer.Option(help="So many queues, QUEUE-0001 and on, shared out.")] = 1,
    queue_type: Annotated[str, typer.Option(help="Declare with x-queue-type, e.g. quorum.")] = "",
    exchange: Annotated[str, typer.Option(help="Publish to this exchange, bound to the queue.")] = "",
    exchange_type: Annotated[str, typer.Option(help="The type it is declared with.")] = "direct",
    producers: Annotated[int, typer.Option(help="Publishing connections.")] = 1,
    consumers: Annotated[int, typer.Option(help="Consuming connections.")] = 1,
    connections: Annotated[int, typer.Option(help="Connections of --mode latency.")] = 200,
    size: Annotated[int, typer.Option(help="Body size in bytes.")] = 100,
    vary: Annotated[bool, typer.Option("--vary", help="Sizes from half to one and a half of it.")] = False,
    persistent: Annotated[bool, typer.Option("--persistent", help="Delivery mode 2.")] = False,
    durable: Annotated[bool, typer.Option("--durable/--transient", help="The queue's durability.")] = False,
    confirm_window: Annotated[
        int, typer.Option(help="Unconfirmed messages at most; 0 = no confirms.")
    ] = 1000,
    batch: Annotated[int, typer.Option(help="Messages per send at most; 0 = choose.")] = 0,
    prefetch: Annotated[int, typer.Option(help="Consumer prefetch; 0 = unlimited.")] = 500,
    ack_every: Annotated[int, typer.Option(help="Acknowledge every n-th delivery with all before.")] = 100,
    auto_ack: Annotated[bool, typer.Option("--auto-ack", help="Consume without acknowledgements.")] = False,
    rate: Annotated[float, typer.Option(help="Messages per second and producer; 0 = no limit.")] = 0.0,
    duration: Annotated[float, typer.Option(help="Seconds to measure.")] = 10.0,
    warmup: Annotated[float, typer.Option(help="Seconds to run before measuring.")] = 1.0,
    messages: Annotated[int, typer.Option(help="Stop after this many messages instead.")] = 0,
    purge: Annotated[bool, typer.Option("--purge", help="Empty the queue first.")] = False,
    keep: Annotated[bool, typer.Option("--keep", help="Do not delete the queue after --mode both.")] = False,
    timeout: Annotated[float, typer.Option(help="Seconds to wait for the broker's answers.")] = 30.0,
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
    from mirrormq.perf.load_run import run  # here, so that other commands do not pay for it

    progress = _show_progress if sys.stderr.isatty() else None
    # A shell starts what runs in the background deaf to this; the load ends early by it all the same.
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
