"""Everything a node is told before it starts, typed, with RabbitMQ 3.10's defaults.

A `Settings` never changes once made. It is put together by `config.load.load_settings` from four
sources (flags over environment over file over the defaults written here) and handed whole to
`runtime.node.run`. What an operator changes while the node runs (users, policies, watermarks set
with the control program) lives in the metadata or in the runtime, not here.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple


class Address(NamedTuple):
    """Where to listen. An empty host means every interface; `localhost` both loopbacks."""

    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


MANAGEMENT_DEFAULT = Address("localhost", 15672)
MANAGEMENT_TLS_DEFAULT = Address("localhost", 15671)
DEFAULT_PASSWORD = "guest"
CLUSTER_PORT = 25672
"""RabbitMQ's port between nodes."""
CLUSTER_DEFAULT = Address("localhost", CLUSTER_PORT)


class Seed(NamedTuple):
    """Another node by name, and where it listens for nodes."""

    name: str
    address: Address


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsOptions:
    """`ssl_options.*`: certificates of the TLS listeners and what is asked of the peer."""

    certfile: Path | None = None
    keyfile: Path | None = None
    cacertfile: Path | None = None
    password: str | None = field(default=None, repr=False)
    verify: str = "verify_none"
    """`verify_none` or `verify_peer`."""
    fail_if_no_peer_cert: bool = False
    versions: tuple[str, ...] = ("tlsv1.3", "tlsv1.2")
    ciphers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkTlsOptions:
    """`cluster.ssl_options.*`: links between nodes run in TLS when these are given, and both ends show a
    certificate of the authority."""

    certfile: Path | None = None
    keyfile: Path | None = None
    cacertfile: Path | None = None
    password: str | None = field(default=None, repr=False)

    @property
    def wanted(self) -> bool:
        return self.certfile is not None or self.keyfile is not None or self.cacertfile is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class CorsOptions:
    """`management.cors.*`: other sites whose pages may use the HTTP API."""

    allow_origins: tuple[str, ...] = ()
    """Origins such as `https://monitor.example`, or `*` for any."""
    max_age_s: int | None = 1800
    """How long a browser may remember that; None: as it likes."""

    def allows(self, origin: str) -> bool:
        """May pages of this origin use the API?"""
        return origin in self.allow_origins or ("*" in self.allow_origins and origin not in ("", "null"))


@dataclass(frozen=True, slots=True, kw_only=True)
class LogOptions:
    """`log.*`: levels, and where the lines go."""

    level: str = "info"
    categories: tuple[tuple[str, str], ...] = ()
    """(category, level) pairs such as ("connection", "debug"), as `log.connection.level` gives."""
    console: bool | None = None
    """None: unless the lines go to a file."""
    file: Path | None = None
    formatter: str = "plaintext"
    """`plaintext` or `json`, on the console."""
    file_formatter: str = "plaintext"
    console_level: str = "debug"
    """Lines below it do not go there, whatever their category."""
    file_level: str = "debug"


