"""Link of one queue, with sockets: the bridges' link engine, run by the migration instead of a node."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import replace

from mirrormq.bridges.link import Link, Side
from mirrormq.bridges.link_plan import HELD_BYTES_MAX, Destination, LinkPlan, Setup, Source, Subscription
from mirrormq.bridges.link_setup import existing_queue
from mirrormq.client.amqp_uri import HEARTBEAT_S, AmqpUri, parse_amqp_uri
from mirrormq.client.client_connection import ClientConnection
from mirrormq.client.client_events import Event
from mirrormq.client.client_handshake import ClientOptions
from mirrormq.client_io.asyncio_client import AsyncioClient
from mirrormq.client_io.link_connections import LinkConnections, now_ms
from mirrormq.migration.comparison import PREFETCH
from mirrormq.migration.move_ledger import QueueKey
from mirrormq.migration.moved_messages import TEMPLATES_BYTES_MAX, MovingTransform
from mirrormq.migration.phases import Direction
from mirrormq.migration_io.ledger_file import LedgerFile

PRODUCT = "mirrormq migrate"
"""Product of the migration's connections: lists of the old cluster tell them from the clients'."""

LINKS_HELD_BYTES_MAX = 512 * 1024 * 1024
"""Bodies that all links hold together before they stop reading; each has an equal share."""

LINKS_TEMPLATES_BYTES_MAX = 256 * 1024 * 1024
"""Memory for the property templates of all links."""

RECONNECT_DELAY_S = 1.0
STOP_TIMEOUT_S = 10.0


class _SourceClient(AsyncioClient):
    """Client of a source: its output, acknowledgements among it, follows the sync of the ledger."""

    ledger_file: LedgerFile

    def flush(self) -> None:
        if self.ledger_file.ledger.is_saved:
            super().flush()
        else:
            self.ledger_file.hold(id(self), super().flush)


class MovingLink(LinkConnections[AsyncioClient]):
    """Link of one queue in one direction. Implements `bridges.link.LinkHost`."""

    def __init__(
        self, queue: QueueKey, direction: Direction, sources: Iterable[str], destinations: Iterable[str],
        ledger_file: LedgerFile, producer: Callable[[], str], links: int = 1,
    ) -> None:  # fmt: skip
        super().__init__()
        self.queue = queue
        self.direction = direction
        self._ledger_file = ledger_file
        self._producer = producer
        """Returns a new name for each attempt."""
        self.ended_event = asyncio.Event()
        vhost, name = queue
        self._transform = MovingTransform(
            name,
            forward=direction is Direction.FORWARD,
            enter=lambda value, again: ledger_file.ledger.enter(direction, queue, value, again),
            templates_bytes_max=min(TEMPLATES_BYTES_MAX, LINKS_TEMPLATES_BYTES_MAX // links),
        )

        def source_setup(_connection: ClientConnection) -> Setup[Subscription]:
            declared = yield from existing_queue(name)
            return Subscription(name, declared.message_count)

        def destination_setup(_connection: ClientConnection) -> Setup[None]:
            yield from existing_queue(name)

        self.link = Link(
            LinkPlan(
                f"Migration of queue {name}",
                Source(_uris(sources, vhost), source_setup, PREFETCH),
                Destination(_uris(destinations, vhost), destination_setup),
                self._transform,
                reconnect_delay_s=RECONNECT_DELAY_S,
                moved=self._transform.moved,
                held_bytes_max=min(HELD_BYTES_MAX, LINKS_HELD_BYTES_MAX // links),
            ),
            self,
        )

    def start(self) -> None:
        """Begin the first attempt."""
        self._act(lambda link: link.start(now_ms()))

    async def stop(self) -> None:
        """End in good order: what is under way is confirmed, entered and acknowledged."""
        self._act(lambda link: link.stop(now_ms()))
        try:
            await asyncio.wait_for(self.ended_event.wait(), STOP_TIMEOUT_S)
        except TimeoutError:
            self.hang_up()

    @property
    def is_idle(self) -> bool:
        """Report whether nothing is under way, and the link works."""
        transfer = self.link.transfer
        return transfer is not None and not transfer.pending_count and not transfer.unconfirmed_count

    # -- LinkHost ---------------------------------------------------------------------------------

    def connect(self, side: Side, uri: AmqpUri) -> None:
        if side is Side.SOURCE:
            self._transform.restart(self._producer())
        super().connect(side, uri)

    def _client(
        self, side: Side, uri: AmqpUri, handle: Callable[[list[Event]], None], resumed: Callable[[], None]
    ) -> AsyncioClient:
        name = f"{PRODUCT}: queue {self.queue[1]}"
        options = ClientOptions.of_uri(uri, PRODUCT, heartbeat_s=HEARTBEAT_S, connection_name=name)
        if side is Side.DESTINATION:
            return AsyncioClient(uri, options, handle, resumed)
        source = _SourceClient(uri, options, handle, resumed)
        source.ledger_file = self._ledger_file
        return source

    def ended(self, finished: bool) -> None:
        self.hang_up()
        self._arm(None)
        self.ended_event.set()

    # -- internals --------------------------------------------------------------------------------

    def _act(self, action: Callable[[Link], None]) -> None:
        """Call the link, then carry out what it has decided."""
        action(self.link)
        self._flush()
        self._arm(None if self.ended_event.is_set() else self.link.wake_ms)


def _uris(uris: Iterable[str], vhost: str) -> tuple[AmqpUri, ...]:
    return tuple(replace(parse_amqp_uri(uri).for_socket(), vhost=vhost) for uri in uris)


class MovingLinks:
    """Links of all queues in one direction; none by default."""

    def __init__(self, old: list[str], new: list[str], ledger_file: LedgerFile, run_name: str) -> None:
        self._old, self._new = old, new
        self.ledger_file = ledger_file
        self._run_name = run_name
        self._attempts = 0
        self.direction = Direction.NONE
        self.links: dict[QueueKey, MovingLink] = {}

    async def follow(self, direction: Direction, queues: Iterable[QueueKey]) -> None:
        """Run links for exactly these queues. A change of the direction ends all links first."""
        wanted = set(queues) if direction is not Direction.NONE else set()
        if direction is not self.direction:
            await self._stop(list(self.links))
            self.direction = direction
        await self._stop([queue for queue in self.links if queue not in wanted])
        sources, destinations = self._old, self._new
        if direction is Direction.BACK:
            sources, destinations = destinations, sources
        for queue in sorted(wanted - self.links.keys()):
            link = MovingLink(
                queue, direction, sources, destinations, self.ledger_file, self._next_producer, len(wanted)
            )
            self.links[queue] = link
            link.start()

    async def _stop(self, queues: list[QueueKey]) -> None:
        stopped = [self.links.pop(queue) for queue in queues]
        await asyncio.gather(*(link.stop() for link in stopped))
        self.ledger_file.save()

    def _next_producer(self) -> str:
        self._attempts += 1
        return f"{self._run_name}-{self._attempts}"

    @property
    def are_idle(self) -> bool:
        """Report whether nothing is under way."""
        return all(link.is_idle for link in self.links.values()) and self.ledger_file.ledger.is_saved
