"""Resource: export and import of definitions, of the whole cluster or of one vhost.

As in RabbitMQ, the export of the HTTP API differs from `export_definitions` of the control program: it
includes transient objects, except exclusive queues.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

import msgspec

from mirrormq.auth.limit_checks import MAX_QUEUES, UNLIMITED
from mirrormq.control.commands.definitions import CONVERT_QUORUM
from mirrormq.control.commands.parameters import parameter_rows
from mirrormq.control.definitions_import import ImportOptions, import_definitions
from mirrormq.control.definitions_json import binding_row, exchange_row, policy_row, queue_row, user_row
from mirrormq.management import access, columns, form_data
from mirrormq.management.api_request import ApiRequest, EmptyReply, RawReply
from mirrormq.management.http_errors import HttpRefusal, bad_request, encode, missing
from mirrormq.management.paged_listing import SLICE_ROWS
from mirrormq.management.route_table import JSON, ApiRoute
from mirrormq.metadata import records
from mirrormq.metadata.cluster_name import shown_global_parameters
from mirrormq.metadata.state import MetadataState

T = TypeVar("T")

SEE_OTHER = 303
UNREADABLE = "failed_to_parse_json"

OF_A_VHOST = ("parameters", "policies", "queues", "exchanges", "bindings")
NAMELESS = ("queues", "exchanges", "bindings")
"""Kinds whose rows omit the vhost in the definitions of one vhost."""


async def _document(call: ApiRequest) -> dict[str, Any]:
    settings, state = call.node.settings, call.state
    return {
        "rabbit_version": settings.product_version,
        "rabbitmq_version": settings.product_version,
        "product_name": settings.product,
        "product_version": settings.product_version,
        "users": await _rows(state.users, user_row),
        "vhosts": await _rows(state.vhosts, lambda vhost: {"name": vhost.name}),
        "permissions": await _rows(state.permissions, msgspec.structs.asdict),
        "topic_permissions": await _rows(state.topic_permissions, msgspec.structs.asdict),
        "parameters": parameter_rows(state),
        "global_parameters": await _rows(shown_global_parameters(state), msgspec.structs.asdict),
        "policies": await _rows(state.policies, policy_row),
        "queues": await _rows(state.queues, _queue),
        "exchanges": await _rows(state.exchanges, _exchange),
        "bindings": await _rows(state.bindings, lambda binding: _binding(state, binding)),
    }


async def _rows(kept: Mapping[Any, T], row: Callable[[T], dict[str, Any] | None]) -> list[dict[str, Any]]:
    """Build rows in chunks, so that other work continues; records with the row None are omitted."""
    records_, rows = list(kept.values()), []
    for start in range(0, len(records_), SLICE_ROWS):
        made = [row(record) for record in records_[start : start + SLICE_ROWS]]
        rows += [each for each in made if each is not None]
        await asyncio.sleep(0)
    return rows


def _queue(queue: records.Queue) -> dict[str, Any] | None:
    return None if queue.exclusive else queue_row(queue)


def _exchange(exchange: records.Exchange) -> dict[str, Any] | None:
    return exchange_row(exchange) if exchange.name and not exchange.name.startswith("amq.") else None


def _binding(state: MetadataState, binding: records.Binding) -> dict[str, Any] | None:
    queue = state.queues.get((binding.vhost, binding.destination))
    if binding.destination_kind == "queue" and queue is not None and queue.exclusive:
        return None
    return binding_row(binding)


def _answer(call: ApiRequest, document: dict[str, Any]) -> RawReply:
    headers = {}
    if wanted := call.query.get("download"):
        # The name becomes part of a header: keep no quotes, spaces or line breaks.
        safe = "".join(each for each in wanted if each.isalnum() or each in "-_.@")
        headers["content-disposition"] = f"attachment; filename={safe}"
    return RawReply(encode(columns.of_one(document, call.query)), headers=headers)


async def export_all(call: ApiRequest) -> RawReply:
    return _answer(call, await _document(call))


async def export_vhost(call: ApiRequest) -> RawReply:
    if call.vhost not in call.state.vhosts:
        raise bad_request("vhost_not_found")
    document = await _document(call)
    found: dict[str, Any] = {"rabbit_version": document["rabbit_version"]}
    for name in OF_A_VHOST:
        rows = [row for row in document[name] if row["vhost"] == call.vhost]
        if name in NAMELESS:
            rows = [{key: value for key, value in row.items() if key != "vhost"} for row in rows]
        found[name] = rows
    return _answer(call, found)


def import_options(call: ApiRequest) -> ImportOptions:
    return ImportOptions(
        call.query.get("all_or_nothing") == "true", call.query.get("convert") == CONVERT_QUORUM
    )


def importable(call: ApiRequest, document: dict[str, Any], vhost: str) -> dict[str, Any]:
    """Return the document of an import within the limits; with a vhost, its objects as objects of that
    vhost."""
    chosen = _in_vhost(call, document, vhost) if vhost else document
    _check_limits(call, chosen)
    return chosen


def _import(call: ApiRequest, document: dict[str, Any]) -> EmptyReply | RawReply:
    """Import a document. The reply lists entries that were skipped if the client asks for that; otherwise
    the first one is an error, as in RabbitMQ, although the rest is imported."""
    options = import_options(call)
    skips = call.query.get("skip_unsupported") == "true"
    unknown = _unknown_vhost(call, document)
    if unknown is not None and options.all_or_nothing:
        raise unknown
    with call.node.metadata.acting_as(call.user.name):
        report = import_definitions(call.node.metadata, document, call.node.settings, options)
    if skips:
        return RawReply(
            encode({"skipped": [entry.row() for entry in report.skipped], "converted": report.converted})
        )
    if unknown is not None:
        raise unknown
    if report.skipped:
        raise report.skipped[0].refusal("The rest was imported.")
    return EmptyReply()


def _entries(document: dict[str, Any], name: str) -> list[dict[str, Any]]:
    found = document.get(name)
    return [entry for entry in found if isinstance(entry, dict)] if isinstance(found, list) else []


def _names(entries: Iterable[dict[str, Any]]) -> set[str]:
    """Return the names that are texts; the import refuses the others."""
    return {name for entry in entries if isinstance(name := entry.get("name"), str)}


def _unknown_vhost(call: ApiRequest, document: dict[str, Any]) -> HttpRefusal | None:
    """Return RabbitMQ's error for objects in a vhost that neither exists nor is part of the import."""
    known = set(call.state.vhosts) | _names(_entries(document, "vhosts"))
    for name in NAMELESS:
        for entry in _entries(document, name):
            if "vhost" in entry and not (isinstance(entry["vhost"], str) and entry["vhost"] in known):
                return bad_request(["no_such_vhost", entry["vhost"]])
    return None


