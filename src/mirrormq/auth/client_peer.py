"""Remote end of a client connection: addresses, the unit of limits per address, and TLS facts."""

from __future__ import annotations

from ipaddress import IPv6Address, ip_address, ip_network
from typing import NamedTuple

from mirrormq.metadata.records import User


class TlsFacts(NamedTuple):
    """Agreed TLS parameters and the client's certificate, under RabbitMQ's names."""

    ssl_protocol: str = ""
    ssl_key_exchange: str = ""
    ssl_cipher: str = ""
    ssl_hash: str = ""
    peer_cert_issuer: str = ""
    peer_cert_subject: str = ""
    peer_cert_validity: str = ""


NO_TLS = TlsFacts()


class Peer(NamedTuple):
    """Addresses from the socket (or the PROXY header), and the TLS facts."""

    host: str
    port: int
    server_host: str = ""
    server_port: int = 0
    is_loopback: bool = True
    tls: bool = False
    certificate_user: str | None = None
    """User name in a verified client certificate."""
    facts: TlsFacts = NO_TLS
    direct_user: User | None = None
    """User of a connection inside the node, which needs no login; None for sockets."""

    @property
    def protocol(self) -> str:
        """Name of the protocol in lists of connections."""
        return "AMQP 0-9-1" if self.direct_user is None else "Direct 0-9-1"

    def __str__(self) -> str:
        return f"{_bracketed(self.host)}:{self.port} -> {_bracketed(self.server_host)}:{self.server_port}"


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def is_loopback(host: str) -> bool:
    """Return whether a host address is this machine's loopback address, of either IP version."""
    try:
        address = ip_address(host)
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return address.is_loopback or (mapped is not None and mapped.is_loopback)


IPV6_PREFIX_BITS = 64
"""Smallest IPv6 network that a provider assigns to one customer: a single host can use all of it."""


def address_block(host: str) -> str:
    """Return the address that limits count: IPv4 whole, IPv6 by its /64 network, other text unchanged."""
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if not isinstance(address, IPv6Address):
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ip_network((int(address), IPV6_PREFIX_BITS), strict=False))
