"""TLS between nodes: both sides show a certificate of the authority that the operator names."""

from __future__ import annotations

import ssl

from mirrormq.errors import ConfigurationError
from mirrormq.runtime.certificate_files import CertificateFiles
from mirrormq.runtime.peer_links import LinkTls


def link_contexts(files: CertificateFiles) -> LinkTls:
    """Contexts for accepting and dialling; says what is wrong with the files if they cannot be used."""
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
