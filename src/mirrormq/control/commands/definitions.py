"""Commands that export and import definitions."""

from __future__ import annotations

from typing import Any

from mirrormq.control import definitions_document
from mirrormq.control.commands.command_checks import json_value
from mirrormq.control.control_protocol import Request
from mirrormq.control.node_interface import ControlledNode


def export_definitions(node: ControlledNode, request: Request) -> dict[str, Any]:
    return definitions_document.export_definitions(node.metadata.state, node.settings.product_version)


def import_definitions(node: ControlledNode, request: Request) -> None:
    definitions_document.import_definitions(node.metadata, json_value(request.arguments[0]), node.settings)


COMMANDS = {"export_definitions": export_definitions, "import_definitions": import_definitions}
