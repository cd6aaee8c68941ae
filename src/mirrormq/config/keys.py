"""Configuration keys, each with the field of `Settings` that it sets.

Three shapes of key:

    scalar    `heartbeat = 60`                      one field
    family    `listeners.tcp.1 = 5672`              every key of it, in the order of the last word
    switches  `loopback_users.guest = false`        the last words whose value is true

Keys `shovel.NAME.KEY` of static shovels are kept as text: `bridges.static_shovels` knows their types.

A family or set of switches in a stronger source (a flag, the environment) replaces the whole family
of the weaker source. Keys of RabbitMQ without a meaning here (Erlang's garbage collector, quorum
queues …) are accepted with a warning: a file from RabbitMQ works. Any other key is refused.
"""

from __future__ import annotations

from dataclasses import dataclass

from mirrormq.config import value_readers as read
from mirrormq.config.value_readers import Reader

LOG_LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "none")
LOG_CATEGORIES = ("channel", "connection", "federation", "mirroring", "queue", "upgrade")
"""Log categories of RabbitMQ that exist here."""
TLS_VERSIONS = ("tlsv1.3", "tlsv1.2", "tlsv1.1", "tlsv1")
INT32_MAX = 2**31 - 1


@dataclass(frozen=True, slots=True)
class SettingKey:
    """Known key: the reader of its value and the field that it sets."""

    field: str
    """Field of Settings; `tls.verify` is a field of a nested options object; empty if the value is only
    checked."""
    reader: Reader
    shape: str = "scalar"
    """Shape of the key: `scalar`, `family` or `switches`."""


TLS: dict[str, Reader] = {
    "certfile": read.readable_file,
    "keyfile": read.readable_file,
    "cacertfile": read.readable_file,
    "password": read.text,
    "verify": read.one_of("verify_none", "verify_peer"),
    "fail_if_no_peer_cert": read.boolean,
}
TLS_PLACES = {
    "ssl_options": "tls",
    "management.ssl": "management_tls",
    "management.listener.ssl_opts": "management_tls",
}
"""Prefix of TLS listener options in a file → field of the settings."""

