"""Authoritative DNS server for tests: answers A and PTR questions from tables over UDP (RFC 1035)."""

from __future__ import annotations

import socket
import struct
import threading

A, PTR, CLASS_IN = 1, 12, 1
NAME_ERROR = 3
HEADER = struct.Struct(">HHHHHH")


class DnsServer:
    """Server of host names with their IPv4 addresses. `records` may change while it runs."""

    def __init__(self, address: str, records: dict[str, list[str]]) -> None:
        self.records = records
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind((address, 53))
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            question, client = self._socket.recvfrom(4096)
            self._socket.sendto(self._answer(question), client)

    def _answer(self, question: bytes) -> bytes:
        number, *_ = HEADER.unpack_from(question)
        name, end = _name(question, HEADER.size)
        kind, _ = struct.unpack_from(">HH", question, end)
        data = self._data(name.lower(), kind)
        known = bool(data) or name.lower() in self.records
        flags = 0x8480 | (0 if known else NAME_ERROR)
        answers = [b"\xc0\x0c" + struct.pack(">HHIH", kind, CLASS_IN, 0, len(each)) + each for each in data]
        return (
            HEADER.pack(number, flags, 1, len(answers), 0, 0)
            + question[HEADER.size : end + 4]
            + b"".join(answers)
        )

    def _data(self, name: str, kind: int) -> list[bytes]:
        if kind == A:
            return [socket.inet_aton(address) for address in self.records.get(name, [])]
        if kind == PTR:
            address = ".".join(reversed(name.removesuffix(".in-addr.arpa").split(".")))
            hosts = [host for host, found in self.records.items() if found == [address]]
            return [_encoded(host) for host in hosts]
        return []


def _name(message: bytes, at: int) -> tuple[str, int]:
    labels = []
    while message[at]:
        labels.append(message[at + 1 : at + 1 + message[at]].decode("ascii"))
        at += 1 + message[at]
    return ".".join(labels), at + 1


def _encoded(name: str) -> bytes:
    return b"".join(bytes((len(label),)) + label.encode("ascii") for label in name.split(".")) + b"\0"