def _check_limits(call: ApiRequest, document: dict[str, Any]) -> None:
    """Refuse the whole import if it would exceed a vhost's queue limit."""
    for vhost in call.state.vhosts.values():
        limit = vhost.limits.get(MAX_QUEUES, UNLIMITED)
        have = call.state.queues_of(vhost.name)
        wanted = _names(entry for entry in _entries(document, "queues") if entry.get("vhost") == vhost.name)
        new = len(wanted - have.keys())
        if 0 <= limit < len(have) + new:
            raise bad_request(
                f'Adding {new} queue(s) to virtual host "{vhost.name}" would exceed the limit of '
                f"{limit} queue(s).\n\nThis virtual host currently has {len(have)} queue(s) defined.\n\n"
                "Import aborted!"
            )


def import_all(call: ApiRequest) -> EmptyReply | RawReply:
    return _uploaded(call, call.query.get("vhost", ""))


def import_vhost(call: ApiRequest) -> EmptyReply | RawReply:
    return _uploaded(call, call.vhost)


def _uploaded(call: ApiRequest, vhost: str) -> EmptyReply | RawReply:
    """Import the document in the body, or in the part `file` of a form, whose part `redirect` names the
    next page."""
    redirect = b""
    if form_data.is_form(kind := call.headers.get("content-type", "")):
        parts = form_data.fields(kind, call.content)
        redirect, call.content = parts.get("redirect", b""), parts.get("file", b"")
        # The target becomes a header: refuse control characters.
        if "file" not in parts or not (redirect.isascii() and redirect.decode("ascii").isprintable()):
            raise bad_request(UNREADABLE)
    document = call.body(unreadable=UNREADABLE)
    done = _import(call, importable(call, document, vhost))
    return EmptyReply(SEE_OTHER, {"location": redirect.decode("ascii")}) if redirect else done


def _in_vhost(call: ApiRequest, document: dict[str, Any], vhost: str) -> dict[str, Any]:
    if vhost not in call.state.vhosts:
        raise missing("vhost_not_found")
    chosen: dict[str, Any] = {}
    for name in OF_A_VHOST:
        rows = document.get(name, [])
        if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
            raise bad_request(f"{name} should be a list of objects")
        chosen[name] = [{**row, "vhost": vhost} for row in rows]
    return chosen


_MEDIA = (JSON, form_data.MULTIPART)
_ALL = {"GET": export_all, "POST": import_all}
_OF_VHOST = {"GET": export_vhost, "POST": import_vhost}

ROUTES = [
    ApiRoute("definitions", access.administrator, _ALL, media=_MEDIA),
    ApiRoute("all-configuration", access.administrator, _ALL, media=_MEDIA),  # RabbitMQ's former name.
    ApiRoute("definitions/{vhost}", access.administrator, _OF_VHOST, media=_MEDIA),
]
