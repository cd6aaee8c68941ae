"""Client addresses as the unit of limits."""

from __future__ import annotations

from ipaddress import IPv6Address, ip_address, ip_network

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
