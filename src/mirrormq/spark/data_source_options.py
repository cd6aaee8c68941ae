"""Options of `format("mirrormq")`, parsed and checked once. An error is one sentence."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from mirrormq.client.amqp_uri import AmqpUri, ClientTls
from mirrormq.ranges.time_range import ALL_TIMES, TimeRange
from mirrormq.spark.client.node_address import parse_uris
from mirrormq.spark.client.node_selection import Timeouts
from mirrormq.spark.option_reader import EARLIEST, LATEST, Offsets, OptionError, OptionReader

TLS = ("tlsCaFile", "tlsCertificateFile", "tlsKeyFile", "tlsVerify", "tlsServerName")
CONNECTION = (
    "uri", "vhost", "user", "password", "passwordFile", "passwordEnv", "broker", *TLS,
    "handshakeTimeoutMs", "requestTimeoutMs",
)  # fmt: skip
SOURCE = (
    "queue", "queues", "queuePattern", "mode", "startingOffsets", "endingOffsets", "maxMessagesPerTrigger",
    "maxBytesPerTrigger", "minPartitions", "preferReplica", "failOnDataLoss", "leaseName", "leaseIdleMs",
    "includeProperties", "missingQueues", "columns", "minMessagesPerTrigger", "maxTriggerDelay",
    "startingTimestamp", "endingTimestamp",
)  # fmt: skip
SINK = (
    "exchange",
    "routingKey",
    "mandatory",
    "persistent",
    "writeId",
    "batchId",
    "rate",
    "speed",
    "speedOrigin",
    "speedStart",
    "failOnChangedRows",
    "deadLetterExchange",
    "deadLetterRoutingKey",
    "maxBodyBytes",
)
COLUMNS = (
    "queue", "sequence", "exchange", "routing_key", "redelivered", "ingestion_time", "timestamp",
    "message_id", "content_type", "headers", "properties", "body",
)  # fmt: skip
"""Columns of a message; `source/row_schema.py` has their types."""
ON_REQUEST = ("headers_typed",)
"""Columns that only the option `columns` adds."""
ONLY_WITH_PROPERTIES = ("headers", "properties")

MIRRORMQ, RABBITMQ = "mirrormq", "rabbitmq"
CONSUME, BROWSE = "consume", "browse"
MASTER, MIRROR, ANY = "master", "mirror", "any"
ERROR, WAIT = "error", "wait"


def read_addresses(reader: OptionReader) -> tuple[AmqpUri, ...]:
    """Read the nodes with their credentials."""
    uri = reader.text("uri")
    if not uri:
        raise OptionError(
            'option uri is missing: set it, for example to "amqp://guest:guest@127.0.0.1:5672/%2F"'
        )
    try:
        addresses = parse_uris(uri, reader.text("vhost"), _tls(reader))
    except ValueError as error:
        raise OptionError(f"option uri cannot be used: {error}") from None
    user, password = reader.text("user"), _password(reader)
    return tuple(
        replace(each, user=user or each.user, password=password or each.password) for each in addresses
    )


def _tls(reader: OptionReader) -> ClientTls | None:
    """Return the TLS options; None if none is set: the parameters of each URI apply."""
    if not any(reader.text(name) for name in TLS):
        return None
    return ClientTls(
        ca_file=reader.text("tlsCaFile"),
        certificate_file=reader.text("tlsCertificateFile"),
        key_file=reader.text("tlsKeyFile"),
        verify=reader.flag("tlsVerify", True),
        server_name=reader.text("tlsServerName"),
    )


def read_timeouts(reader: OptionReader) -> Timeouts:
    """Read the time limits of waiting for a node."""
    handshake_ms, request_ms = reader.number("handshakeTimeoutMs"), reader.number("requestTimeoutMs")
    usual = Timeouts()
    return Timeouts(
        usual.handshake_s if handshake_ms is None else handshake_ms / 1000,
        usual.request_s if request_ms is None else request_ms / 1000,
    )


def _password(reader: OptionReader) -> str | None:
    """Return the password from an option, a file or the environment of the driver; None: the URI's."""
    given = [name for name in ("password", "passwordFile", "passwordEnv") if reader.text(name)]
    if len(given) > 1:
        raise OptionError(f"set only one of the options {' and '.join(given)}")
    path, variable = reader.text("passwordFile"), reader.text("passwordEnv")
    if path:
        try:
            found = Path(path).read_text().removesuffix("\n").removesuffix("\r")
        except (OSError, UnicodeDecodeError) as error:
            why = error.strerror if isinstance(error, OSError) else "it is no text"
            raise OptionError(f"option passwordFile names {path}, which cannot be read: {why}") from None
        if not found:
            raise OptionError(f"option passwordFile names {path}, which is empty")
        return found
    if variable:
        if not os.environ.get(variable):
            raise OptionError(f"option passwordEnv names {variable}, which is not set where the driver runs")
        return os.environ[variable]
    return reader.text("password")


