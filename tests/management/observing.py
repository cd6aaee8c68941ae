"""Observation of a broker's API in a scene: the shape of every GET, and the reply to every case.

Names that differ between runs (the node, the busy connection, ports) are replaced, so that two brokers can
be compared.
"""

from __future__ import annotations

import json
import re
from typing import Any
from urllib.parse import quote

from tests.management.cases import CASES
from tests.management.http import Answer, Client
from tests.management.scene import PASSWORD, Scene

ARGUMENTS_HASH = re.compile(r'("properties_key": "[^"~]*)~[\w-]{6}"')

_PATHS = """
overview cluster-name nodes nodes/NODE nodes/NODE/memory nodes/NODE/memory/relative
definitions definitions/%2F connections
connections/CONN connections/username/guest vhosts/%2F/connections connections/CONN/channels channels
channels/CONN%20(1) channels/CONN%20(2) vhosts/%2F/channels consumers consumers/%2F exchanges
exchanges/%2F exchanges/%2F/scene.direct exchanges/%2F/amq.default
exchanges/%2F/scene.direct/bindings/source exchanges/%2F/scene.fanout/bindings/destination queues
queues/%2F queues/%2F/scene.full queues/%2F/scene.busy queues/%2F/scene.exclusive
queues/%2F/scene.full/bindings bindings bindings/%2F bindings/%2F/e/scene.direct/q/scene.full
bindings/%2F/e/scene.direct/q/scene.full/key bindings/%2F/e/scene.direct/e/scene.fanout
bindings/%2F/e/scene.direct/e/scene.fanout/key vhosts vhosts/%2F vhosts/other vhosts/%2F/permissions
vhosts/%2F/topic-permissions users users/manager users/without-permissions users/manager/permissions
users/manager/topic-permissions permissions permissions/%2F/manager topic-permissions
topic-permissions/%2F/manager parameters parameters/operator_policy parameters/operator_policy/%2F
parameters/operator_policy/%2F/capped parameters/nothing global-parameters global-parameters/colour
policies policies/%2F policies/%2F/bounded operator-policies operator-policies/%2F
operator-policies/%2F/capped vhost-limits vhost-limits/other user-limits user-limits/maker
aliveness-test/%2F health/checks/alarms health/checks/local-alarms
health/checks/certificate-expiration/1/months health/checks/port-listener/1
health/checks/port-listener/AMQP health/checks/protocol-listener/amqp
health/checks/protocol-listener/mqtt health/checks/virtual-hosts
health/checks/node-is-mirror-sync-critical health/checks/node-is-quorum-critical healthchecks/node
healthchecks/node/NODE auth/attempts/NODE auth/attempts/NODE/source whoami auth extensions
feature-flags queues/%2F?page=2&page_size=2
queues?name=FULL&page=1 queues?name=^scene.f&use_regex=true&page=1
exchanges?page=1&page_size=3&sort=name&sort_reverse=true connections?page=1 channels?page=1
"""
PATHS = _PATHS.split()

_ORDERS = """
queues?columns=name&sort=name&sort_reverse=true queues?columns=name,messages&sort=messages
queues?columns=name,messages_ready,message_stats.publish exchanges?columns=vhost,name,type
queues/%2F?columns=name&page=1&page_size=2&sort=messages&sort_reverse=true
bindings/%2F?columns=source,destination users?columns=name&sort=name&sort_reverse=true
queues?columns=vhost,name,messages&disable_stats=true&enable_queue_totals=true vhosts?columns=name,tags
"""
ORDERS = _ORDERS.split()
"""Replies that must be equal in every value, because they test sorting and columns."""


def observe(amqp_port: int, management_port: int) -> dict[str, Any]:
    """Set the scene and observe everything."""
    with Scene(amqp_port, management_port) as scene:
        node = str(scene.client.get("overview")["node"])
        connection = scene.connection_name
        orders = {path: scene.client.get(path) for path in ORDERS}
        shapes = {}
        for path in PATHS:
            asked = path.replace("NODE", node).replace("CONN", quote(connection, safe=""))
            answer = scene.client.request("GET", asked.replace("AMQP", str(amqp_port)))
            shapes[path] = [answer.status, shape(answer.shown, node)]
        answers = [_case(management_port, node, number) for number in range(len(CASES))]
    return {"orders": orders, "shapes": shapes, "answers": answers}


def _case(port: int, node: str, number: int) -> list[Any]:
    user, method, path, body = CASES[number]
    client = Client(port, user, "guest" if user == "guest" else PASSWORD)
    asked = path.replace("NODE", node)
    if isinstance(body, bytes):
        answer = client.request(method, asked, raw=body)
    else:
        answer = client.request(method, asked, body)
    return [user, method, path, answer.status, _plain(answer, node)]


def _plain(answer: Answer, node: str) -> Any:
    """Replace the hash in a binding's name."""
    shown = json.dumps(answer.shown).replace(node, "NODE")
    return json.loads(ARGUMENTS_HASH.sub('\\1~HASH"', shown))


def shape(value: Any, node: str) -> Any:
    """Return the types inside a JSON value; a list has the shapes of its elements, each once."""
    if isinstance(value, dict):
        return {key.replace(node, "NODE"): shape(inner, node) for key, inner in sorted(value.items())}
    if isinstance(value, list):
        found: list[Any] = []
        for inner in value:
            if (seen := shape(inner, node)) not in found:
                found.append(seen)
        return sorted(found, key=json.dumps)
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int | float):
        return "number"
    return "null" if value is None else "string"
