"""Definitions, out and in."""

from __future__ import annotations

from typing import Any

from mirrormq.control import definitions
from mirrormq.control.node import Node
from mirrormq.control.protocol import Request
from mirrormq.control.verbs.checks import json_value


def export_definitions(node: Node, request: Request) -> dict[str, Any]:
    return definitions.export_definitions(node.metadata.state, node.settings.product_version)


def import_definitions(node: Node, request: Request) -> None:
    definitions.import_definitions(node.metadata, json_value(request.arguments[0]), node.settings)


VERBS = {"export_definitions": export_definitions, "import_definitions": import_definitions}