@dataclass(frozen=True)
class SourceOptions:
    """Options of the source."""

    addresses: tuple[AmqpUri, ...]
    timeouts: Timeouts
    broker: str
    queues: tuple[str, ...]
    """Queue names; empty if a pattern is given."""
    pattern: str | None
    mode: str
    starting: Offsets
    ending: Offsets
    times: TimeRange
    """Ingestion times of the messages that a batch read returns."""
    messages_max: int | None
    """Messages per trigger."""
    bytes_max: int | None
    """Bytes per trigger."""
    messages_min: int
    """Messages below which a batch waits for more; 1: none waits."""
    delay_max_s: float
    """Longest wait."""
    partitions_min: int
    replica: str
    fail_on_data_loss: bool
    lease_name: str | None
    lease_idle_ms: int | None
    columns: tuple[str, ...]
    """Columns that the query has; no others are decoded."""
    wait_for_queues: bool
    """Whether the query waits for a named queue that does not exist."""


def source_options(options: Mapping[str, str], *, streaming: bool) -> SourceOptions:
    """Parse the options of `spark.read` or `spark.readStream`."""
    reader = OptionReader(options, CONNECTION + SOURCE)
    queues, pattern = _queues(reader)
    broker = reader.one_of("broker", (MIRRORMQ, RABBITMQ), MIRRORMQ)
    found = SourceOptions(
        addresses=read_addresses(reader),
        timeouts=read_timeouts(reader),
        broker=broker,
        queues=queues,
        pattern=pattern,
        mode=reader.one_of("mode", (CONSUME, BROWSE), CONSUME if streaming else BROWSE),
        starting=reader.offsets("startingOffsets") or EARLIEST,
        ending=reader.offsets("endingOffsets") or LATEST,
        times=_times(reader),
        messages_max=reader.number("maxMessagesPerTrigger"),
        bytes_max=reader.number("maxBytesPerTrigger"),
        messages_min=reader.number("minMessagesPerTrigger") or 1,
        delay_max_s=reader.seconds("maxTriggerDelay", DELAY_MAX_S),
        partitions_min=reader.number("minPartitions") or 1,
        replica=reader.one_of("preferReplica", (MASTER, MIRROR, ANY), ANY),
        fail_on_data_loss=reader.flag("failOnDataLoss", True),
        lease_name=reader.text("leaseName"),
        lease_idle_ms=reader.number("leaseIdleMs"),
        columns=_columns(reader),
        wait_for_queues=reader.one_of("missingQueues", (ERROR, WAIT), ERROR) == WAIT,
    )
    _check(found, reader, streaming)
    return found


def _times(reader: OptionReader) -> TimeRange:
    starting_ms, ending_ms = reader.moment_ms("startingTimestamp"), reader.moment_ms("endingTimestamp")
    found = TimeRange(starting_ms or 0, ALL_TIMES.to_ms if ending_ms is None else ending_ms)
    if found.to_ms < found.from_ms:
        raise OptionError("option endingTimestamp is before startingTimestamp")
    return found


def source_columns(options: Mapping[str, str]) -> tuple[str, ...]:
    """Return the columns of the source with these options. Spark also asks for them when it creates a table,
    with options of its own; the reader checks the others."""
    names = ("columns", "includeProperties")
    given = {key: value for key, value in options.items() if key.lower() in map(str.lower, names)}
    return _columns(OptionReader(given, names))


