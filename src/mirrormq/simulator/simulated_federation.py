"""Federation of a simulated run: exchange and queue links. The simulated cluster is its own upstream.

    publishers → x85 → internal exchange A or B → internal queue → link → x95 → m95
    publishers → m85 → link → m95

Both ends are in one vhost, under different names. So an upstream fails as nodes of the cluster do, and the
checkers see the queues at both ends.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from mirrormq.bridges.federation_links import EXCHANGE_LINK, QUEUE_LINK, link_name
from mirrormq.bridges.federation_parameters import UPSTREAM
from mirrormq.client.client_events import Event, MethodReply
from mirrormq.metadata import commands as c
from mirrormq.metadata.records import Binding, Parameter, Policy
from mirrormq.metadata.state import MetadataState
from mirrormq.simulator.simulated_links import PREFETCH, RECONNECT_DELAY_S
from mirrormq.simulator.workload import Hosts, SimulatedClient, SimulatedPublisher, declarations
from mirrormq.wire import methods

CLUSTER = "simulated"
"""Name of the cluster, in the names of internal queues."""

EXCHANGE, QUEUE = "exchange", "queue"
SPARE_KEYS = ("s0", "s1", "s2")
"""Routing keys without messages, which an operator binds and unbinds."""


class SimulatedFederation(NamedTuple):
    """Federated exchange or queue of a run, with one upstream."""

    mode: str
    """Acknowledgement mode."""
    object: str
    """`exchange` or `queue`."""
    destination: str
    """Federated queue, or the queue that is bound to the federated exchange; nothing else publishes to it."""
    upstream_node: str = ""
    """Node of the upstream's URI; empty: inside the node that runs the link."""

    @property
    def number(self) -> str:
        return self.destination[2:]

    @property
    def federated(self) -> str:
        """Name of the federated object."""
        return f"x9{self.number}" if self.object == EXCHANGE else self.destination

    @property
    def upstream_object(self) -> str:
        """Name of the exchange or queue at the upstream."""
        return f"{'x' if self.object == EXCHANGE else 'm'}8{self.number}"

    @property
    def source(self) -> str:
        """Queue that the link consumes from."""
        if self.object == QUEUE:
            return self.upstream_object
        return f"federation: {self.upstream_object} -> {CLUSTER}:{self.federated}"

    @property
    def kind(self) -> str:
        return EXCHANGE_LINK if self.object == EXCHANGE else QUEUE_LINK

    @property
    def name(self) -> str:
        return link_name(self.federated, f"u{self.number}")

    def definition(self, policy: dict[str, Any]) -> list[c.Command]:
        """Return the commands that define the upstream and its policy; `policy` is that of all queues."""
        upstream = f"u{self.number}"
        value = {
            "uri": f"amqp://{self.upstream_node}",
            self.object: self.upstream_object,
            "prefetch-count": PREFETCH,
            "reconnect-delay": RECONNECT_DELAY_S,
            "ack-mode": self.mode,
        }
        shared = policy if self.object == QUEUE else {}
        federate = {**shared, "federation-upstream": upstream}
        name, pattern, applies_to = f"federate {self.federated}", f"^{self.federated}$", f"{self.object}s"
        return [
            c.PutParameter(Parameter("/", UPSTREAM, upstream, value)),
            c.PutPolicy(Policy("/", name, pattern, applies_to, federate, priority=1)),
        ]

    def declarations(self) -> list[bytes]:
        """Return the declarations of both ends. The last one is a queue's."""
        if self.object == QUEUE:
            return [*declarations(self.upstream_object), *declarations(self.destination)]
        return [
            methods.encode_exchange_declare(self.upstream_object, "direct", durable=True, nowait=True),
            methods.encode_exchange_declare(self.federated, "direct", durable=True, nowait=True),
            *declarations(self.destination),
            methods.encode_queue_bind(self.destination, self.federated, self.source),
        ]

    def rebind(self, state: MetadataState, choice: random.Random) -> c.Command:
        """Return the command of an operator who binds or unbinds a spare key."""
        binding = Binding("/", self.federated, "queue", self.destination, choice.choice(SPARE_KEYS))
        if binding.key not in state.bindings_from("/", self.federated):
            return c.PutBinding(binding)
        return c.DeleteBinding("/", self.federated, "queue", self.destination, binding.routing_key)

    def unsettled(self, state: MetadataState) -> Iterator[str]:
        """Yield what an exchange link has left at the upstream, or has not bound there, as texts."""
        if self.object == QUEUE:
            return
        internal = [name for _, name in state.exchanges if name.startswith(f"{self.source} ")]
        if len(internal) != 1:
            yield f"link {self.name} has {len(internal)} internal exchanges"
        upstream = {
            (each.destination, each.routing_key)
            for each in state.bindings_from("/", self.upstream_object).values()
        }
        downstream = state.bindings_from("/", self.federated).values()
        if upstream != {(name, each.routing_key) for name in internal for each in downstream}:
            yield f"link {self.name} has other bindings at the upstream: {sorted(upstream)}"


class FederationFounder(SimulatedClient):
    """Client that declares both ends of all federation, before anything is published."""

    def __init__(
        self, hosts: Hosts, name: str, federations: Sequence[SimulatedFederation], choice: random.Random
    ) -> None:
        self._federations = federations
        self.done = False
        super().__init__(hosts, name, [], choice)

    def begin(self) -> None:
        assert self.session is not None
        for federation in self._federations:
            self.session.send(*federation.declarations())
        self.session.send(methods.encode_confirm_select())

    def on_event(self, event: Event) -> None:
        if isinstance(event, MethodReply) and isinstance(event.method, methods.ConfirmSelectOk):
            self.done = True
            self.rest()


class UpstreamPublisher(SimulatedPublisher):
    """Publisher to the upstream exchange of an exchange link. Its queue is the link's internal queue, whose
    name is the routing key, too."""

    declare = staticmethod(lambda queue: [methods.encode_queue_declare(queue, passive=True)])

    def begin(self) -> None:
        super().begin()
        self.exchange = self.queue.split()[1]
