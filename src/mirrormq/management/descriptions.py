"""What each operation of the API does, in one sentence, for the page at /api/ and the OpenAPI document."""

from __future__ import annotations

_SENTENCES = """
GET (here) This page.
GET index.html This page, under the name that it has in RabbitMQ.
GET openapi.json This API in the words of OpenAPI, for tools.
GET overview Totals and rates of the cluster, its nodes' listeners, what comes and goes.
GET cluster-name The name of the cluster.
PUT cluster-name Give the cluster a name.
GET nodes All members of the cluster, running or not, with what they use.
GET nodes/{name} One of them.
GET nodes/{name}/memory What a node uses its memory for.
GET nodes/{name}/memory/relative The same in percent.
GET auth/attempts/{name} How often clients of a node logged in, or tried to.
DELETE auth/attempts/{name} Count that from nought again.
GET auth/attempts/{name}/source The same by address, which is not tracked: an empty list.
DELETE auth/attempts/{name}/source Nothing, as there is nothing to forget.
POST login Say whether the form's name and password are good for a login.
DELETE reset Statistics of all nodes start anew: rates and the past; counters go on.
DELETE reset/{name} The same on one node.
GET extensions Extensions of RabbitMQ's page.
PUT feature-flags/{name}/enable Nothing, as all are enabled.
GET feature-flags RabbitMQ's feature flags, for tools that look for them.
GET definitions Everything that is declared, as a file that can be imported again.
POST definitions Import such a file.
GET all-configuration What `definitions` was called long ago.
POST all-configuration The same.
GET definitions/{vhost} What is declared in one virtual host.
POST definitions/{vhost} Import into one virtual host.
GET connections All connections of clients.
GET connections/{name} One connection.
DELETE connections/{name} Close it; the header X-Reason says why.
GET connections/{name}/channels Its channels.
GET connections/username/{name} The connections of a user.
DELETE connections/username/{name} Close all connections of a user.
GET vhosts/{vhost}/connections The connections of a virtual host.
GET channels All channels.
GET channels/{name} One channel, with its consumers.
GET vhosts/{vhost}/channels The channels of a virtual host.
GET consumers All consumers.
GET consumers/{vhost} The consumers of a virtual host.
GET exchanges All exchanges.
GET exchanges/{vhost} The exchanges of a virtual host.
GET exchanges/{vhost}/{name} One exchange.
PUT exchanges/{vhost}/{name} Declare it.
DELETE exchanges/{vhost}/{name} Delete it; with if-unused=true only if nothing is bound to it.
GET exchanges/{vhost}/{name}/bindings/source The bindings that start at it.
GET exchanges/{vhost}/{name}/bindings/destination The bindings that end at it.
POST exchanges/{vhost}/{name}/publish Publish a message, and hear whether it reached a queue.
GET queues All queues, with their messages, rates and rings.
GET queues/{vhost} The queues of a virtual host.
GET queues/{vhost}/{name} One queue, with its consumers and its ring.
PUT queues/{vhost}/{name} Declare it.
DELETE queues/{vhost}/{name} Delete it; with if-empty=true or if-unused=true only if it is.
GET queues/{vhost}/{name}/bindings The bindings that end at it.
DELETE queues/{vhost}/{name}/contents Drop its ready messages.
POST queues/{vhost}/{name}/get Look at messages, and keep or drop them.
POST queues/{vhost}/{name}/actions Bring its mirrors up to date, or stop doing so: sync, cancel_sync.
GET bindings All bindings.
GET bindings/{vhost} The bindings of a virtual host.
GET bindings/{vhost}/e/{source}/q/{destination} The bindings of a queue to an exchange.
POST bindings/{vhost}/e/{source}/q/{destination} Bind a queue to an exchange.
GET bindings/{vhost}/e/{source}/q/{destination}/{properties} One binding.
DELETE bindings/{vhost}/e/{source}/q/{destination}/{properties} Unbind it.
GET bindings/{vhost}/e/{source}/e/{destination} The bindings between two exchanges.
POST bindings/{vhost}/e/{source}/e/{destination} Bind an exchange to another.
GET bindings/{vhost}/e/{source}/e/{destination}/{properties} One binding.
DELETE bindings/{vhost}/e/{source}/e/{destination}/{properties} Unbind it.
GET vhosts All virtual hosts that the user sees, with totals and rates.
GET vhosts/{vhost} One virtual host.
PUT vhosts/{vhost} Make it, or change it.
DELETE vhosts/{vhost} Delete it with everything in it.
POST vhosts/{vhost}/start/{name} Start it on a node; here it never stops by itself.
GET vhosts/{vhost}/permissions Who may do what in it.
GET vhosts/{vhost}/topic-permissions Who may use which topics in it.
GET users All users.
GET users/without-permissions Users who may do nothing anywhere.
POST users/bulk-delete Delete several users.
GET users/{name} One user.
PUT users/{name} Make or change a user.
DELETE users/{name} Delete a user and close their connections.
GET users/{name}/permissions What a user may do, by virtual host.
GET users/{name}/topic-permissions Which topics a user may use.
GET permissions All permissions.
GET permissions/{vhost}/{name} A user's permissions in a virtual host.
PUT permissions/{vhost}/{name} Set them.
DELETE permissions/{vhost}/{name} Take them away.
GET topic-permissions All topic permissions.
GET topic-permissions/{vhost}/{name} A user's topic permissions in a virtual host.
PUT topic-permissions/{vhost}/{name} Set those for one exchange.
DELETE topic-permissions/{vhost}/{name} Take them away.
GET parameters All parameters of virtual hosts.
GET parameters/{component} The parameters of a component.
GET parameters/{component}/{vhost} The same in one virtual host.
GET parameters/{component}/{vhost}/{name} One parameter.
PUT parameters/{component}/{vhost}/{name} Set it.
DELETE parameters/{component}/{vhost}/{name} Remove it.
GET global-parameters Parameters of the whole cluster.
GET global-parameters/{name} One of them.
PUT global-parameters/{name} Set it.
DELETE global-parameters/{name} Remove it.
GET policies All policies.
GET policies/{vhost} The policies of a virtual host.
GET policies/{vhost}/{name} One policy.
PUT policies/{vhost}/{name} Set it.
DELETE policies/{vhost}/{name} Remove it.
GET operator-policies All operator policies.
GET operator-policies/{vhost} The operator policies of a virtual host.
GET operator-policies/{vhost}/{name} One operator policy.
PUT operator-policies/{vhost}/{name} Set it.
DELETE operator-policies/{vhost}/{name} Remove it.
GET vhost-limits The limits of all virtual hosts.
GET vhost-limits/{vhost} The limits of one.
PUT vhost-limits/{vhost}/{name} Set a limit: max-connections or max-queues.
DELETE vhost-limits/{vhost}/{name} Remove it.
GET user-limits The limits of all users.
GET user-limits/{name} The limits of one.
PUT user-limits/{name}/{limit} Set a limit: max-connections or max-channels.
DELETE user-limits/{name}/{limit} Remove it.
GET aliveness-test/{vhost} Declare a queue, publish to it and consume, to see that this works.
GET health/checks/alarms Is any alarm raised in the cluster?
GET health/checks/local-alarms Is any alarm raised on this node?
GET health/checks/certificate-expiration/{within}/{unit} Does a certificate expire soon?
GET health/checks/port-listener/{port} Does this node listen on a port?
GET health/checks/protocol-listener/{protocol} Does it listen for a protocol?
GET health/checks/virtual-hosts Are all virtual hosts at work on this node?
GET health/checks/node-is-mirror-sync-critical Has a queue no synchronised copy but the one here?
GET health/checks/node-is-quorum-critical Would quorum queues lose their majority without it?
GET healthchecks/node Is this node well? Kept for old tools.
GET healthchecks/node/{name} The same of another node.
GET whoami The user who asks.
GET auth How to log in.
POST rebalance/queues Spread the masters of mirrored queues evenly over the nodes.
POST mirrormq/queues/{vhost}/{name}/move Make the synchronised mirror on a node the master of a queue.
GET mirrormq/leases Who has taken messages of which queue under a name.
GET mirrormq/leases/{vhost} The same of one vhost.
DELETE mirrormq/leases/{vhost}/{queue}/{name} Give a lease up: its messages return to the queue.
GET mirrormq/jobs Jobs outside the broker that have told of themselves, the one that spoke last first.
GET mirrormq/jobs/{vhost} The same of one vhost.
GET mirrormq/jobs/{vhost}/{name} One job, with the table that came with its last word.
DELETE mirrormq/jobs/{vhost}/{name} Forget a job; if it speaks again it is there again.
GET mirrormq/timeline Who died, who was promoted, how long the gap was, what is redelivered.
POST mirrormq/control Carry out a verb of mirrormqctl, for administrators.
GET mirrormq/live What changes, as a stream of events that does not end.
GET mirrormq/matching/{vhost} Which queues and exchanges a policy's pattern would match.
"""

