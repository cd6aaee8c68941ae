"""TLS between nodes: each side presents a certificate of the authority that the operator configured."""

from __future__ import annotations

import ssl

from mirrormq.errors import ConfigurationError
from mirrormq.runtime.certificate_files import CertificateFiles
from mirrormq.runtime.peer_links import LinkTls


def link_contexts(files: CertificateFiles) -> LinkTls:
    """Return the TLS contexts for accepting and dialling. Raise ConfigurationError if the files are
    unusable."""
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        for context in (server, client):
            context.minimum_version = ssl.TLSVersion.TLSv1_2
            files.load(context)
            context.verify_mode = ssl.CERT_REQUIRED
    except (OSError, ssl.SSLError) as error:
        raise ConfigurationError(f"The TLS files for links between nodes cannot be used: {error}") from error
    return LinkTls(server, client)
