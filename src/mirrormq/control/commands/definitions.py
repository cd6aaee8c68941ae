"""Commands that export and import definitions."""

from __future__ import annotations

from typing import Any

from mirrormq.control import definitions_document, definitions_import
from mirrormq.control.commands.command_checks import json_value
from mirrormq.control.control_protocol import EXIT_USAGE, ControlError, Request
from mirrormq.control.definitions_import import ImportOptions
from mirrormq.control.node_interface import ControlledNode

CONVERT_QUORUM = "quorum=mirrored"


def export_definitions(node: ControlledNode, request: Request) -> dict[str, Any]:
    return definitions_document.export_definitions(node.metadata.state, node.settings.product_version)


def import_definitions(node: ControlledNode, request: Request) -> dict[str, Any]:
    convert = request.options.get("convert")
    if convert not in (None, CONVERT_QUORUM):
        raise ControlError(f"--convert {convert} is unknown; the known one is {CONVERT_QUORUM}.", EXIT_USAGE)
    content = request.arguments[0].encode("utf-8", "surrogateescape")
    if request.flag("skip-if-unchanged"):
        if definitions_import.is_unchanged(node.metadata.state, content):
            return {"skipped": [], "converted": []}
        node.metadata.write(definitions_import.remember(content))
    options = ImportOptions(request.flag("all-or-nothing"), convert_quorum=convert is not None)
    report = definitions_import.import_definitions(
        node.metadata, json_value(request.arguments[0]), node.settings, options
    )
    return {"skipped": [entry.row() for entry in report.skipped], "converted": report.converted}


COMMANDS = {"export_definitions": export_definitions, "import_definitions": import_definitions}
