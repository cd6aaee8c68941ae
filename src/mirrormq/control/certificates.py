"""Expiry dates of the TLS listeners' certificates, read from their files.

Python's ssl module reports dates only for a peer's certificate. This module therefore walks the DER
encoding: the validity dates are the fifth field of the signed sequence, or the fourth if the version is
absent.
"""

from __future__ import annotations

import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from mirrormq.config.settings import Address, Settings, TlsOptions

UNITS_DAYS = {"days": 1, "weeks": 7, "months": 30, "years": 365}
"""Days per unit, as RabbitMQ counts them: a month has 30 days, a year 365."""

PURPOSES = {"amqp/ssl": "AMQP 0-9-1 over TLS", "https": "HTTP API over TLS (HTTPS)"}
BEGIN, END = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"
VERSION, UTC_TIME = 0xA0, 0x17


def expiring(settings: Settings, within: int, unit: str) -> list[dict[str, Any]]:
    """Return the TLS listeners with a certificate that expires within `within` units."""
    until = datetime.now(UTC) + timedelta(days=within * UNITS_DAYS[unit])
    return [
        row | _dates(options)
        for row, options in tls_listeners(settings)
        if any(last < until for path in _files(options) for last in last_days(path))
    ]


def tls_listeners(settings: Settings) -> list[tuple[dict[str, Any], TlsOptions]]:
    """Return each TLS listener as a listing row, with its certificate files."""
    listeners = [("amqp/ssl", address, settings.tls) for address in settings.tls_listeners]
    if settings.management_tls_listener is not None:
        listeners.append(("https", settings.management_tls_listener, settings.management_tls))
    return [(_row(settings.name, protocol, address), options) for protocol, address, options in listeners]


def _files(options: TlsOptions) -> list[Path]:
    return [path for path in (options.certfile, options.cacertfile) if path is not None]


def _row(node: str, protocol: str, address: Address) -> dict[str, Any]:
    return {
        "node": node,
        "protocol": protocol,
        "interface": address.host or "[::]",
        "port": address.port,
        "purpose": PURPOSES[protocol],
    }


def _dates(options: TlsOptions) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, path in (("certfile", options.certfile), ("cacertfile", options.cacertfile)):
        if path is not None:
            found[name] = str(path)
            found[f"{name}_expires_on"] = [f"{last:%Y-%m-%d %H:%M:%S}" for last in last_days(path)]
    return found


def last_days(path: Path) -> list[datetime]:
    """Return the expiry date of each certificate in a file; none if the file is unreadable."""
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError):
        return []
    parts = [part.partition(END)[0] for part in text.split(BEGIN)[1:]]
    return [_last_day(ssl.PEM_cert_to_DER_cert(f"{BEGIN}{part}{END}")) for part in parts]


def _last_day(certificate: bytes) -> datetime:
    _, whole, _ = _read(certificate, 0)
    _, signed, _ = _read(whole, 0)
    place = 0
    kind, _, after = _read(signed, place)
    # Skip serial number, algorithm and issuer: the validity follows them.
    for _ in range(3 if kind == VERSION else 2):
        place = after
        _, _, after = _read(signed, place)
    _, validity, _ = _read(signed, after)
    _, _, second = _read(validity, 0)
    kind, text, _ = _read(validity, second)
    digits = text.decode("ascii").rstrip("Z")
    if kind == UTC_TIME:  # UTCTime has a two-digit year: 50 to 99 are 1950 to 1999 (RFC 5280).
        digits = ("20" if digits < "50" else "19") + digits
    return datetime.strptime(digits, "%Y%m%d%H%M%S").replace(tzinfo=UTC)


def _read(data: bytes, place: int) -> tuple[int, bytes, int]:
    """Read one DER element: its tag, its contents, and the offset of the next element."""
    kind, length, start = data[place], data[place + 1], place + 2
    if length & 0x80:
        size = length & 0x7F
        length, start = int.from_bytes(data[start : start + size], "big"), start + size
    return kind, data[start : start + length], start + length
