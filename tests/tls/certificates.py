"""Certificates of a little authority, made with the openssl command when they are needed."""

from __future__ import annotations

import shutil
import ssl
import subprocess
from pathlib import Path
from typing import NamedTuple


def available() -> bool:
    """Whether the openssl command is installed."""
    return shutil.which("openssl") is not None


class Pair(NamedTuple):
    """A certificate and its key, in files."""

    certificate: Path
    key: Path


class Authority:
    """A certificate authority in a directory of its own."""

    def __init__(self, directory: Path, name: str) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        self.pair = Pair(directory / "ca.pem", directory / "ca.key")
        self._make(self.pair, f"/CN={name}", ["basicConstraints=critical,CA:TRUE"], signed=False)

    def issue(self, name: str, subject: str, *extensions: str) -> Pair:
        """A certificate signed by this authority; the subject is written as openssl wants it."""
        pair = Pair(self._directory / f"{name}.pem", self._directory / f"{name}.key")
        self._make(pair, subject, ["basicConstraints=CA:FALSE", *extensions], signed=True)
        return pair

    def _make(self, pair: Pair, subject: str, extensions: list[str], *, signed: bool) -> None:
        command = [
            "openssl",
            "req",
            "-x509",
            "-utf8",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:prime256v1",
        ]
        command += [
            "-nodes",
            "-days",
            "2",
            "-subj",
            subject,
            "-keyout",
            str(pair.key),
            "-out",
            str(pair.certificate),
        ]
        for extension in extensions:
            command += ["-addext", extension]
        if signed:
            command += ["-CA", str(self.pair.certificate), "-CAkey", str(self.pair.key)]
        subprocess.run(command, check=True, capture_output=True, stdin=subprocess.DEVNULL)


def client_context(authority: Authority, pair: Pair | None = None) -> ssl.SSLContext:
    """A client that trusts the authority and shows a certificate, if it has one."""
    context = ssl.create_default_context(cafile=str(authority.pair.certificate))
    if pair is not None:
        context.load_cert_chain(pair.certificate, pair.key)
    return context