def _columns(reader: OptionReader) -> tuple[str, ...]:
    given, with_properties = reader.text("columns"), reader.flag("includeProperties", True)
    if given is None:
        return tuple(name for name in COLUMNS if with_properties or name not in ONLY_WITH_PROPERTIES)
    if reader.text("includeProperties") is not None:
        raise OptionError("set either columns or includeProperties: columns already names what to read")
    names = tuple(name.strip() for name in given.split(","))
    for name in names:
        if name not in (known := (*COLUMNS, *ON_REQUEST)):
            close = difflib.get_close_matches(name, known, 1)
            hint = f": did you mean {close[0]}?" if close else f"; there are {', '.join(known)}"
            raise OptionError(f"option columns names {name!r}, which is no column{hint}")
        if names.count(name) > 1:
            raise OptionError(f"option columns names {name} twice")
    return names


def _queues(reader: OptionReader) -> tuple[tuple[str, ...], str | None]:
    given = [name for name in ("queue", "queues", "queuePattern") if reader.text(name)]
    if len(given) != 1:
        given_text = "none of them is set" if not given else f"{' and '.join(given)} are set"
        raise OptionError(
            f"set one of the options queue, queues (comma-separated) or queuePattern: {given_text}"
        )
    value = reader.text(given[0]) or ""
    if given[0] == "queue":
        return (value,), None
    if given[0] == "queues":
        names = dict.fromkeys(name.strip() for name in value.split(",") if name.strip())
        if not names:
            raise OptionError("option queues names no queue: write names with commas between them")
        return tuple(names), None
    try:
        re.compile(value)
    except re.error as error:
        raise OptionError(f"option queuePattern is no regular expression: {error}") from None
    return (), value


def _check(found: SourceOptions, reader: OptionReader, streaming: bool) -> None:
    """Refuse options that exclude each other."""
    if found.mode == CONSUME and not streaming:
        raise OptionError(
            "spark.read only looks at messages (mode browse): to consume them use"
            " readStream, with trigger(availableNow=True) for a run that ends"
        )
    if streaming and reader.text("endingOffsets"):
        raise OptionError("option endingOffsets is for spark.read: a stream has no end")
    if streaming and reader.text("endingTimestamp"):
        raise OptionError("option endingTimestamp is for spark.read: a stream has no end")
    if found.mode == CONSUME and reader.text("startingTimestamp"):
        raise OptionError("option startingTimestamp is for mode browse: filter messages on ingestion_time")
    if found.mode == CONSUME and reader.text("startingOffsets"):
        raise OptionError("option startingOffsets is for mode browse: consuming begins with what is ready")
    waiting = [name for name in ("minMessagesPerTrigger", "maxTriggerDelay") if reader.text(name)]
    if waiting and (not streaming or found.broker == RABBITMQ):
        raise OptionError(f"option {waiting[0]} is for readStream from MirrorMQ")
    if waiting == ["maxTriggerDelay"]:
        raise OptionError("option maxTriggerDelay needs minMessagesPerTrigger: it limits that wait")
    if found.messages_max is not None and found.messages_min > found.messages_max:
        raise OptionError("option minMessagesPerTrigger is above maxMessagesPerTrigger")
    if found.lease_name and found.mode != CONSUME:
        raise OptionError("option leaseName is for mode consume: browsing takes nothing")
    if found.lease_name and len(found.lease_name.encode()) > LEASE_NAME_BYTES_MAX:
        raise OptionError(f"option leaseName has at most {LEASE_NAME_BYTES_MAX} bytes")
    if found.broker == RABBITMQ:
        _check_rabbitmq(found, streaming)


def _check_rabbitmq(found: SourceOptions, streaming: bool) -> None:
    if found.pattern is not None:
        raise OptionError("option queuePattern needs MirrorMQ: with broker rabbitmq name the queues")
    if not streaming or found.mode == BROWSE:
        raise OptionError(
            "broker rabbitmq can only be consumed, with readStream: a RabbitMQ queue cannot be read twice"
        )
    if found.lease_name:
        raise OptionError("option leaseName needs MirrorMQ: RabbitMQ has no leases")


