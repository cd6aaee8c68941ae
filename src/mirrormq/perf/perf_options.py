"""Options of one run of the load generator, checked before the first connection."""

from __future__ import annotations

from dataclasses import dataclass, field

from mirrormq.client.amqp_uri import AmqpUri, UriError, parse_amqp_uri

MODES = ("publish", "consume", "both", "latency")

STAMP_BYTES = 9
"""Size of the time stamp (flag octet and 64-bit clock reading) at the start of a timed message's body."""

SIZE_BYTES_MAX = 128 * 1024 * 1024
"""Largest body: RabbitMQ 3.10's default `max_message_size`."""

QUEUES_MAX = 9999
"""Most queues: four digits in their names."""

DEFAULT_URI = "amqp://guest:guest@127.0.0.1:5672/%2F"


class PerfError(Exception):
    """Run cannot continue; the text is one sentence for the user."""


def parse_uri(uri: str) -> AmqpUri:
    """Parse amqp://user:password@host:port/vhost, or amqps, with the defaults of a command line tool."""
    try:
        return parse_amqp_uri(uri).for_socket()
    except UriError as error:
        raise PerfError(f"cannot use the URI: {error}") from None


@dataclass(slots=True)
class PerfOptions:
    """Options of one run, named as on the command line."""

    uris: list[str] = field(default_factory=lambda: [DEFAULT_URI])
    mode: str = "both"
    queue: str = "perf"
    exchange: str = ""
    exchange_type: str = "direct"
    producers: int = 1
    consumers: int = 1
    connections: int = 200
    size: int = 100
    vary: bool = False
    persistent: bool = False
    durable: bool = False
    confirm_window: int = 1000
    batch: int = 0
    prefetch: int = 500
    ack_every: int = 100
    auto_ack: bool = False
    rate: float = 0.0
    duration: float = 10.0
    warmup: float = 1.0
    messages: int = 0
    purge: bool = False
    keep: bool = False
    timeout: float = 30.0
    queues: int = 1
    queue_type: str = ""
    """Argument x-queue-type; empty for none."""
    consume_uris: list[str] = field(default_factory=list)
    """URIs of consumers, if they differ from those of producers."""

    def check(self) -> None:
        """Refuse invalid options with a text that names a valid value."""
        if self.mode not in MODES:
            raise PerfError(f"--mode is one of {', '.join(MODES)}, not {self.mode!r}")
        for name in ("producers", "consumers", "connections", "ack_every", "queues"):
            if getattr(self, name) < 1:
                raise PerfError(f"--{name.replace('_', '-')} must be at least 1")
        for name in ("size", "confirm_window", "prefetch", "rate", "messages", "warmup", "batch"):
            if getattr(self, name) < 0:
                raise PerfError(f"--{name.replace('_', '-')} cannot be negative")
        if self.size > SIZE_BYTES_MAX:
            raise PerfError(f"--size can be at most {SIZE_BYTES_MAX} bytes")
        if self.mode == "latency" and self.size < STAMP_BYTES:
            raise PerfError(f"--mode latency needs --size of at least {STAMP_BYTES} bytes for the time stamp")
        if self.vary and self.mode == "latency":
            raise PerfError(
                "--vary has no meaning in --mode latency, where each connection repeats one message"
            )
        if not self.auto_ack and self.prefetch and self.ack_every > self.prefetch:
            raise PerfError("--ack-every cannot be larger than --prefetch: the broker would stop delivering")
        if self.duration <= 0 and not self.messages:
            raise PerfError("--duration must be more than 0 seconds when --messages is not given")
        if self.queues > QUEUES_MAX:
            raise PerfError(f"--queues can be at most {QUEUES_MAX}")
        for uri in (*self.uris, *self.consume_uris):
            parse_uri(uri)

    @property
    def queue_names(self) -> list[str]:
        """Queues of this run. Their names have equal length, which makes their deliveries equally long."""
        if self.queues == 1:
            return [self.queue]
        return [f"{self.queue}-{number:04}" for number in range(1, self.queues + 1)]

    def share(self, index: int, of: int) -> list[str]:
        """Return the queues of connection `index` out of `of` connections; each has at least one."""
        names = self.queue_names
        return names[index::of] or [names[index % len(names)]]

    @property
    def largest_bytes(self) -> int:
        """Largest body of the run."""
        return self.size + self.size // 2 if self.vary else self.size

    @property
    def publishes(self) -> bool:
        """Whether this run has producers."""
        return self.mode in ("publish", "both")

    @property
    def consumes(self) -> bool:
        """Whether this run has consumers."""
        return self.mode in ("consume", "both")