_BODIES = """
POST login username password
PUT cluster-name name
PUT exchanges/{vhost}/{name} type durable auto_delete internal arguments
POST exchanges/{vhost}/{name}/publish properties routing_key payload payload_encoding
PUT queues/{vhost}/{name} durable auto_delete arguments node
POST queues/{vhost}/{name}/get count ackmode encoding truncate
POST queues/{vhost}/{name}/actions action
POST mirrormq/queues/{vhost}/{name}/move node
POST mirrormq/control verb arguments options node
POST bindings/{vhost}/e/{source}/q/{destination} routing_key arguments
POST bindings/{vhost}/e/{source}/e/{destination} routing_key arguments
PUT vhosts/{vhost} description tags tracing
POST users/bulk-delete users
PUT users/{name} password password_hash hashing_algorithm tags
PUT permissions/{vhost}/{name} configure write read
PUT topic-permissions/{vhost}/{name} exchange write read
PUT parameters/{component}/{vhost}/{name} value
PUT global-parameters/{name} value
PUT policies/{vhost}/{name} pattern definition priority apply-to
PUT operator-policies/{vhost}/{name} pattern definition priority apply-to
PUT vhost-limits/{vhost}/{name} value
PUT user-limits/{name}/{limit} value
"""

HERE = ""
"""The path of the page itself."""


def _read(text: str) -> dict[tuple[str, str], str]:
    found: dict[tuple[str, str], str] = {}
    for line in text.strip().splitlines():
        method, path, rest = line.split(" ", 2)
        found[method, HERE if path == "(here)" else path] = rest
    return found


SENTENCES = _read(_SENTENCES)
"""By method and path."""

BODIES = {key: names.split() for key, names in _read(_BODIES).items()}
"""Members of the JSON object that an operation takes, where it takes a certain one."""