SCALARS: dict[str, SettingKey] = {
    # MirrorMQ's own keys; RabbitMQ has these in its environment file only.
    "name": SettingKey("name", read.node_name),
    "data_directory": SettingKey("data_directory", read.path),
    "runtime_dir": SettingKey("runtime_directory", read.path),
    "cluster.listener": SettingKey("cluster_listener", read.address_or_none),
    "cluster.advertised": SettingKey("cluster_advertised", read.address),
    "cluster.ssl_options.certfile": SettingKey("link_tls.certfile", read.readable_file),
    "cluster.ssl_options.keyfile": SettingKey("link_tls.keyfile", read.readable_file),
    "cluster.ssl_options.cacertfile": SettingKey("link_tls.cacertfile", read.readable_file),
    "cluster.ssl_options.password": SettingKey("link_tls.password", read.text),
    # Keys of RabbitMQ.
    "cluster_name": SettingKey("cluster_name", read.text),
    "cluster_formation.peer_discovery_backend": SettingKey("discovery.backend", read.discovery_backend),
    "cluster_formation.target_cluster_size_hint": SettingKey("discovery.target_size", read.integer(1)),
    "cluster_formation.dns.hostname": SettingKey("discovery.dns_hostname", read.text),
    "cluster_formation.k8s.host": SettingKey("discovery.k8s_host", read.text),
    "cluster_formation.k8s.port": SettingKey("discovery.k8s_port", read.integer(1, 65535)),
    "cluster_formation.k8s.scheme": SettingKey("discovery.k8s_scheme", read.one_of("https", "http")),
    "cluster_formation.k8s.token_path": SettingKey("discovery.k8s_token_path", read.path),
    "cluster_formation.k8s.cert_path": SettingKey("discovery.k8s_cert_path", read.path),
    "cluster_formation.k8s.namespace_path": SettingKey("discovery.k8s_namespace_path", read.path),
    "cluster_formation.k8s.service_name": SettingKey("discovery.k8s_service_name", read.text),
    "cluster_formation.k8s.address_type": SettingKey(
        "discovery.k8s_address_type", read.one_of("ip", "hostname")
    ),
    "cluster_formation.k8s.hostname_suffix": SettingKey("discovery.k8s_hostname_suffix", read.text),
    "cluster_formation.node_cleanup.interval": SettingKey("discovery.cleanup_interval_s", read.integer(1)),
    "cluster_formation.node_cleanup.only_log_warning": SettingKey(
        "discovery.cleanup_only_warns", read.boolean
    ),
    "cluster_formation.discovery_retry_limit": SettingKey("discovery_retry_limit", read.integer(1)),
    "cluster_formation.discovery_retry_interval": SettingKey("discovery_retry_interval_ms", read.integer(1)),
    **{
        f"{place}.{name}": SettingKey(f"{part}.{name}", reader)
        for place, part in TLS_PLACES.items()
        for name, reader in TLS.items()
    },
    "ssl_cert_login_from": SettingKey(
        "ssl_cert_login_from", read.one_of("distinguished_name", "common_name", "subject_alternative_name")
    ),
    "ssl_cert_login_san_type": SettingKey(
        "ssl_cert_login_san_type", read.one_of("dns", "ip", "email", "uri", "other_name")
    ),
    "ssl_cert_login_san_index": SettingKey("ssl_cert_login_san_index", read.integer(0)),
    "ssl_handshake_timeout": SettingKey("ssl_handshake_timeout_s", read.milliseconds_as_s),
    "tcp_listen_options.backlog": SettingKey("tcp_backlog", read.integer(1)),
    "proxy_protocol": SettingKey("proxy_protocol", read.boolean),
    "heartbeat": SettingKey("heartbeat_s", read.integer(0, 65535)),
    "channel_max": SettingKey("channel_max", read.integer(0, 65535)),
    "connection_max": SettingKey("connection_max", read.optional_limit),
    "frame_max": SettingKey("frame_max", read.integer(0, INT32_MAX)),
    "initial_frame_max": SettingKey("initial_frame_max", read.integer(4096, INT32_MAX)),
    "max_message_size": SettingKey("max_message_size", read.integer(1, 536870912)),
    "handshake_timeout": SettingKey("handshake_timeout_s", read.milliseconds_as_s),
    "consumer_timeout": SettingKey("consumer_timeout_ms", read.optional_timeout_ms),
    "product.name": SettingKey("product", read.text),
    "product.version": SettingKey("product_version", read.text),
    "vm_memory_high_watermark.relative": SettingKey("memory_high_watermark_relative", read.positive_float),
    "vm_memory_high_watermark.absolute": SettingKey("memory_high_watermark_bytes", read.size_bytes),
    "total_memory_available_override_value": SettingKey("total_memory_override_bytes", read.size_bytes),
    "disk_free_limit.absolute": SettingKey("disk_free_limit_bytes", read.size_bytes),
    "disk_free_limit.relative": SettingKey("disk_free_limit_relative", read.positive_float),
    "memory_monitor_interval": SettingKey("memory_monitor_interval_ms", read.integer(1)),
    "scrub.rate_bytes_per_second": SettingKey("scrub_rate_bytes_per_second", read.integer(1)),
    "scrub.interval_hours": SettingKey("scrub_interval_hours", read.integer(0)),
    "default_user": SettingKey("default_user", read.text),
    "default_pass": SettingKey("default_pass", read.text),
    "default_pass_file": SettingKey("default_pass_file", read.path),
    "default_vhost": SettingKey("default_vhost", read.text),
    "default_permissions.configure": SettingKey("default_permissions.configure", read.text),
    "default_permissions.write": SettingKey("default_permissions.write", read.text),
    "default_permissions.read": SettingKey("default_permissions.read", read.text),
    "load_definitions": SettingKey("load_definitions", read.path),
    "management.load_definitions": SettingKey("load_definitions", read.path),
    "definitions.local.path": SettingKey("load_definitions", read.path),
    "definitions.skip_if_unchanged": SettingKey("skip_unchanged_definitions", read.boolean),
    "definitions.all_or_nothing": SettingKey("definitions_all_or_nothing", read.boolean),
    "definitions.import_backend": SettingKey("", read.one_of("local_filesystem")),
    "auth_backends.1": SettingKey("", read.one_of("internal", "rabbit_auth_backend_internal")),
    "management.tcp.ip": SettingKey("management_listener.host", read.text),
    "management.tcp.port": SettingKey("management_listener.port", read.integer(0, 65535)),
    "management.listener.ip": SettingKey("management_listener.host", read.text),
    "management.listener.port": SettingKey("management_listener.port", read.integer(0, 65535)),
    "management.listener.ssl": SettingKey("management_legacy_tls", read.boolean),
    "management.ssl.ip": SettingKey("management_tls_listener.host", read.text),
    "management.ssl.port": SettingKey("management_tls_listener.port", read.integer(0, 65535)),
    "management.cors.max_age": SettingKey("cors.max_age_s", read.optional_age),
    "management.address": SettingKey("management_listener", read.address_or_none),
    "prometheus.tcp.ip": SettingKey("metrics_listener.host", read.text),
    "prometheus.tcp.port": SettingKey("metrics_listener.port", read.integer(0, 65535)),
    "prometheus.authentication.enabled": SettingKey("metrics_authentication", read.boolean),
    "queue_master_locator": SettingKey(
        "queue_master_locator", read.one_of("client-local", "min-masters", "random")
    ),
    "cluster_partition_handling": SettingKey(
        "cluster_partition_handling",
        read.one_of("ignore", "pause_minority", "pause_if_all_down", "autoheal", "auto"),
    ),
    "cluster_partition_handling.pause_if_all_down.recover": SettingKey(
        "pause_if_all_down_recover", read.one_of("ignore", "autoheal")
    ),
    "net_ticktime": SettingKey("net_ticktime_s", read.integer(1)),
    "mirroring_sync_batch_size": SettingKey("mirroring_sync_batch_size", read.integer(1)),
    "mirroring_promotion_timeout": SettingKey("mirroring_promotion_timeout_ms", read.integer(0)),
    "mirroring_sync_max_throughput": SettingKey("mirroring_sync_max_throughput_bytes", read.size_bytes),
    "collect_statistics_interval": SettingKey("collect_statistics_interval_ms", read.integer(1)),
    "management.rates_mode": SettingKey("rates_mode", read.one_of("basic", "detailed", "none")),
    "log.default.level": SettingKey("log.level", read.one_of(*LOG_LEVELS)),
    "log.console": SettingKey("log.console", read.boolean),
    "log.console.formatter": SettingKey("log.formatter", read.one_of("plaintext", "json")),
    "log.console.level": SettingKey("log.console_level", read.one_of(*LOG_LEVELS)),
    "log.file": SettingKey("log.file", read.path_or_false),
    "log.file.formatter": SettingKey("log.file_formatter", read.one_of("plaintext", "json")),
    "log.file.level": SettingKey("log.file_level", read.one_of(*LOG_LEVELS)),
    **{
        f"log.{name}.level": SettingKey(f"log.category.{name}", read.one_of(*LOG_LEVELS))
        for name in LOG_CATEGORIES
    },
}

