"""Registered schemas of message bodies: a directory, or a registry that speaks Confluent's HTTP API.

A publisher that uses a registry writes a header before each body: a zero byte and the number of its schema in
four bytes, the highest first. Protobuf bodies also name the message type, by its place in the file.

A directory has one file per schema, named after the subject or the number: `orders.avsc` (Avro), `7.avsc`,
`orders.json` (JSON Schema), `orders.desc` (Protobuf, by `protoc --include_imports --descriptor_set_out`).
"""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import quote, unquote, urlsplit, urlunsplit
from urllib.request import Request, urlopen

AVRO, JSON_SCHEMA, PROTOBUF = "AVRO", "JSON", "PROTOBUF"
"""Kinds of schemas, as the HTTP API calls them."""
PROTOBUF_FILES = "PROTOBUF_FILES"
"""Kind of a file descriptor set, in a directory."""
SUFFIXES: Mapping[str, str] = {".avsc": AVRO, ".json": JSON_SCHEMA, ".desc": PROTOBUF_FILES}

TIMEOUT_S = 10.0
"""Time limit for an answer of the registry, as for a request to a node."""
TRIES = 3
PAUSE_S = 0.5
"""Pause before a request that failed is repeated: a registry behind a balancer restarts node by node."""

REFERENCES_MAX = 64
"""Deepest nesting of references. A schema that refers to itself has no end."""

SCHEMAS_MAX = 1024
"""Schemas that a process keeps: more than the versions of the subjects that one query reads."""

NOT_FOUND = 404


class RegistryError(Exception):
    """The registry does not answer, or not as expected. A task that meets it fails and is repeated."""


class UnknownSchema(RegistryError):
    """The registry has no such schema."""


@dataclass(frozen=True)
class RegisteredSchema:
    """Schema with the schemas that it refers to."""

    kind: str
    content: bytes
    """Text; for Protobuf a file descriptor or a set of them."""
    references: tuple[tuple[str, RegisteredSchema], ...] = ()
    """Name and content of each schema that it refers to."""


@dataclass(frozen=True, repr=False)
class SchemaRegistry:
    """Registry at a directory or an HTTP address, which may contain a user and a password."""

    where: str

    def __repr__(self) -> str:
        """Return the address without user and password."""
        return f"SchemaRegistry({self._shown!r})"

    def latest(self, subject: str) -> RegisteredSchema:
        """Return the newest schema of a subject."""
        if self._is_remote:
            return self._fetched(f"/subjects/{quote(subject, safe='')}/versions/latest", subject)
        return self._file(subject)

    def by_number(self, number: int) -> RegisteredSchema:
        """Return the schema that a body's header names. A number never gets another schema."""
        if self._is_remote:
            return self._fetched(f"/schemas/ids/{number}", str(number))
        return self._file(str(number))

    @property
    def _is_remote(self) -> bool:
        return self.where.startswith(("http://", "https://"))

    @property
    def _shown(self) -> str:
        if not self._is_remote:
            return self.where
        parts = urlsplit(self.where)
        return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2])).rstrip("/")

    def _file(self, name: str) -> RegisteredSchema:
        for suffix, kind in SUFFIXES.items():
            path = Path(self.where, f"{name}{suffix}")
            if path.parent == Path(self.where) and path.is_file():
                return RegisteredSchema(kind, path.read_bytes())
        raise UnknownSchema(f"the directory {self.where} has no {name}.avsc, {name}.json or {name}.desc")

    def _fetched(self, path: str, name: str, depth: int = 0) -> RegisteredSchema:
        if depth > REFERENCES_MAX:
            raise RegistryError(f"schema {name} has references more than {REFERENCES_MAX} deep")
        found = self._get(path, name)
        kind = found.get("schemaType") or AVRO
        if kind == PROTOBUF:
            found = self._get(f"{path}?format=serialized", name)
        try:
            text = found["schema"]
            content = base64.b64decode(text, validate=True) if kind == PROTOBUF else text.encode()
            references = tuple(
                (each["name"], self._version(each["subject"], each["version"], depth + 1))
                for each in found.get("references") or ()
            )
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise RegistryError(
                f"{self._shown} answers with something else than a schema: {error!r}"
            ) from None
        return RegisteredSchema(kind, content, references)

    def _version(self, subject: str, version: int, depth: int) -> RegisteredSchema:
        path = f"/subjects/{quote(subject, safe='')}/versions/{int(version)}"
        return self._fetched(path, f"{subject} version {version}", depth)

    def _get(self, path: str, name: str) -> dict[str, Any]:
        """Return the answer to a request, which is repeated if the registry fails."""
        parts = urlsplit(self.where)
        request = Request(self._shown + path, headers={"Accept": "application/vnd.schemaregistry.v1+json"})
        if parts.username is not None:
            login = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            request.add_header("Authorization", f"Basic {base64.b64encode(login.encode()).decode()}")
        for number in range(TRIES):
            try:
                with urlopen(request, timeout=TIMEOUT_S) as answer:
                    found = json.load(answer)
            except HTTPError as error:
                if error.code == NOT_FOUND:
                    raise UnknownSchema(f"{self._shown} has no schema {name}") from None
                failure = f"HTTP status {error.code}"
                if error.code < 500:
                    break
            except (URLError, OSError, ValueError) as error:
                failure = str(getattr(error, "reason", error))
            else:
                if isinstance(found, dict):
                    return found
                failure = "no JSON object"
            if number < TRIES - 1:
                time.sleep(PAUSE_S)
        raise RegistryError(f"the schema registry {self._shown} gives no schema {name}: {failure}")


@lru_cache(maxsize=SCHEMAS_MAX)
def schema_of_number(registry: SchemaRegistry, number: int) -> RegisteredSchema:
    """Return the schema of a number, fetched once per process."""
    return registry.by_number(number)
