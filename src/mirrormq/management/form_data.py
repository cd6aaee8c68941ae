"""Parser of forms with files: `multipart/form-data`, as browsers send it."""

from __future__ import annotations

from email.parser import BytesParser
from email.policy import HTTP

from mirrormq.management.http_errors import BAD_REQUEST, SilentRefusal

MULTIPART = "multipart/form-data"


def is_form(content_type: str) -> bool:
    return content_type.partition(";")[0].strip().lower() == MULTIPART


def fields(content_type: str, content: bytes) -> dict[str, bytes]:
    """Return the parts of a form by name."""
    head = f"Content-Type: {content_type}\r\n\r\n".encode("latin-1", "replace")
    message = BytesParser(policy=HTTP).parsebytes(head + content)
    parts: dict[str, bytes] = {}
    for part in message.iter_parts():
        name = part.get_param("name", header="content-disposition")
        body = part.get_payload(decode=True)
        if isinstance(name, str) and isinstance(body, bytes):
            parts[name] = body
    if not parts or message.defects:
        raise SilentRefusal(BAD_REQUEST)
    return parts
