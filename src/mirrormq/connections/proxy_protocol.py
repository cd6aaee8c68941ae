"""The PROXY protocol, versions 1 and 2: a load balancer tells who its client is.

Read from the specification by HAProxy's authors: a text line, or a binary header that starts with
twelve fixed octets, in front of everything else on the connection.
"""

from __future__ import annotations

from ipaddress import ip_address

SIGNATURE = b"\r\n\r\n\x00\r\nQUIT\n"
LINE_BYTES_MAX = 107
"""The longest line of version 1, as the specification counts it."""
HEAD_SIZE = 16
"""Signature, version and command, family, length."""
ADDRESS_SIZES = {0x11: 4, 0x21: 16}
"""TCP over IPv4 and over IPv6: octets of an address."""

Source = tuple[str, int]


class Incomplete(Exception):
    """More bytes are needed."""


class ProxyHeaderInvalid(Exception):
    """The connection does not start with a PROXY header."""


def read_proxy_header(data: bytes) -> tuple[Source | None, bytes]:
    """The client's address (None: the balancer speaks for itself) and what follows the header."""
    if data.startswith(SIGNATURE[: len(data)]):
        return _binary(data)
    if data.startswith(b"PROXY "[: len(data)]):
        return _line(data)
    raise ProxyHeaderInvalid("neither version 1 nor version 2")


def _line(data: bytes) -> tuple[Source | None, bytes]:
    end = data.find(b"\r\n", 0, LINE_BYTES_MAX)
    if end < 0:
        if len(data) >= LINE_BYTES_MAX:
            raise ProxyHeaderInvalid("the line does not end")
        raise Incomplete
    words = data[:end].decode("ascii", "replace").split(" ")
    rest = data[end + 2 :]
    if words[1:2] == ["UNKNOWN"]:
        return None, rest
    if len(words) != 6 or words[1] not in ("TCP4", "TCP6") or not words[4].isdigit():
        raise ProxyHeaderInvalid("malformed line")
    return (_address(words[2]), int(words[4])), rest


def _binary(data: bytes) -> tuple[Source | None, bytes]:
    if len(data) < HEAD_SIZE:
        raise Incomplete
    version_command, family = data[12], data[13]
    size = int.from_bytes(data[14:16], "big")
    if version_command >> 4 != 2 or version_command & 0x0F > 1:
        raise ProxyHeaderInvalid("unknown version or command")
    if len(data) < HEAD_SIZE + size:
        raise Incomplete
    rest = data[HEAD_SIZE + size :]
    if version_command & 0x0F == 0 or family not in ADDRESS_SIZES:
        return None, rest
    width = ADDRESS_SIZES[family]
    if size < 2 * width + 4:
        raise ProxyHeaderInvalid("addresses are cut short")
    address = ip_address(data[HEAD_SIZE : HEAD_SIZE + width])
    port_at = HEAD_SIZE + 2 * width
    return (str(address), int.from_bytes(data[port_at : port_at + 2], "big")), rest


def _address(text: str) -> str:
    try:
        return str(ip_address(text))
    except ValueError:
        raise ProxyHeaderInvalid("malformed address") from None
