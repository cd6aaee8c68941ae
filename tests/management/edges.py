"""Edge cases of the API: unusual paths, queries, content types, permissions and bodies.

`EDGES` are sent in this order to a node on which `WORLD` was created, so a later one may depend on an
earlier one. `recorded_edges.json` holds RabbitMQ's replies: status, some headers, and the body.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from tests.management.http import Client

PASSWORD = "p"
USERS = {
    "root": "administrator",
    "monitor": "monitoring",
    "maker": "policymaker",
    "manager": "management",
    "nobody": "",
}
"""Users by tag; `root` has no permissions in any vhost, the others have some in `/`."""

HEADERS = ("allow", "cache-control", "content-type", "location", "www-authenticate")
JSON = "application/json"
FORM = "multipart/form-data; boundary=XX"


class Edge(NamedTuple):
    """Single request."""

    method: str
    path: str
    body: str | None = None
    user: str = "guest"
    content_type: str | None = JSON


def read(lines: str) -> list[Edge]:
    """Parse one request per line: the user unless it is guest, the method, the path, the body."""
    found = []
    for line in lines.strip().splitlines():
        first, rest = line.split(" ", 1)
        user, rest = (first, rest) if first.islower() else ("guest", line)
        method, path, *body = rest.split(" ", 2)
        found.append(Edge(method, path, body[0] if body else None, user))
    return found


WORLD = read("""
PUT vhosts/other {}
PUT vhosts/limited {}
PUT permissions/%2F/monitor {"configure": "^own", "write": "^(own|q)", "read": "^(own|q)"}
PUT permissions/%2F/maker {"configure": "^own", "write": "^(own|q)", "read": "^(own|q)"}
PUT permissions/%2F/manager {"configure": "^own", "write": "^(own|q|x)", "read": "^(own|q)"}
PUT topic-permissions/%2F/manager {"exchange": "x.topic", "write": "^a", "read": ".*"}
PUT vhost-limits/limited/max-queues {"value": 1}
PUT queues/%2F/q1 {"durable": true}
PUT queues/%2F/q2 {"arguments": {"x-max-length": 10, "x-message-ttl": 600000}}
PUT queues/%2F/a%2Fb {}
PUT exchanges/%2F/x.direct {"type": "direct", "durable": true}
PUT exchanges/%2F/x.topic {"type": "topic", "durable": true}
POST bindings/%2F/e/x.direct/q/q1 {"routing_key": "k"}
POST bindings/%2F/e/x.direct/q/q1 {"routing_key": "k", "arguments": {"x": 1}}
PUT policies/%2F/pol {"pattern": "^q", "definition": {"max-length": 50}, "priority": 2, "apply-to": "queues"}
PUT operator-policies/%2F/op {"pattern": "^q2", "definition": {"max-length": 40}}
POST exchanges/%2F/amq.default/publish {"properties": {}, "routing_key": "q1", "payload": "a", "payload_encoding": "string"}
POST exchanges/%2F/amq.default/publish {"properties": {}, "routing_key": "q1", "payload": "b", "payload_encoding": "string"}
""")  # noqa: E501 - a line for each

_RULE = '{"pattern": "%s", "definition": {%s}, "apply-to": "%s", "priority": %s}'
_LIMITS = '{"vhost": "other", "component": "vhost-limits", "name": "limits", "value": []}'
_ANSWER = '{"count": %s, "ackmode": "%s", "encoding": "%s"}'
_MESSAGE = '{"properties": %s, "routing_key": %s, "payload": %s, "payload_encoding": "%s"}'

PATHS = [
    Edge(method, path)
    for path in (
        "nothing",
        "queues/%2F/q1/strange",
        "Queues/%2F",
        "exchanges/%2F/x.direct/bindings",
        "queues/%2F/%zz",
        "queues//",
        "%71ueues/%2F/q1/contents",
        "vhost-limits",
        "user-limits/guest",
        "all-configuration",
    )
    for method in ("HEAD", "OPTIONS", "PUT", "DELETE", "TRACE")
]

QUERIES = read("""
GET queues?page=2&page_size=3&columns=name
GET queues?page=3&page_size=3&columns=name
GET queues?page=1&name=nothing
GET queues?page=1&page=2&columns=name
GET queues?page=%201
GET queues?page=%2B1&columns=name
GET queues?columns=
GET queues?columns=name,strange&columns=vhost
GET queues?columns=.name
GET queues?columns=name.inside
GET queues?columns=arguments.x-max-length
GET queues/%2F/q2?columns=arguments.strange,name
GET queues?disable_stats=true&columns=name,state
GET overview?columns=exchange_types.name
GET vhosts?columns=name,metadata.tags
GET policies?columns=definition.strange,name
GET definitions?columns=queues.name
GET queues?=x
GET queues?a=%zz
GET queues/%2F/q1?lengths_age=501&lengths_incr=1
GET queues/%2F/q1?lengths_age=500&lengths_incr=1&columns=name
GET health/checks/certificate-expiration/-1/days
GET health/checks/certificate-expiration/one/days
""")

TYPES = [
    Edge(method, path, body, content_type=kind)
    for method, path, body in (
        ("PUT", "vhost-limits/other/max-queues", '{"value": 9}'),
        ("PUT", "operator-policies/%2F/op", '{"pattern": "^q2", "definition": {"max-length": 40}}'),
        ("PUT", "operator-policies/nowhere/op", "{}"),
        ("PUT", "feature-flags/user_limits/enable", "{}"),
        ("PUT", "vhosts/other", "{}"),
        ("POST", "definitions", "{}"),
    )
    for kind in (None, "text/plain", "garbage", "Application/JSON; charset=utf-8")
]


def _form(**parts: str) -> str:
    shown = [
        f'--XX\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{body}\r\n'
        for name, body in parts.items()
    ]
    return "".join(shown) + "--XX--\r\n"


_DOCUMENT = json.dumps(
    {"queues": [{"name": "sent", "vhost": "/", "durable": True, "auto_delete": False, "arguments": {}}]}
)
FORMS = [
    Edge("POST", "definitions", _form(file=_DOCUMENT), content_type=FORM),
    Edge("GET", "queues/%2F/sent?columns=name,durable"),
    Edge("POST", "definitions", _form(file=_DOCUMENT, redirect="/#/done"), content_type=FORM),
    Edge("POST", "definitions/%2F", _form(file="{not json"), content_type=FORM),
    Edge("POST", "definitions", _form(other=_DOCUMENT), content_type=FORM),
    Edge("POST", "definitions", "no form at all", content_type=FORM),
    Edge("POST", "definitions", _form(file=_DOCUMENT), content_type="multipart/form-data"),
]

RIGHTS = read(f"""
root GET queues?columns=vhost,name
root GET queues/%2F/q1?columns=name
root GET exchanges/other/missing
root GET policies/%2F/pol
root GET bindings/%2F/e/x.direct/q/q1/k
root GET parameters/operator_policy/%2F
root GET aliveness-test/%2F
root PUT queues/%2F/q1 {{"durable": true}}
root DELETE queues/%2F/q1
root DELETE queues/%2F/missing
root POST queues/%2F/q1/get {_ANSWER % (1, "ack_requeue_true", "auto")}
root POST exchanges/%2F/amq.default/publish {_MESSAGE % ("{}", '"q1"', '"x"', "string")}
root PUT policies/%2F/pol {_RULE % ("^q", '"max-length": 50', "queues", 2)}
monitor GET queues/other
monitor GET connections/username/guest
monitor GET vhosts/other/connections
monitor GET vhosts/other/channels
monitor GET policies/%2F/pol
monitor GET operator-policies/%2F/op
manager GET policies/%2F/pol
manager GET policies
manager GET operator-policies/%2F/op
manager GET operator-policies/nowhere/op
manager GET overview?columns=statistics_db_event_queue
maker GET policies/%2F/pol
maker GET policies/other/pol
maker GET operator-policies/%2F
manager POST exchanges/%2F/x.topic/publish {_MESSAGE % ("{}", '"b"', '"x"', "string")}
manager POST exchanges/%2F/amq.topic/publish {_MESSAGE % ("{}", '"b"', '"x"', "string")}
DELETE auth/attempts/NODE
nobody GET whoami
manager GET nodes
manager GET queues/other
GET auth/attempts/NODE
""")

BODIES = read(f"""
PUT vhosts/other null
PUT vhosts/other "twice"
PUT vhosts/other [1]
POST definitions null
POST definitions "twice"
PUT queues/%2F/q9 {{"durable": 1}}
PUT vhosts/other {{"tracing": 0}}
POST bindings/%2F/e/amq.default/q/q1 {{"routing_key": "k"}}
POST bindings/%2F/e/x.direct/e/amq.default {{"routing_key": "k"}}
PUT permissions/%2F/missing {{}}
PUT topic-permissions/nowhere/guest {{}}
PUT vhost-limits/nowhere/max-queues {{}}
PUT user-limits/missing/strange {{"value": 1}}
PUT user-limits/missing/max-channels {{"value": "x"}}
PUT user-limits/missing/max-channels {{"value": 1}}
POST vhosts/nov/start/NODE
POST vhosts/%2F/start/missing
PUT policies/%2F/bad {_RULE % ("(", '"max-length": -1', "odd", '"x"')}
PUT policies/%2F/bad {{"pattern": "x", "definition": {{}}, "priority": "x"}}
PUT operator-policies/%2F/bad {{"pattern": "(", "definition": {{"ha-mode": "all"}}, "apply-to": "odd"}}
PUT parameters/operator_policy/%2F/bad {{"value": {{"pattern": "x", "strange": 1}}}}
PUT parameters/operator_policy/%2F/bad {{"value": 5}}
PUT parameters/policy/%2F/bad {{"value": {_RULE % ("x", '"max-length": 1', "all", 1)}}}
PUT parameters/vhost-limits/other/limits {{"value": 5}}
PUT parameters/vhost-limits/other/limits {{"value": {{"max-queues": "x"}}}}
POST definitions {{"parameters": [{_LIMITS}]}}
PUT users/made {{"password": "", "tags": "", "hashing_algorithm": "odd"}}
PUT users/made {{"password_hash": null, "tags": ""}}
POST queues/%2F/missing/get {_ANSWER % (0, "ack_requeue_true", "auto")}
POST queues/%2F/q1/get {_ANSWER % (0, "odd", "auto")}
POST queues/%2F/q1/get {_ANSWER % (1, "odd", "odd")}
POST queues/%2F/q1/get {_ANSWER % (-1, "ack_requeue_true", "base64")}
POST queues/nowhere/q1/get {_ANSWER % (1, "ack_requeue_true", "auto")}
POST queues/nowhere/q1/get {{}}
POST exchanges/nowhere/x/publish {_MESSAGE % ("{}", '"k"', '"x"', "string")}
POST exchanges/nowhere/x/publish {_MESSAGE % ("{}", '"k"', "5", "string")}
POST exchanges/%2F/x.direct/publish {_MESSAGE % ('{"type": 1}', '"k"', '"x"', "odd")}
""")

EDGES = [*PATHS, *QUERIES, *TYPES, *FORMS, *RIGHTS, *BODIES]


def observe(management_port: int) -> list[dict[str, Any]]:
    """Create the world and send every request."""
    guest = Client(management_port)
    for name, tag in USERS.items():
        assert guest.put(f"users/{name}", {"password": PASSWORD, "tags": tag}).status == 201
    node = str(guest.get("overview")["node"])
    for edge in WORLD:
        assert (made := ask(management_port, edge, node))["status"] in (200, 201, 204), (edge, made)
    return [ask(management_port, edge, node) for edge in EDGES]


def ask(port: int, edge: Edge, node: str) -> dict[str, Any]:
    """Return one reply without node-specific values."""
    client = Client(port, edge.user, "guest" if edge.user == "guest" else PASSWORD)
    raw = None if edge.body is None else edge.body.encode()
    answer = client.request(
        edge.method, edge.path.replace("NODE", node), raw=raw, headers={"Content-Type": edge.content_type}
    )
    headers = {name: answer.headers[name] for name in HEADERS if name in answer.headers}
    shown = json.loads(json.dumps(answer.shown).replace(node, "NODE"))
    return {"asked": list(edge), "status": answer.status, "headers": headers, "body": shown}
