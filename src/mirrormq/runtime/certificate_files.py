"""Certificate renewal without a restart: changed files are used from the next TLS handshake on.

Every TLS context of a listener or dialler is watched here. If only one of the two files has been replaced,
or the new pair is unusable, the previous pair stays in use. The log says so once.
"""

from __future__ import annotations

import os
import ssl
import weakref
from pathlib import Path
from typing import Any, NamedTuple

CHECK_INTERVAL_S = 5.0
"""Seconds between two checks of the files. Renewals are weeks apart, and a check costs a few system calls."""

Stamp = tuple[tuple[int, int, int], ...]


class CertificateFiles(NamedTuple):
    """Paths of a TLS context's certificate, key and certificate authorities."""

    certificate: Path
    key: Path | None
    password: str | None = None
    authority: Path | None = None

    def load(self, context: ssl.SSLContext) -> None:
        """Load the files into a TLS context."""
        context.load_cert_chain(self.certificate, self.key, self.password)
        if self.authority is not None:
            context.load_verify_locations(self.authority)

    def stamp(self) -> Stamp:
        """Return a value that changes when one of the files is replaced."""
        stats = [os.stat(path) for path in (self.certificate, self.key, self.authority) if path is not None]
        return tuple((file.st_mtime_ns, file.st_ino, file.st_size) for file in stats)


class RenewedCertificates:
    """Watcher of all TLS contexts of a node."""

    def __init__(self, log: Any) -> None:
        self._log = log
        self._watched: weakref.WeakKeyDictionary[ssl.SSLContext, tuple[CertificateFiles, Stamp]]
        self._watched = weakref.WeakKeyDictionary()

    def watch(self, context: ssl.SSLContext, files: CertificateFiles) -> None:
        """Watch a context into which `files` were just loaded."""
        self._watched[context] = (files, files.stamp())

    def reload_changed(self) -> None:
        """Reload the files that have changed."""
        for context, (files, before) in list(self._watched.items()):
            try:
                stamp = files.stamp()
            except OSError:
                continue  # the file is being replaced
            if stamp != before:
                self._watched[context] = (files, stamp)
                self._renew(context, files)

    def _renew(self, context: ssl.SSLContext, files: CertificateFiles) -> None:
        try:
            files.load(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))  # trial in an unused context
            files.load(context)
        except (OSError, ssl.SSLError) as error:
            self._log.warning(
                f"TLS files changed but are unusable, the previous ones stay in use: {error}",
                certificate=str(files.certificate),
            )
        else:
            self._log.info("TLS files changed: the new ones are in use", certificate=str(files.certificate))