DELAY_MAX_S = 15 * 60.0
"""Default of `maxTriggerDelay`, equal to that of Spark's Kafka source."""

LEASE_NAME_BYTES_MAX = 255
"""Longest lease name; AMQP limits every name to this length."""

WRITE_ID_BYTES_MAX = 180
"""Longest write id. Producer names begin with it and have at most 255 bytes: partition, generation and epoch
follow."""


BODY_BYTES_MAX = 128 * 1024 * 1024
"""Longest body that a broker takes unless its setting `max_message_size` says otherwise."""


@dataclass(frozen=True)
class SinkOptions:
    """Options of the sink."""

    addresses: tuple[AmqpUri, ...]
    timeouts: Timeouts
    broker: str
    exchange: str | None
    """None: a column holds it."""
    routing_key: str | None
    mandatory: bool
    persistent: bool
    write_id: str | None
    batch_id: int
    """Number of a batch among those of its write id; it must not fall."""
    rate: float | None
    """Messages per second of each partition."""
    speed: float | None
    """Factor by which messages are published faster than their time stamps."""
    speed_origin_s: float
    speed_start_s: float
    dead_letter_place: tuple[str, str] | None
    """Exchange and routing key for rows that are unroutable or cannot be published; None: the write fails."""
    body_bytes_max: int
    """Longest body that the broker takes (`max_message_size`)."""
    fail_on_changed_rows: bool
    """Refuse a repeated batch whose rows differ from those published before; otherwise publish them too."""


def _dead_letter_place(reader: OptionReader) -> tuple[str, str] | None:
    exchange, key = reader.text("deadLetterExchange"), reader.text("deadLetterRoutingKey")
    if exchange is None and key is None:
        return None
    if not exchange and not key:
        raise OptionError(
            "option deadLetterExchange is the default exchange: set deadLetterRoutingKey to a queue"
        )
    if max(len((text or "").encode()) for text in (exchange, key)) > PLACE_BYTES_MAX:
        raise OptionError(f"deadLetterExchange and deadLetterRoutingKey have at most {PLACE_BYTES_MAX} bytes")
    if not reader.flag("mandatory", True):
        raise OptionError("dead letters need mandatory: without it no message is known to reach no queue")
    return exchange or "", key or ""


PLACE_BYTES_MAX = 255
"""Longest exchange name and routing key in AMQP."""


def _batch_id(reader: OptionReader, write_id: str | None) -> int:
    given = reader.text("batchId")
    if given is None:
        return 0
    if write_id is None:
        raise OptionError("option batchId needs writeId: it numbers the batches of that name")
    if not re.fullmatch(r"[0-9]{1,9}", given):
        raise OptionError(f"option batchId is a whole number from 0 on, not {given!r}")
    return int(given)


def sink_options(options: Mapping[str, str]) -> SinkOptions:
    """Parse the options of `df.write` or `df.writeStream`."""
    reader = OptionReader(options, CONNECTION + SINK)
    write_id = reader.text("writeId")
    if write_id is not None and not 0 < len(write_id.encode()) <= WRITE_ID_BYTES_MAX:
        raise OptionError(f"option writeId has 1 to {WRITE_ID_BYTES_MAX} bytes")
    return SinkOptions(
        addresses=read_addresses(reader),
        timeouts=read_timeouts(reader),
        broker=reader.one_of("broker", (MIRRORMQ, RABBITMQ), MIRRORMQ),
        exchange=reader.text("exchange"),
        routing_key=reader.text("routingKey"),
        mandatory=reader.flag("mandatory", True),
        persistent=reader.flag("persistent", True),
        write_id=write_id,
        batch_id=_batch_id(reader, write_id),
        rate=reader.positive("rate"),
        speed=reader.positive("speed"),
        speed_origin_s=reader.positive("speedOrigin") or 0.0,
        speed_start_s=reader.positive("speedStart") or 0.0,
        dead_letter_place=_dead_letter_place(reader),
        body_bytes_max=reader.number("maxBodyBytes") or BODY_BYTES_MAX,
        fail_on_changed_rows=reader.flag("failOnChangedRows", False),
    )
