"""Certificates that are renewed in their files serve from the next handshake on, without a restart.

Whoever listens or dials with TLS has its context watched here. A pair of files of which only one has been
replaced yet, or that cannot be used, changes nothing: the pair before stays in use, and the log says so once.
"""

from __future__ import annotations

import os
import ssl
import weakref
from pathlib import Path
from typing import Any, NamedTuple

LOOK_S = 5.0
"""How often the files are looked at. Renewals come weeks apart, and a look costs a few system calls."""

Stamp = tuple[tuple[int, int, int], ...]


class CertificateFiles(NamedTuple):
    """Where a context's certificate, key and authorities are."""

    certificate: Path
    key: Path | None
    password: str | None = None
    authority: Path | None = None

    def load(self, context: ssl.SSLContext) -> None:
        """Read them into a context."""
        context.load_cert_chain(self.certificate, self.key, self.password)
        if self.authority is not None:
            context.load_verify_locations(self.authority)

    def stamp(self) -> Stamp:
        """Another one if a file is another one."""
        found = [os.stat(path) for path in (self.certificate, self.key, self.authority) if path is not None]
        return tuple((file.st_mtime_ns, file.st_ino, file.st_size) for file in found)


class RenewedCertificates:
    """All contexts of a node."""

    def __init__(self, log: Any) -> None:
        self._log = log
        self._watched: weakref.WeakKeyDictionary[ssl.SSLContext, tuple[CertificateFiles, Stamp]]
        self._watched = weakref.WeakKeyDictionary()

    def watch(self, context: ssl.SSLContext, files: CertificateFiles) -> None:
        """These were read into a context just now."""
        self._watched[context] = (files, files.stamp())

    def look(self) -> None:
        """Read anew what has changed."""
        for context, (files, before) in list(self._watched.items()):
            try:
                stamp = files.stamp()
            except OSError:
                continue  # it is being replaced
            if stamp != before:
                self._watched[context] = (files, stamp)
                self._renew(context, files)

    def _renew(self, context: ssl.SSLContext, files: CertificateFiles) -> None:
        try:
            files.load(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))  # a context that nobody uses, for a trial
            files.load(context)
        except (OSError, ssl.SSLError) as error:
            self._log.warning(
                f"the TLS files have changed and cannot be used, those before stay in use: {error}",
                certificate=str(files.certificate),
            )
        else:
            self._log.info(
                "the TLS files have changed and are in use now", certificate=str(files.certificate)
            )