FAMILIES: dict[str, SettingKey] = {
    "listeners.tcp": SettingKey("amqp_listeners", read.address, "family"),
    "listeners.ssl": SettingKey("tls_listeners", read.address, "family"),
    **{
        f"{place}.versions": SettingKey(f"{part}.versions", read.one_of(*TLS_VERSIONS), "family")
        for place, part in TLS_PLACES.items()
    },
    **{
        f"{place}.ciphers": SettingKey(f"{part}.ciphers", read.text, "family")
        for place, part in TLS_PLACES.items()
    },
    "management.cors.allow_origins": SettingKey("cors.allow_origins", read.text, "family"),
    "auth_mechanisms": SettingKey("auth_mechanisms", read.one_of("PLAIN", "AMQPLAIN", "EXTERNAL"), "family"),
    "cluster_formation.classic_config.nodes": SettingKey("classic_config_nodes", read.seed, "family"),
    "cluster_partition_handling.pause_if_all_down.nodes": SettingKey(
        "pause_if_all_down_nodes", read.node_name, "family"
    ),
    "join": SettingKey("join", read.seed, "family"),
    "loopback_users": SettingKey("loopback_users", read.boolean, "switches"),
    "default_user_tags": SettingKey("default_user_tags", read.boolean, "switches"),
}

