"""PROXY protocol, versions 1 and 2: a load balancer reports its client's address.

Implemented from the specification of HAProxy's authors. A text line, or a binary header that starts with
twelve fixed octets, precedes everything else on the connection.
"""

from __future__ import annotations

from ipaddress import ip_address
from typing import NamedTuple

SIGNATURE = b"\r\n\r\n\x00\r\nQUIT\n"
LINE_BYTES_MAX = 107
"""Longest line of version 1, as the specification counts it."""
HEAD_SIZE = 16
"""Size of signature, version and command, family, length."""
ADDRESS_SIZES = {0x11: 4, 0x21: 16}
"""Octets of an address in TCP over IPv4 and over IPv6."""

PORT_MAX = 65535


class Ends(NamedTuple):
    """Client and server address, as the load balancer saw them."""

    host: str
    port: int
    server_host: str
    server_port: int


class Incomplete(Exception):
    """Incomplete header: at least `missing` more bytes are needed, and never more than belong to the
    header."""

    def __init__(self, missing: int) -> None:
        super().__init__(missing)
        self.missing = missing


class ProxyHeaderInvalid(Exception):
    """Error of a connection that does not start with a valid PROXY header."""


def read_proxy_header(data: bytes) -> tuple[Ends | None, bytes]:
    """Return the addresses (None if the load balancer connects for itself) and the bytes after the header."""
    if not data:
        raise Incomplete(1)
    if data.startswith(SIGNATURE[: len(data)]):
        return _binary(data)
    if data.startswith(b"PROXY "[: len(data)]):
        return _line(data)
    raise ProxyHeaderInvalid("neither version 1 nor version 2")


def _line(data: bytes) -> tuple[Ends | None, bytes]:
    end = data.find(b"\r\n", 0, LINE_BYTES_MAX)
    if end < 0:
        if len(data) >= LINE_BYTES_MAX:
            raise ProxyHeaderInvalid("the line does not end")
        raise Incomplete(1)
    words = data[:end].decode("ascii", "replace").split(" ")
    rest = data[end + 2 :]
    if words[1:2] == ["UNKNOWN"]:
        return None, rest
    if len(words) != 6 or words[1] not in ("TCP4", "TCP6"):
        raise ProxyHeaderInvalid("malformed line")
    version = 4 if words[1] == "TCP4" else 6
    ends = Ends(_address(words[2], version), _port(words[4]), _address(words[3], version), _port(words[5]))
    return ends, rest


def _binary(data: bytes) -> tuple[Ends | None, bytes]:
    if len(data) < HEAD_SIZE:
        raise Incomplete(HEAD_SIZE - len(data))
    version_command, family = data[12], data[13]
    size = int.from_bytes(data[14:16], "big")
    if version_command >> 4 != 2 or version_command & 0x0F > 1:
        raise ProxyHeaderInvalid("unknown version or command")
    if len(data) < HEAD_SIZE + size:
        raise Incomplete(HEAD_SIZE + size - len(data))
    rest = data[HEAD_SIZE + size :]
    # LOCAL is a connection of the load balancer itself; other families carry no address of a client.
    if version_command & 0x0F == 0 or family not in ADDRESS_SIZES:
        return None, rest
    width = ADDRESS_SIZES[family]
    if size < 2 * width + 4:
        raise ProxyHeaderInvalid("addresses are cut short")
    source_at, destination_at, ports_at = HEAD_SIZE, HEAD_SIZE + width, HEAD_SIZE + 2 * width
    return Ends(
        str(ip_address(data[source_at:destination_at])),
        int.from_bytes(data[ports_at : ports_at + 2], "big"),
        str(ip_address(data[destination_at:ports_at])),
        int.from_bytes(data[ports_at + 2 : ports_at + 4], "big"),
    ), rest


def _address(text: str, version: int) -> str:
    try:
        address = ip_address(text)
    except ValueError:
        raise ProxyHeaderInvalid("malformed address") from None
    if address.version != version:
        raise ProxyHeaderInvalid("an address of the other family")
    return str(address)


def _port(text: str) -> int:
    if not text.isdigit() or int(text) > PORT_MAX:
        raise ProxyHeaderInvalid("malformed port")
    return int(text)
