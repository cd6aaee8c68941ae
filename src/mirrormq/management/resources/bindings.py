"""Bindings, between an exchange and a queue (e/q) or another exchange (e/e)."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote_plus

from mirrormq.errors import AmqpError
from mirrormq.management import access, shapes
from mirrormq.management.answers import not_found
from mirrormq.management.call import CREATED, Call, Done, Listing, declared, table
from mirrormq.management.resources.exchanges import DEFAULT_NAME
from mirrormq.management.routing import Handler, Route
from mirrormq.metadata.records import Binding, DestinationKind


def list_bindings(call: Call) -> Listing:
    found: list[Binding] = []
    for vhost in call.chosen_vhosts():
        found += [shapes.default_binding(vhost, name) for name in sorted(call.state.queues_of(vhost))]
        for source in sorted(call.state.exchanges_of(vhost)):
            kept = call.state.bindings_from(vhost, source).values()
            found += sorted(kept, key=lambda each: each.key)
    return Listing(found, shapes.binding)


def _exchange(named: str) -> str:
    return "" if named == DEFAULT_NAME else named


def _between(call: Call, kind: DestinationKind) -> list[Binding]:
    source = _exchange(call.parts["source"])
    destination = call.parts["destination"]
    if not source and kind == "queue":
        return [shapes.default_binding(call.vhost, destination)]
    found = call.state.bindings_to(call.vhost, kind, destination).values()
    return sorted((each for each in found if each.source == source), key=lambda each: each.key)


def _one(call: Call, kind: DestinationKind) -> Binding:
    """The path's last part has been decoded once, as every part; the key is encoded in itself."""
    for found in _between(call, kind):
        key = shapes.properties_key(found)
        if call.parts["properties"] in (key, shapes.decoded_key(key)):
            return found
    raise not_found()


def _handlers(kind: DestinationKind) -> tuple[dict[str, Handler], dict[str, Handler]]:
    def list_between(call: Call) -> Listing:
        return Listing(_between(call, kind), shapes.binding)

    async def add(call: Call) -> Done:
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
        made = [found for found in _between(call, kind) if found not in before] or [
            found for found in before if found.routing_key == key
        ]
        location = quote_plus(shapes.properties_key(made[0])) if made else "~"
        return Done(CREATED, {"location": f"{quote_plus(destination)}/{location}"})

    def show(call: Call) -> dict[str, Any]:
        return shapes.binding(_one(call, kind))

    async def remove(call: Call) -> Done:
        found = _one(call, kind)
        try:
            await call.direct().unbind(
                found.source, kind, found.destination, found.routing_key, found.arguments
            )
        except AmqpError as error:
            raise declared(error) from None
        return Done()

    return {"GET": list_between, "POST": add}, {"GET": show, "DELETE": remove}


_QUEUE_ALL, _QUEUE_ONE = _handlers("queue")
_EXCHANGE_ALL, _EXCHANGE_ONE = _handlers("exchange")

ROUTES = [
    Route("bindings", access.vhost, {"GET": list_bindings}),
    Route("bindings/{vhost}", access.vhost, {"GET": list_bindings}),
    Route("bindings/{vhost}/e/{source}/q/{destination}", access.vhost, _QUEUE_ALL),
    Route("bindings/{vhost}/e/{source}/q/{destination}/{properties}", access.vhost, _QUEUE_ONE),
    Route("bindings/{vhost}/e/{source}/e/{destination}", access.vhost, _EXCHANGE_ALL),
    Route("bindings/{vhost}/e/{source}/e/{destination}/{properties}", access.vhost, _EXCHANGE_ONE),
]
