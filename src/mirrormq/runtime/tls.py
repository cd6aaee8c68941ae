"""TLS: a server context from `ssl_options.*`, and the user that a client certificate speaks for."""

from __future__ import annotations

import asyncio
import ssl
from typing import Any

from mirrormq.config.settings import Settings
from mirrormq.errors import ConfigurationError

_VERSIONS = {
    "tlsv1": ssl.TLSVersion.TLSv1,
    "tlsv1.1": ssl.TLSVersion.TLSv1_1,
    "tlsv1.2": ssl.TLSVersion.TLSv1_2,
    "tlsv1.3": ssl.TLSVersion.TLSv1_3,
}

_SHORT_NAMES = {
    "commonName": "CN",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "countryName": "C",
    "stateOrProvinceName": "ST",
    "localityName": "L",
}
"""RFC 4514's names, which RabbitMQ uses for distinguished names."""


def server_context(settings: Settings) -> ssl.SSLContext:
    """The context of the TLS listeners; says what is missing if it cannot be made."""
    options = settings.tls
    if options.certfile is None:
        raise ConfigurationError("A TLS listener needs ssl_options.certfile and ssl_options.keyfile.")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    chosen = [_VERSIONS[version] for version in options.versions]
    context.minimum_version, context.maximum_version = min(chosen), max(chosen)
    try:
        context.load_cert_chain(options.certfile, options.keyfile, options.password)
        if options.cacertfile is not None:
            context.load_verify_locations(options.cacertfile)
        if options.ciphers:
            context.set_ciphers(":".join(options.ciphers))
    except (OSError, ssl.SSLError) as error:
        raise ConfigurationError(f"The TLS files cannot be used: {error}") from error
    if options.verify == "verify_peer":
        context.verify_mode = ssl.CERT_REQUIRED if options.fail_if_no_peer_cert else ssl.CERT_OPTIONAL
    return context


def certificate_user(transport: asyncio.BaseTransport, settings: Settings) -> str | None:
    """The name in a verified client certificate, as `ssl_cert_login_from` says to read it."""
    certificate: dict[str, Any] | None = transport.get_extra_info("peercert")
    if not certificate:
        return None
    if settings.ssl_cert_login_from == "common_name":
        names = [value for part in certificate["subject"] for key, value in part if key == "commonName"]
        return ",".join(names) or None
    if settings.ssl_cert_login_from == "subject_alternative_name":
        wanted = settings.ssl_cert_login_san_type.lower()
        found = [value for kind, value in certificate.get("subjectAltName", ()) if kind.lower() == wanted]
        index = settings.ssl_cert_login_san_index
        return found[index] if index < len(found) else None
    parts = [f"{_SHORT_NAMES.get(key, key)}={value}" for part in certificate["subject"] for key, value in part]
    return ",".join(reversed(parts))
