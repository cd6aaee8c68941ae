"""TLS for the generator's connections: the parameters of an amqps URI, and a socket that never waits.

The parameters are those of RabbitMQ's URI specification:

    amqps://user:password@host:5671/vhost?cacertfile=ca.pem&certfile=me.pem&keyfile=me.key
    verify=verify_none                    accept any certificate
    server_name_indication=other.host     the name that the certificate must be for
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from typing import Any

VERIFY = {"verify_peer": True, "verify_none": False}


@dataclass(frozen=True, slots=True)
class Tls:
    """Files and checks of one amqps URI; the field names are the parameters."""

    cacertfile: str | None = None
    certfile: str | None = None
    keyfile: str | None = None
    verify: str = "verify_peer"
    server_name_indication: str | None = None

    def context(self) -> ssl.SSLContext:
        """Raises OSError (ssl.SSLError is one) when a file cannot be used."""
        context = ssl.create_default_context(cafile=self.cacertfile)
        if not VERIFY[self.verify]:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if self.certfile:
            context.load_cert_chain(self.certfile, self.keyfile)
        context.sslsocket_class = TlsSocket
        return context


class TlsSocket(ssl.SSLSocket):
    """A TLS socket that says BlockingIOError where a plain one does.

    OpenSSL decrypts one record at a time and takes no more off the kernel's socket. `Link` has room
    for one at any time, so no bytes wait in here that a selector does not report.
    """

    def send(self, data: Any, flags: int = 0) -> int:
        try:
            return super().send(data, flags)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise BlockingIOError from None

    def recv_into(self, buffer: Any, nbytes: int | None = None, flags: int = 0) -> int:
        try:
            return super().recv_into(buffer, nbytes, flags)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise BlockingIOError from None
