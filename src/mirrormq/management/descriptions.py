"""Description of each API operation in one sentence, for the page at /api/ and the OpenAPI document."""

from __future__ import annotations

_SENTENCES = """
GET (here) Show this page.
GET index.html Show this page under its name in RabbitMQ.
GET openapi.json Return the OpenAPI document of this API.
GET overview Return totals and rates of the cluster, its nodes' listeners and churn rates.
GET cluster-name Return the name of the cluster.
PUT cluster-name Set the name of the cluster.
GET nodes List all members of the cluster, running or not, with their resource usage.
GET nodes/{name} Return one node.
GET nodes/{name}/memory Return the memory use of a node by category.
GET nodes/{name}/memory/relative Return the memory use of a node in percent.
GET auth/attempts/{name} Return the numbers of login attempts at a node.
DELETE auth/attempts/{name} Reset the counters of login attempts.
GET auth/attempts/{name}/source Return an empty list: sources of logins are not tracked.
DELETE auth/attempts/{name}/source Do nothing: sources of logins are not tracked.
POST login Check the name and password of a form.
DELETE reset Reset rates and histories on all nodes; counters are kept.
DELETE reset/{name} Reset rates and histories on one node; counters are kept.
GET extensions List the extensions of RabbitMQ's page.
PUT feature-flags/{name}/enable Do nothing: all feature flags are enabled.
GET feature-flags List RabbitMQ's feature flags.
GET definitions Export all definitions as a file that can be imported again.
POST definitions Import a definitions file.
GET all-configuration Export all definitions, under RabbitMQ's former name.
POST all-configuration Import a definitions file, under RabbitMQ's former name.
GET definitions/{vhost} Export the definitions of one virtual host.
POST definitions/{vhost} Import definitions into one virtual host.
GET connections List all client connections.
GET connections/{name} Return one connection.
DELETE connections/{name} Close a connection; the header X-Reason gives the reason.
GET connections/{name}/channels List the channels of a connection.
GET connections/username/{name} List the connections of a user.
DELETE connections/username/{name} Close all connections of a user.
GET vhosts/{vhost}/connections List the connections of a virtual host.
GET channels List all channels.
GET channels/{name} Return one channel with its consumers.
GET vhosts/{vhost}/channels List the channels of a virtual host.
GET consumers List all consumers.
GET consumers/{vhost} List the consumers of a virtual host.
GET exchanges List all exchanges.
GET exchanges/{vhost} List the exchanges of a virtual host.
GET exchanges/{vhost}/{name} Return one exchange.
PUT exchanges/{vhost}/{name} Declare an exchange.
DELETE exchanges/{vhost}/{name} Delete an exchange; with if-unused=true only if it has no bindings.
GET exchanges/{vhost}/{name}/bindings/source List the bindings from an exchange.
GET exchanges/{vhost}/{name}/bindings/destination List the bindings to an exchange.
POST exchanges/{vhost}/{name}/publish Publish a message and report whether it was routed to a queue.
GET queues List all queues with their messages, rates and rings.
GET queues/{vhost} List the queues of a virtual host.
GET queues/{vhost}/{name} Return one queue with its consumers and its ring.
PUT queues/{vhost}/{name} Declare a queue.
DELETE queues/{vhost}/{name} Delete a queue; with if-empty=true or if-unused=true only if it is.
GET queues/{vhost}/{name}/bindings List the bindings to a queue.
DELETE queues/{vhost}/{name}/contents Purge the ready messages of a queue.
POST queues/{vhost}/{name}/get Get messages, and requeue or remove them.
POST queues/{vhost}/{name}/actions Start or stop the synchronisation of mirrors: sync, cancel_sync.
GET bindings List all bindings.
GET bindings/{vhost} List the bindings of a virtual host.
GET bindings/{vhost}/e/{source}/q/{destination} List the bindings of a queue to an exchange.
POST bindings/{vhost}/e/{source}/q/{destination} Bind a queue to an exchange.
GET bindings/{vhost}/e/{source}/q/{destination}/{properties} Return one binding.
DELETE bindings/{vhost}/e/{source}/q/{destination}/{properties} Delete a binding.
GET bindings/{vhost}/e/{source}/e/{destination} List the bindings between two exchanges.
POST bindings/{vhost}/e/{source}/e/{destination} Bind an exchange to another.
GET bindings/{vhost}/e/{source}/e/{destination}/{properties} Return one binding.
DELETE bindings/{vhost}/e/{source}/e/{destination}/{properties} Delete a binding.
GET vhosts List all virtual hosts that the user sees, with totals and rates.
GET vhosts/{vhost} Return one virtual host.
PUT vhosts/{vhost} Create or update a virtual host.
DELETE vhosts/{vhost} Delete a virtual host with everything in it.
POST vhosts/{vhost}/start/{name} Start a virtual host on a node; it never stops by itself.
GET vhosts/{vhost}/permissions List the permissions in a virtual host.
GET vhosts/{vhost}/topic-permissions List the topic permissions in a virtual host.
GET users List all users.
GET users/without-permissions List users without permissions in any virtual host.
POST users/bulk-delete Delete several users.
GET users/{name} Return one user.
PUT users/{name} Create or update a user.
DELETE users/{name} Delete a user and close their connections.
GET users/{name}/permissions List the permissions of a user.
GET users/{name}/topic-permissions List the topic permissions of a user.
GET permissions List all permissions.
GET permissions/{vhost}/{name} Return a user's permissions in a virtual host.
PUT permissions/{vhost}/{name} Set a user's permissions in a virtual host.
DELETE permissions/{vhost}/{name} Revoke a user's permissions in a virtual host.
GET topic-permissions List all topic permissions.
GET topic-permissions/{vhost}/{name} List a user's topic permissions in a virtual host.
PUT topic-permissions/{vhost}/{name} Set a user's topic permissions for one exchange.
DELETE topic-permissions/{vhost}/{name} Revoke a user's topic permissions in a virtual host.
GET parameters List all parameters of virtual hosts.
GET parameters/{component} List the parameters of a component.
GET parameters/{component}/{vhost} List the parameters of a component in one virtual host.
GET parameters/{component}/{vhost}/{name} Return one parameter.
PUT parameters/{component}/{vhost}/{name} Set a parameter.
DELETE parameters/{component}/{vhost}/{name} Clear a parameter.
GET global-parameters List the global parameters of the cluster.
GET global-parameters/{name} Return one global parameter.
PUT global-parameters/{name} Set a global parameter.
DELETE global-parameters/{name} Clear a global parameter.
GET policies List all policies.
GET policies/{vhost} List the policies of a virtual host.
GET policies/{vhost}/{name} Return one policy.
PUT policies/{vhost}/{name} Set a policy.
DELETE policies/{vhost}/{name} Clear a policy.
GET operator-policies List all operator policies.
GET operator-policies/{vhost} List the operator policies of a virtual host.
GET operator-policies/{vhost}/{name} Return one operator policy.
PUT operator-policies/{vhost}/{name} Set an operator policy.
DELETE operator-policies/{vhost}/{name} Clear an operator policy.
GET vhost-limits List the limits of all virtual hosts.
GET vhost-limits/{vhost} Return the limits of one virtual host.
PUT vhost-limits/{vhost}/{name} Set a limit: max-connections or max-queues.
DELETE vhost-limits/{vhost}/{name} Clear a limit of a virtual host.
GET user-limits List the limits of all users.
GET user-limits/{name} Return the limits of one user.
PUT user-limits/{name}/{limit} Set a limit: max-connections or max-channels.
DELETE user-limits/{name}/{limit} Clear a limit of a user.
GET aliveness-test/{vhost} Declare a queue, publish to it and consume, as an end-to-end test.
GET health/ready Fail if a load balancer must not send clients to this node. Needs no login.
GET health/checks/alarms Fail if any node of the cluster has an alarm.
GET health/checks/local-alarms Fail if this node has an alarm.
GET health/checks/certificate-expiration/{within}/{unit} Fail if a TLS certificate expires soon.
GET health/checks/port-listener/{port} Fail unless this node listens on a port.
GET health/checks/protocol-listener/{protocol} Fail unless this node listens for a protocol.
GET health/checks/virtual-hosts Fail unless all virtual hosts are running on this node.
GET health/checks/node-is-mirror-sync-critical Fail if this node has the only synchronised copy of a queue.
GET health/checks/node-is-quorum-critical Pass always: there are no quorum queues.
GET healthchecks/node Check this node, for old tools.
GET healthchecks/node/{name} Check another node, for old tools.
GET whoami Return the user of the request.
GET auth Return how to log in.
POST rebalance/queues Distribute the masters of mirrored queues evenly over the nodes.
POST mirrormq/queues/{vhost}/{name}/move Make the synchronised mirror on a node the master of a queue.
GET federation-links List the federation links of all nodes with their status.
GET federation-links/{vhost} List the federation links of one virtual host.
GET federation-links/state/down List the federation links that are down.
GET federation-links/{vhost}/state/down List the federation links of one virtual host that are down.
DELETE federation-links/vhost/{vhost}/{id}/{node}/restart Restart a federation link.
GET shovels List the shovels of all nodes with their state and its reason.
GET shovels/{vhost} List the shovels of one virtual host.
GET shovels/vhost/{vhost}/{name} List the shovels of a virtual host, if the named one exists.
DELETE shovels/vhost/{vhost}/{name} Delete a shovel.
DELETE shovels/vhost/{vhost}/{name}/restart Restart a shovel.
GET mirrormq/leases List the leases of all queues.
GET mirrormq/leases/{vhost} List the leases of one virtual host.
DELETE mirrormq/leases/{vhost}/{queue}/{name} Release a lease: its messages return to the queue.
GET mirrormq/jobs List the jobs outside the broker, the latest report first.
GET mirrormq/jobs/{vhost} List the jobs of one virtual host.
GET mirrormq/jobs/{vhost}/{name} Return one job with the table of its last report.
DELETE mirrormq/jobs/{vhost}/{name} Delete a job; its next report creates it again.
GET mirrormq/timeline Return the failover timeline: node failures, promotions, outages, redeliveries.
POST mirrormq/control Run a command of mirrormqctl, for administrators.
GET mirrormq/live Stream changes as server-sent events.
GET mirrormq/rights List the permissions of the user of the request.
GET mirrormq/rights/{vhost}/{name} Return whether the user may configure, write and read a queue or exchange.
POST mirrormq/definitions-preview Return what an import of definitions would add and change.
GET mirrormq/matching/{vhost} List the queues and exchanges that a policy's pattern would match.
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
"""Path of the page itself."""


def _read(text: str) -> dict[tuple[str, str], str]:
    texts: dict[tuple[str, str], str] = {}
    for line in text.strip().splitlines():
        method, path, rest = line.split(" ", 2)
        texts[method, HERE if path == "(here)" else path] = rest
    return texts


SENTENCES = _read(_SENTENCES)
"""Sentence by method and path."""

BODIES = {key: names.split() for key, names in _read(_BODIES).items()}
"""Members of the JSON object in the body of an operation, if their names are fixed."""
