"""Kubernetes API server for tests: Endpoints of one service over TLS, bearer tokens, Status errors."""

from __future__ import annotations

import json
import ssl
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

NAMESPACE = "brokers"
SERVICE = "mirrormq-nodes"
TOKEN = "eyJhbGciOiJSUzI1NiJ9.for-tests.signature"


class KubernetesApi:
    """Server whose Endpoints object a test changes. `directory` becomes the service account's directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.ready: list[dict[str, str]] = []
        self.not_ready: list[dict[str, str]] = []
        (directory / "token").write_text(TOKEN + "\n")
        (directory / "namespace").write_text(NAMESPACE)
        certificate, key = directory / "ca.crt", directory / "api.key"
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
             "-keyout", str(key), "-out", str(certificate), "-days", "2", "-subj", "/CN=kubernetes",
             "-addext", "subjectAltName=IP:127.0.0.1"],
            check=True, capture_output=True,
        )  # fmt: skip
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        handler = type("Handler", (_Handler,), {"api": self})
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def endpoints(self) -> dict[str, Any]:
        """Return the Endpoints object; the API omits lists that are empty."""
        subset: dict[str, Any] = {"ports": [{"name": "cluster", "port": 25672, "protocol": "TCP"}]}
        if self.ready:
            subset["addresses"] = self.ready
        if self.not_ready:
            subset["notReadyAddresses"] = self.not_ready
        document: dict[str, Any] = {
            "kind": "Endpoints",
            "apiVersion": "v1",
            "metadata": {"name": SERVICE, "namespace": NAMESPACE},
        }
        return {**document, "subsets": [subset]} if len(subset) > 1 else document

    def settings(self) -> str:
        """Return the lines of a node's settings."""
        return f"""cluster_formation.peer_discovery_backend = rabbit_peer_discovery_k8s
cluster_formation.k8s.host = 127.0.0.1
cluster_formation.k8s.port = {self.port}
cluster_formation.k8s.service_name = {SERVICE}
cluster_formation.k8s.address_type = hostname
cluster_formation.k8s.token_path = {self.directory}/token
cluster_formation.k8s.cert_path = {self.directory}/ca.crt
cluster_formation.k8s.namespace_path = {self.directory}/namespace
"""


class _Handler(BaseHTTPRequestHandler):
    api: KubernetesApi
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        if self.headers.get("authorization") != f"Bearer {TOKEN}":
            self._status(401, "Unauthorized", "Unauthorized")
        elif self.path != f"/api/v1/namespaces/{NAMESPACE}/endpoints/{SERVICE}":
            self._status(404, "NotFound", f'endpoints "{self.path.rpartition("/")[2]}" not found')
        else:
            self._send(200, self.api.endpoints())

    def _status(self, code: int, reason: str, message: str) -> None:
        status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": message}
        self._send(code, {**status, "reason": reason, "code": code})

    def _send(self, code: int, document: dict[str, Any]) -> None:
        body = json.dumps(document).encode()
        self.send_response(code)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_request(self, *arguments: Any) -> None:
        """Keep the test's output clean."""
