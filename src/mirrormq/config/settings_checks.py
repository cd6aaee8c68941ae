"""Checks of combinations of settings."""

from __future__ import annotations

from mirrormq.config.settings import DEFAULT_PASSWORD, Settings, TlsOptions
from mirrormq.errors import ConfigurationError


def check(settings: Settings) -> None:
    """Raise ConfigurationError for the first invalid combination."""
    _check_tls(settings.tls, "ssl_options", "listeners.ssl" if settings.tls_listeners else None)
    over_tls = settings.management_tls_listener is not None
    _check_tls(settings.management_tls, "management.ssl", "management.ssl.port" if over_tls else None)
    links = settings.link_tls
    if links.wanted and None in (links.certfile, links.keyfile, links.cacertfile):
        raise ConfigurationError(
            "TLS between nodes needs cluster.ssl_options.certfile, cluster.ssl_options.keyfile "
            "and cluster.ssl_options.cacertfile."
        )
    if settings.cluster_partition_handling == "pause_if_all_down" and not settings.pause_if_all_down_nodes:
        raise ConfigurationError(
            "cluster_partition_handling = pause_if_all_down needs "
            "cluster_partition_handling.pause_if_all_down.nodes.1 = NAME@HOST."
        )
    if settings.discovery.backend == "dns" and not settings.discovery.dns_hostname:
        raise ConfigurationError(
            "cluster_formation.peer_discovery_backend = dns needs cluster_formation.dns.hostname."
        )
    if settings.discovery.backend != "classic_config" and settings.classic_config_nodes:
        raise ConfigurationError(
            "cluster_formation.classic_config.nodes needs "
            "cluster_formation.peer_discovery_backend = classic_config."
        )
    if 0 < settings.frame_max < settings.initial_frame_max:
        raise ConfigurationError(
            f"frame_max must be 0 or at least initial_frame_max ({settings.initial_frame_max}), "
            f"not {settings.frame_max}."
        )
    if settings.default_pass_file is not None and settings.default_pass != DEFAULT_PASSWORD:
        raise ConfigurationError("Set default_pass or default_pass_file, not both.")
    if not settings.amqp_listeners and not settings.tls_listeners:
        raise ConfigurationError("Set listeners.tcp.default or listeners.ssl.default: there is no listener.")


def _check_tls(options: TlsOptions, place: str, listener: str | None) -> None:
    """Check the TLS options of a listener; `listener` is None if it is not configured."""
    if listener is not None and (options.certfile is None or options.keyfile is None):
        raise ConfigurationError(f"{listener} needs {place}.certfile and {place}.keyfile.")
    if options.fail_if_no_peer_cert and options.verify != "verify_peer":
        raise ConfigurationError(f"{place}.fail_if_no_peer_cert needs {place}.verify = verify_peer.")
    if options.verify == "verify_peer" and listener is not None and options.cacertfile is None:
        raise ConfigurationError(f"{place}.verify = verify_peer needs {place}.cacertfile.")
