"""Schema registry with Confluent's HTTP API on loopback, as far as readers use it."""

from __future__ import annotations

import base64
import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit

LOGIN = "reader:p@ss"


class Schema(NamedTuple):
    """Registered version of a subject."""

    kind: str
    content: bytes
    references: tuple[tuple[str, str, int], ...]
    """Name, subject and version of each."""


class RegistryServer:
    """Use as a context manager; `url` contains the login."""

    def __init__(self) -> None:
        self.schemas: list[Schema] = []
        self.subjects: dict[str, list[int]] = {}
        self.requests: list[str] = []
        self.failures = 0
        """Number of next requests that are answered with status 503."""
        registry = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                status, answer = registry.answer(self.path, self.headers.get("Authorization", ""))
                content = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_: Any) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://{LOGIN.replace('p@ss', 'p%40ss')}@127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> RegistryServer:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def register(
        self, subject: str, kind: str, content: bytes, references: tuple[tuple[str, str, int], ...] = ()
    ) -> int:
        """Add a version of a subject and return the schema's number."""
        self.schemas.append(Schema(kind, content, references))
        self.subjects.setdefault(subject, []).append(len(self.schemas))
        return len(self.schemas)

    def answer(self, path: str, authorization: str) -> tuple[int, dict[str, Any]]:
        """Return status and body of the answer to a request."""
        self.requests.append(path)
        if self.failures:
            self.failures -= 1
            return 503, {"error_code": 50301, "message": "not now"}
        if authorization != f"Basic {base64.b64encode(LOGIN.encode()).decode()}":
            return 401, {"error_code": 401, "message": "Unauthorized"}
        parts = urlsplit(path)
        if found := re.fullmatch(r"/schemas/ids/(\d+)", parts.path):
            number = int(found[1])
        elif found := re.fullmatch(r"/subjects/([^/]+)/versions/(\d+|latest)", parts.path):
            versions = self.subjects.get(unquote(found[1]), [0])
            number = versions[-1] if found[2] == "latest" else versions[int(found[2]) - 1]
        else:
            number = 0
        if not 0 < number <= len(self.schemas):
            return 404, {"error_code": 40403, "message": "Schema not found"}
        return 200, self._described(number, parse_qs(parts.query).get("format") == ["serialized"])

    def _described(self, number: int, serialized: bool) -> dict[str, Any]:
        schema = self.schemas[number - 1]
        if schema.kind == "PROTOBUF":
            text = base64.b64encode(schema.content).decode() if serialized else 'syntax = "proto3";'
        else:
            text = schema.content.decode()
        found: dict[str, Any] = {"id": number, "schema": text}
        if schema.kind != "AVRO":  # the registry leaves the kind out for Avro
            found["schemaType"] = schema.kind
        if schema.references:
            keys = ("name", "subject", "version")
            found["references"] = [dict(zip(keys, each, strict=True)) for each in schema.references]
        return found
