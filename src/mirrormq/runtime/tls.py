"""TLS server context from `ssl_options.*`, and the user name in a client certificate."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Sequence
from typing import Any

from mirrormq.config.settings import Settings, TlsOptions
from mirrormq.errors import ConfigurationError
from mirrormq.runtime.certificate_files import CertificateFiles, RenewedCertificates

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
    "surname": "SN",
    "givenName": "GIVENNAME",
    "initials": "INITIALS",
    "generationQualifier": "GENERATIONQUALIFIER",
    "title": "TITLE",
    "serialNumber": "SERIALNUMBER",
    "pseudonym": "PSEUDONYM",
    "domainComponent": "DC",
    "emailAddress": "EMAILADDRESS",
    "userId": "UID",
    "streetAddress": "2.5.4.9",
    "businessCategory": "2.5.4.15",
    "postalCode": "2.5.4.17",
}
"""RabbitMQ's names for the parts of a distinguished name. Parts without a name keep their object
identifier."""

_ALTERNATIVE_KINDS = {
    "dns": "DNS",
    "email": "email",
    "uri": "URI",
    "ip": "IP Address",
    "other_name": "othername",
}
"""`ssl_cert_login_san_type` in the words of Python's ssl module."""


def server_context(options: TlsOptions, renewed: RenewedCertificates) -> ssl.SSLContext:
    """Return the context of a TLS listener. Raise ConfigurationError if it cannot be made."""
    if options.certfile is None:
        raise ConfigurationError("A TLS listener needs a certfile and a keyfile.")
    files = CertificateFiles(options.certfile, options.keyfile, options.password, options.cacertfile)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    chosen = [_VERSIONS[version] for version in options.versions]
    context.minimum_version, context.maximum_version = min(chosen), max(chosen)
    try:
        files.load(context)
        if options.ciphers:
            context.set_ciphers(":".join(options.ciphers))
    except (OSError, ssl.SSLError) as error:
        raise ConfigurationError(f"The TLS files cannot be used: {error}") from error
    renewed.watch(context, files)
    if options.verify == "verify_peer":
        context.verify_mode = ssl.CERT_REQUIRED if options.fail_if_no_peer_cert else ssl.CERT_OPTIONAL
    return context


def certificate_user(transport: asyncio.BaseTransport, settings: Settings) -> str | None:
    """Return the user name in a verified client certificate, as `ssl_cert_login_from` selects it."""
    certificate: dict[str, Any] | None = transport.get_extra_info("peercert")
    if not certificate:
        return None
    if settings.ssl_cert_login_from == "common_name":
        names = [value for part in certificate["subject"] for key, value in part if key == "commonName"]
        return ",".join(names) or None
    if settings.ssl_cert_login_from == "subject_alternative_name":
        wanted = _ALTERNATIVE_KINDS[settings.ssl_cert_login_san_type]
        names = [value for kind, value in certificate.get("subjectAltName", ()) if kind == wanted]
        index = settings.ssl_cert_login_san_index
        return names[index] if index < len(names) else None
    return distinguished_name(certificate["subject"]) or None


def distinguished_name(subject: Sequence[Sequence[tuple[str, str]]]) -> str:
    """Format a subject as RabbitMQ does: the last part first, escaped by RFC 4514."""
    parts = [
        "+".join(f"{_SHORT_NAMES.get(key, key)}={_escape(value)}" for key, value in part) for part in subject
    ]
    return ",".join(reversed(parts))


def _escape(value: str) -> str:
    """Escape a value: special characters get a backslash, octets beyond ASCII become hexadecimal."""
    escaped = "".join(_escape_octet(octet) for octet in value.encode())
    if value.startswith(("#", " ")):
        escaped = "\\" + escaped
    if value.endswith(" ") and len(value) > 1:
        escaped = escaped[:-1] + "\\ "
    return escaped


def _escape_octet(octet: int) -> str:
    if octet > 0x7E or octet < 0x20:
        return f"\\{octet:02X}"
    return "\\" + chr(octet) if octet in b',+"\\<>;' else chr(octet)
