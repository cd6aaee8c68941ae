"""Resource: bindings between an exchange and a queue (e/q) or another exchange (e/e)."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote_plus

from mirrormq.errors import AmqpError
from mirrormq.management import access, object_json
from mirrormq.management.api_request import CREATED, ApiRequest, EmptyReply, ListReply, declared, table
from mirrormq.management.http_errors import not_found
from mirrormq.management.resources.exchanges import DEFAULT_NAME
from mirrormq.management.route_table import ApiRoute, Handler
from mirrormq.metadata.records import Binding, DestinationKind


def list_bindings(call: ApiRequest) -> ListReply:
    found: list[Binding] = []
    for vhost in call.chosen_vhosts():
        found += [object_json.default_binding(vhost, name) for name in sorted(call.state.queues_of(vhost))]
        for source in sorted(call.state.exchanges_of(vhost)):
            kept = call.state.bindings_from(vhost, source).values()
            found += sorted(kept, key=lambda each: each.key)
    return ListReply(found, object_json.binding)


def _exchange(named: str) -> str:
    return "" if named == DEFAULT_NAME else named


def _between(call: ApiRequest, kind: DestinationKind) -> list[Binding]:
    source = _exchange(call.parts["source"])
    destination = call.parts["destination"]
    if not source and kind == "queue":
        return [object_json.default_binding(call.vhost, destination)]
    found = call.state.bindings_to(call.vhost, kind, destination).values()
    return sorted((each for each in found if each.source == source), key=lambda each: each.key)


def _binding_of_path(call: ApiRequest, kind: DestinationKind) -> Binding:
    """Return the binding of the path. Its last part was decoded once, like every part, but the key itself
    is encoded too."""
    for found in _between(call, kind):
        key = object_json.properties_key(found)
        if call.parts["properties"] in (key, object_json.decoded_key(key)):
            return found
    raise not_found()


def _handlers(kind: DestinationKind) -> tuple[dict[str, Handler], dict[str, Handler]]:
    def list_between(call: ApiRequest) -> ListReply:
        return ListReply(_between(call, kind), object_json.binding)

    async def add(call: ApiRequest) -> EmptyReply:
        body = call.body()
        key, destination = body.get("routing_key", ""), call.parts["destination"]
        source, target = _exchange(call.parts["source"]), destination
        if kind == "exchange":
            target = _exchange(destination)
        before = set(_between(call, kind))
        try:
            await call.direct().bind(source, kind, target, str(key), table(body))
        except AmqpError as error:
            raise declared(error) from None
        # The reply names the new binding, or the equal one that existed before.
        made = [found for found in _between(call, kind) if found not in before] or [
            found for found in before if found.routing_key == key
        ]
        location = quote_plus(object_json.properties_key(made[0])) if made else "~"
        return EmptyReply(CREATED, {"location": f"{quote_plus(destination)}/{location}"})

    def show(call: ApiRequest) -> dict[str, Any]:
        return object_json.binding(_binding_of_path(call, kind))

    async def remove(call: ApiRequest) -> EmptyReply:
        found = _binding_of_path(call, kind)
        try:
            await call.direct().unbind(
                found.source, kind, found.destination, found.routing_key, found.arguments
            )
        except AmqpError as error:
            raise declared(error) from None
        return EmptyReply()

    return {"GET": list_between, "POST": add}, {"GET": show, "DELETE": remove}


_QUEUE_ALL, _QUEUE_ONE = _handlers("queue")
_EXCHANGE_ALL, _EXCHANGE_ONE = _handlers("exchange")

ROUTES = [
    ApiRoute("bindings", access.vhost, {"GET": list_bindings}),
    ApiRoute("bindings/{vhost}", access.vhost, {"GET": list_bindings}),
    ApiRoute("bindings/{vhost}/e/{source}/q/{destination}", access.vhost, _QUEUE_ALL),
    ApiRoute("bindings/{vhost}/e/{source}/q/{destination}/{properties}", access.vhost, _QUEUE_ONE),
    ApiRoute("bindings/{vhost}/e/{source}/e/{destination}", access.vhost, _EXCHANGE_ALL),
    ApiRoute("bindings/{vhost}/e/{source}/e/{destination}/{properties}", access.vhost, _EXCHANGE_ONE),
]
