"""Random requests to every route, with values of every JSON type: no reply is 500, and the node survives.

Keys of bodies are texts of the route's module, so that most values reach the code that reads them.
"""

from __future__ import annotations

import ast
import copy
import inspect
import json
import random
import re
import sys
from collections.abc import Iterator
from functools import cache
from typing import Any
from urllib.parse import quote

import pytest

from mirrormq.control import definitions_document
from mirrormq.management.api_routes import ROUTES
from mirrormq.management.route_table import ApiRoute
from tests.brokers.mirrormq import MirrorMQ
from tests.management.conftest import managed
from tests.management.http import Client

REQUESTS = 1500
WORD = re.compile(r"[a-z_A-Z-]{2,30}")
PARTS = (
    "%2F", "guest", "target", "amq.direct", "x", "%00", "%FF", "..", "%2F%2F", "a%0D%0Ab", "0", "-1",
    "9" * 30, "1.5", "all", "queue", "e", "rabbit@x", "~", "%7B%7D", "shovel", "max-connections", "n" * 300,
)  # fmt: skip
VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2**70, 1.5, 1e308, "", "x", "guest", "/", "true", "5", "queue", "target",
    "all", ".*", "(", "\0", "a\r\nb", "é" * 200, "ack_requeue_true", "string", "base64", "auto", "direct",
    "sync",
    [], [1], ["x"], [None], [[]], [{}], {}, {"a": 1}, {"x": None}, {"x": [{}]}, {"max-connections": "x"},
    {"max-length": 1}, {"max-length": "x"}, [{"name": 5}], [{"name": "x", "vhost": []}],
)  # fmt: skip
NEEDED = (
    "pattern", "definition", "value", "configure", "write", "read", "routing_key", "payload",
    "payload_encoding", "properties", "count", "ackmode", "encoding", "tags", "type", "exchange", "node",
    "action", "name", "vhost",
)  # fmt: skip
SPARED = ("users/guest", "users/bulk-delete", "permissions", "mirrormq/control")
"""Requests that would revoke guest's permissions, and the one that runs control commands."""


@cache
def words(module: str) -> tuple[str, ...]:
    """Return the texts in a module that may be keys."""
    found = {
        node.value
        for source in (sys.modules[module], definitions_document)
        for node in ast.walk(ast.parse(inspect.getsource(source)))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and WORD.fullmatch(node.value)
    }
    return tuple(sorted(found))


class Fuzz:
    """Generator of requests from a seed."""

    def __init__(self, seed: int) -> None:
        self._choice = random.Random(seed)

    def value(self, keys: tuple[str, ...], depth: int = 0) -> Any:
        if depth < 3 and self._choice.random() < 0.25:
            return (
                self.table(keys, 3, depth) if self._choice.random() < 0.5 else [self.value(keys, depth + 1)]
            )
        return copy.deepcopy(self._choice.choice(VALUES))

    def table(self, keys: tuple[str, ...], most: int, depth: int = 0) -> dict[str, Any]:
        count = self._choice.randint(0, most)
        return {self._choice.choice(keys): self.value(keys, depth + 1) for _ in range(count)}

    def body(self, keys: tuple[str, ...]) -> Any:
        if self._choice.random() < 0.1:
            return self.value(keys)
        needed = {name: self.value(keys) for name in NEEDED if self._choice.random() < 0.5}
        return needed | self.table(keys, 8)

    def request(self) -> tuple[str, str, Any]:
        """Return method, path and body."""
        route: ApiRoute = self._choice.choice(ROUTES)
        method = self._choice.choice(sorted(route.handlers))
        keys = words(getattr(route.handlers[method], "__module__", definitions_document.__name__))
        path = "/".join(
            self._choice.choice(PARTS) if part.startswith("{") else part for part in route.path.split("/")
        )
        if self._choice.random() < 0.4:
            pairs = self.table((*keys, "sort", "columns", "page", "page_size", "use_regex", "lengths_age"), 3)
            path += "?" + "&".join(f"{name}={quote(str(value), safe='')}" for name, value in pairs.items())
        return method, path, None if method == "GET" else self.body(keys)


@pytest.fixture(scope="module")
def node() -> Iterator[MirrorMQ]:
    with managed() as broker:
        yield broker


@pytest.mark.parametrize("seed", range(3))
def test_no_request_is_answered_with_500(seed: int, node: MirrorMQ, client: Client) -> None:
    fuzz, asked = Fuzz(seed), 0
    client.put("queues/%2F/target", {})
    for _ in range(REQUESTS):
        method, path, body = fuzz.request()
        if method != "GET" and path.startswith(SPARED):
            continue
        asked += 1
        answer = client.request(method, path, body)
        assert answer.status != 500, (method, path, json.dumps(body), node.output[-2000:])
    assert asked > REQUESTS / 2
    assert client.get("whoami")["name"] == "guest"
    assert "Traceback" not in node.output
