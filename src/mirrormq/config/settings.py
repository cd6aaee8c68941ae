"""Settings of a node, typed, with RabbitMQ 3.10's defaults.

A `Settings` is immutable. `config.settings_loader.load_settings` builds it from four sources (flags over
environment over file over the defaults here) and passes it to `runtime.node.run`. The metadata or the runtime
holds what an operator changes while the node runs (users, policies, watermarks).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple


class Address(NamedTuple):
    """Listen address. An empty host means every interface; `localhost` both loopbacks."""

    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


MANAGEMENT_DEFAULT = Address("localhost", 15672)
MANAGEMENT_TLS_DEFAULT = Address("localhost", 15671)
DEFAULT_PASSWORD = "guest"
CLUSTER_PORT = 25672
"""Port between nodes, as in RabbitMQ."""
CLUSTER_DEFAULT = Address("localhost", CLUSTER_PORT)


class Seed(NamedTuple):
    """Another node: its name and the address where it listens for nodes."""

    name: str
    address: Address


@dataclass(frozen=True, slots=True)
class ShovelEntry:
    """One key of a static shovel, `shovel.NAME.KEY`. `bridges.static_shovels` reads its value."""

    name: str
    path: tuple[str, ...]
    """Words after the name: the key, and the place in a list or the name in a table."""
    value: str = field(repr=False)
    """Text as written; a URI contains a password."""
    source: str

    @property
    def key(self) -> str:
        return ".".join(("shovel", self.name, *self.path))


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsOptions:
    """`ssl_options.*`: certificates of the TLS listeners and verification of the client."""

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
    """`cluster.ssl_options.*`: with these, links between nodes use TLS, and both ends present a certificate
    of the authority."""

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
    """Time for which a browser may cache the permission; None sends no limit."""

    def allows(self, origin: str) -> bool:
        """Whether pages of this origin may use the API."""
        return origin in self.allow_origins or ("*" in self.allow_origins and origin not in ("", "null"))


@dataclass(frozen=True, slots=True, kw_only=True)
class LogOptions:
    """`log.*`: levels and targets of log lines."""

    level: str = "info"
    categories: tuple[tuple[str, str], ...] = ()
    """(category, level) pairs such as ("connection", "debug"), as `log.connection.level` gives."""
    console: bool | None = None
    """None means: unless log lines go to a file."""
    file: Path | None = None
    formatter: str = "plaintext"
    """Format on the console, `plaintext` or `json`."""
    file_formatter: str = "plaintext"
    console_level: str = "debug"
    """Lowest level on the console, for every category."""
    file_level: str = "debug"


@dataclass(frozen=True, slots=True, kw_only=True)
class DefaultPermissions:
    """Regular expressions of `default_permissions.*`."""

    configure: str = ".*"
    write: str = ".*"
    read: str = ".*"


SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Directory that Kubernetes mounts into every pod."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerDiscovery:
    """`cluster_formation.*`: where a node that has no cluster finds its peers. Defaults are RabbitMQ's."""

    backend: str = "classic_config"
    """Backend: `classic_config`, `dns` or `k8s`."""
    target_size: int = 0
    """`target_cluster_size_hint`: a node creates a cluster only if discovery shows a majority of this number;
    0: no condition."""
    dns_hostname: str = ""
    k8s_host: str = "kubernetes.default.svc.cluster.local"
    k8s_port: int = 443
    k8s_scheme: str = "https"
    k8s_token_path: Path = SERVICE_ACCOUNT / "token"
    k8s_cert_path: Path = SERVICE_ACCOUNT / "ca.crt"
    k8s_namespace_path: Path = SERVICE_ACCOUNT / "namespace"
    k8s_service_name: str = "rabbitmq"
    k8s_address_type: str = "ip"
    """Host part of node names: `ip`, or `hostname` with the suffix below."""
    k8s_hostname_suffix: str = ""
    cleanup_interval_s: int = 60
    cleanup_only_warns: bool = True
    """`node_cleanup.only_log_warning`: False removes a stopped member that discovery no longer shows, unless
    its ordinal is below the target size."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Settings of one node. Numbers are RabbitMQ 3.10.8's defaults unless a line says otherwise."""

    # Name and directories.
    name: str = "mirror1@localhost"
    data_directory: Path = Path("var/mirror1@localhost")
    settings_file: Path | None = None
    runtime_directory: Path = Path("var/run")
    """Directory of the control socket; `load_settings` sets the user's state directory."""
    cookie: str = field(default="", repr=False)
    """Secret that the nodes of one cluster share; empty until `config.cookie` has read or created it."""
    cluster_name: str | None = None
    join: tuple[Seed, ...] = ()
    """Members of a cluster that this node joins when it starts for the first time."""
    classic_config_nodes: tuple[Seed, ...] = ()
    """`cluster_formation.classic_config.nodes.N`: nodes that form a cluster when they start for the first
    time. The first of them by name creates it, unless another one has done so."""
    discovery: PeerDiscovery = PeerDiscovery()
    discovery_retry_limit: int = 10
    discovery_retry_interval_ms: int = 500
    """Interval at which the node that would create a cluster looks for an existing one."""

    # Listeners. RabbitMQ listens on every interface by default, MirrorMQ on the loopback ones.
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
    """`management.listener.ssl`: the keys of the plain listener apply to the TLS listener."""
    metrics_listener: Address | None = None
    """`prometheus.tcp.*`; None: the management listeners serve metrics. RabbitMQ serves them on 15692."""
    metrics_authentication: bool = False
    """Metrics require the login of a user with the tag `monitoring` or `administrator`."""
    cors: CorsOptions = CorsOptions()
    cluster_listener: Address | None = CLUSTER_DEFAULT
    cluster_advertised: Address | None = None
    """Address where other nodes reach this one; None: the host in its name and the port it listens on."""
    link_tls: LinkTlsOptions = LinkTlsOptions()
    tcp_backlog: int = 128
    proxy_protocol: bool = False

    # AMQP connections.
    heartbeat_s: int = 60
    channel_max: int = 2047
    connection_max: int | None = None
    frame_max: int = 131072
    initial_frame_max: int = 4096
    max_message_size: int = 134217728
    handshake_timeout_s: float = 10.0
    consumer_timeout_ms: int | None = 1800000
    """Limit for an unacked delivery; None: unlimited."""
    auth_mechanisms: tuple[str, ...] = ("PLAIN", "AMQPLAIN")
    product: str = "RabbitMQ"
    """Product name for clients, which switch on product and version: it names what we are compatible with."""
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
    """Time between two passes; 0: only on an operator's request."""

    # Initial content of an empty node.
    default_user: str = "guest"
    default_pass: str = field(default=DEFAULT_PASSWORD, repr=False)
    default_pass_file: Path | None = None
    """File that replaces `default_pass`. The node that creates the cluster creates an absent file, with a
    random password."""
    default_vhost: str = "/"
    default_user_tags: tuple[str, ...] = ("administrator",)
    default_permissions: DefaultPermissions = DefaultPermissions()
    loopback_users: tuple[str, ...] = ("guest",)
    load_definitions: Path | None = None
    skip_unchanged_definitions: bool = True
    definitions_all_or_nothing: bool = False
    """RabbitMQ's default is false: there, each start reverts changes that an operator made since the last
    one."""

    # Queues and the cluster.
    queue_master_locator: str = "client-local"
    cluster_partition_handling: str = "auto"
    """RabbitMQ's modes and `auto`: pause_minority with three or more members, autoheal with two."""
    pause_if_all_down_nodes: tuple[str, ...] = ()
    pause_if_all_down_recover: str = "ignore"
    net_ticktime_s: int | None = None
    """None: defaults of the failure detector, which detects a dead node in under four seconds. RabbitMQ's
    default is 60."""
    mirroring_sync_batch_size: int = 4096
    mirroring_promotion_timeout_ms: int = 30_000
    mirroring_sync_max_throughput_bytes: int = 0
    """Bytes per second of synchronisation; 0: no limit."""
    collect_statistics_interval_ms: int = 5000
    rates_mode: str = "basic"
    """With `detailed` the HTTP API also reports rates between each channel, exchange and queue; with `none`
    it reports counts of messages and no rates."""

    static_shovels: tuple[ShovelEntry, ...] = field(default=(), repr=False)
    """`shovel.NAME.KEY`: shovels that an operator defines in the file."""

    log: LogOptions = LogOptions()
    warnings: tuple[str, ...] = ()
    """Sentences for the log at start: accepted keys of RabbitMQ that have no effect."""

    @property
    def static_shovel_names(self) -> tuple[str, ...]:
        """Names of the static shovels, sorted."""
        return tuple(sorted({entry.name for entry in self.static_shovels}))

    def memory_limit_bytes(self, total_bytes: int) -> int:
        """Return the memory watermark on a machine with this much memory."""
        if self.memory_high_watermark_bytes is not None:
            return self.memory_high_watermark_bytes
        total = self.total_memory_override_bytes or total_bytes
        return int(total * (self.memory_high_watermark_relative or 0.0))

    def disk_limit_bytes(self, total_memory_bytes: int) -> int:
        """Return the free disk space below which publishers are blocked (relative means to memory)."""
        if self.disk_free_limit_bytes is not None:
            return self.disk_free_limit_bytes
        total = self.total_memory_override_bytes or total_memory_bytes
        return int(total * (self.disk_free_limit_relative or 0.0))