@dataclass(frozen=True, slots=True, kw_only=True)
class DefaultPermissions:
    """Three regexes, as `default_permissions.*` gives them."""

    configure: str = ".*"
    write: str = ".*"
    read: str = ".*"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """One node's settings. Numbers are RabbitMQ 3.10.8's defaults unless a line says otherwise."""

    # Who and where.
    name: str = "mirror1@localhost"
    data_directory: Path = Path("var/mirror1@localhost")
    runtime_directory: Path = Path("var/run")
    """Where the control socket lives; `load_settings` puts the user's state directory here."""
    cookie: str = field(default="", repr=False)
    """The secret the nodes of one cluster share; empty until `config.cookie` found or made it."""
    cluster_name: str | None = None
    join: tuple[Seed, ...] = ()
    """Members of a cluster that this node joins when it starts for the first time."""
    classic_config_nodes: tuple[Seed, ...] = ()
    """`cluster_formation.classic_config.nodes.N`: nodes that form a cluster when they start for the first
    time. The first of them by name begins it, unless one of the others has done so."""
    discovery_retry_limit: int = 10
    discovery_retry_interval_ms: int = 500
    """How long the one that would begin a cluster looks for one that is there already."""

    # Listeners. RabbitMQ listens on every interface by default; we on the loopback ones.
    amqp_listeners: tuple[Address, ...] = (Address("localhost", 5672),)
    tls_listeners: tuple[Address, ...] = ()
    tls: TlsOptions = TlsOptions()
    ssl_cert_login_from: str = "distinguished_name"
    ssl_cert_login_san_type: str = "dns"
    ssl_cert_login_san_index: int = 0
    ssl_handshake_timeout_s: float = 5.0
    management_listener: Address | None = MANAGEMENT_DEFAULT
    management_tls_listener: Address | None = None
    management_tls: TlsOptions = TlsOptions()
    management_legacy_tls: bool = False
    """`management.listener.ssl`: what is said of the plain listener is meant for the one with TLS."""
    metrics_listener: Address | None = None
    """`prometheus.tcp.*`; None: metrics are on the management listeners. RabbitMQ has them on 15692."""
    metrics_authentication: bool = False
    """Metrics need the login of a user with the tag `monitoring` or `administrator`."""
    cors: CorsOptions = CorsOptions()
    cluster_listener: Address | None = CLUSTER_DEFAULT
    cluster_advertised: Address | None = None
    """Where other nodes reach this one; None: at the host in its name and the port it listens on."""
    link_tls: LinkTlsOptions = LinkTlsOptions()
    tcp_backlog: int = 128
    proxy_protocol: bool = False

    # The AMQP connection.
    heartbeat_s: int = 60
    channel_max: int = 2047
    connection_max: int | None = None
    frame_max: int = 131072
    initial_frame_max: int = 4096
    max_message_size: int = 134217728
    handshake_timeout_s: float = 10.0
    consumer_timeout_ms: int | None = 1800000
    """None: consumers may keep a message as long as they like."""
    auth_mechanisms: tuple[str, ...] = ("PLAIN", "AMQPLAIN")
    product: str = "RabbitMQ"
    """Clients switch on product and version, so they name what we are compatible with."""
    product_version: str = "3.10.8"

    # Limits that raise alarms. Exactly one of each pair is set.
    memory_high_watermark_relative: float | None = 0.4
    memory_high_watermark_bytes: int | None = None
    total_memory_override_bytes: int | None = None
    disk_free_limit_bytes: int | None = 50_000_000
    disk_free_limit_relative: float | None = None
    memory_monitor_interval_ms: int = 2500

    # Verification of the journal in the background.
    scrub_rate_bytes_per_second: int = 1_000_000
    scrub_interval_hours: int = 168
    """Time between two passes; 0: only on an operator's demand."""

    # What an empty node is given.
    default_user: str = "guest"
    default_pass: str = field(default=DEFAULT_PASSWORD, repr=False)
    default_pass_file: Path | None = None
    """Instead of `default_pass`. The node that begins the cluster makes an absent one, with a random
    password."""
    default_vhost: str = "/"
    default_user_tags: tuple[str, ...] = ("administrator",)
    default_permissions: DefaultPermissions = DefaultPermissions()
    loopback_users: tuple[str, ...] = ("guest",)
    load_definitions: Path | None = None
    skip_unchanged_definitions: bool = True
    """RabbitMQ's default is false: there, each start undoes what an operator changed since the last one."""

    # Queues and the cluster.
    queue_master_locator: str = "client-local"
    cluster_partition_handling: str = "auto"
    """RabbitMQ's modes and `auto`: pause_minority with three or more members, autoheal with two."""
    pause_if_all_down_nodes: tuple[str, ...] = ()
    pause_if_all_down_recover: str = "ignore"
    net_ticktime_s: int | None = None
    """None: the failure detector's own terms, which find a dead node in under four seconds. RabbitMQ's
    default is 60."""
    mirroring_sync_batch_size: int = 4096
    mirroring_promotion_timeout_ms: int = 30_000
    mirroring_sync_max_throughput_bytes: int = 0
    """0: no limit."""
    collect_statistics_interval_ms: int = 5000
    rates_mode: str = "basic"
    """With `detailed` the HTTP API also tells what passed between each channel, exchange and queue; with
    `none` it tells nothing of what messages did, only how many there are."""

    log: LogOptions = LogOptions()
    warnings: tuple[str, ...] = ()
    """Sentences for the log at start: keys accepted for RabbitMQ's sake that do nothing here."""

    def memory_limit_bytes(self, total_bytes: int) -> int:
        """The watermark on a machine with this much memory."""
        if self.memory_high_watermark_bytes is not None:
            return self.memory_high_watermark_bytes
        total = self.total_memory_override_bytes or total_bytes
        return int(total * (self.memory_high_watermark_relative or 0.0))

    def disk_limit_bytes(self, total_memory_bytes: int) -> int:
        """The free space below which publishers are blocked (relative means to memory)."""
        if self.disk_free_limit_bytes is not None:
            return self.disk_free_limit_bytes
        total = self.total_memory_override_bytes or total_memory_bytes
        return int(total * (self.disk_free_limit_relative or 0.0))