EMPTIED_BY_NONE = ("listeners.tcp", "listeners.ssl", "loopback_users", "management.cors.allow_origins")
"""Families that `FAMILY = none` empties."""

WITHOUT_MEANING = (
    "background_gc_enabled", "background_gc_target_interval", "classic_queue.default_version",
    "cluster_formation.internal_lock_retries", "cluster_formation.lock_retry_*",
    "cluster_formation.node_type", "cluster_formation.randomized_startup_delay_range.*",
    "cluster_keepalive_interval", "collect_statistics",
    "default_worker_pool_size", "delegate_count",
    "distribution.listener.*", "erlang.K", "hipe_compile", "log.*.rotation.*", "log.*.file",
    "log.console.color_esc_seqs.*", "log.console.formatter.*", "log.console.stdio",
    "log.console.use_colors", "log.exchange", "log.exchange.*", "log.file.formatter.*", "log.journald",
    "log.journald.*", "log.ra.level", "log.syslog", "log.syslog.*", "management.csp.policy",
    "management.db_cache_multiplier", "management.disable_stats", "management.enable_queue_totals",
    "management.headers.*", "management.hsts.policy", "management.http_log_dir",
    "management.listener.server.*", "management.listener.ssl_opts", "management.*.client_renegotiation",
    "management.*.depth", "management.*.dh", "management.*.dhfile", "management.*.honor_cipher_order",
    "management.*.honor_ecc_order", "management.*.log_alert", "management.*.reuse_sessions",
    "management.*.secure_renegotiate", "management.ssl.backlog", "management.ssl.compress",
    "management.ssl.idle_timeout", "management.ssl.inactivity_timeout", "management.ssl.max_keepalive",
    "management.ssl.request_timeout", "management.ssl.shutdown_timeout", "management.login_session_timeout",
    "management.sample_retention_policies.*", "management.tcp.backlog", "management.tcp.compress",
    "management.tcp.idle_timeout", "management.tcp.inactivity_timeout", "management.tcp.max_keepalive",
    "management.tcp.request_timeout", "management.tcp.shutdown_timeout", "management_agent.*",
    "message_store_shutdown_timeout", "mnesia_table_loading_retry_*", "motd_file", "num_acceptors.*",
    "password_hashing_module", "prometheus.*", "queue_index_embed_msgs_below", "queue_leader_locator",
    "quorum_queue.*", "raft.*", "reverse_dns_lookups", "socket_writer.gc_threshold", "ssl_options",
    "ssl_options.bypass_pem_cache", "ssl_options.client_renegotiation", "ssl_options.depth",
    "ssl_options.dh", "ssl_options.dhfile", "ssl_options.honor_cipher_order", "ssl_options.honor_ecc_order",
    "ssl_options.log_alert", "ssl_options.log_level", "ssl_options.reuse_sessions",
    "ssl_options.secure_renegotiate", "sysmon_handler.*", "tcp_listen_options", "tcp_listen_options.buffer",
    "tcp_listen_options.delay_send", "tcp_listen_options.dontroute", "tcp_listen_options.exit_on_close",
    "tcp_listen_options.keepalive", "tcp_listen_options.linger.*", "tcp_listen_options.nodelay",
    "tcp_listen_options.recbuf", "tcp_listen_options.*_watermark", "tcp_listen_options.priority",
    "tcp_listen_options.send_timeout", "tcp_listen_options.send_timeout_close", "tcp_listen_options.sndbuf",
    "tcp_listen_options.tos", "vhost_restart_strategy", "vm_memory_calculation_strategy",
    "vm_memory_high_watermark_paging_ratio",
)  # fmt: skip
"""Keys of RabbitMQ that are accepted with a warning and have no effect."""

NOT_SUPPORTED = (
    "auth_backends.*", "credential_validator.*", "definitions.*",
    "management.listener.ssl_opts.*", "management.ssl.*",
    "management.disable_basic_auth", "management.enable_uaa", "management.path_prefix",
    "ssl_allow_poodle_attack", "ssl_options.cacerts.*", "ssl_options.cert", "ssl_options.crl_check",
    "ssl_options.key.*", "ssl_options.psk_identity",
)  # fmt: skip
"""Keys of RabbitMQ that are refused by name: ignoring them would weaken security or lose data."""
