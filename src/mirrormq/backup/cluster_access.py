"""Access of backup and restore to a cluster: requests over AMQP, to a mirror where one is known."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import NamedTuple, Self

from mirrormq.backup.backup_files import BackupError
from mirrormq.ranges import backup_protocol, error_reasons, range_protocol
from mirrormq.ranges.backup_protocol import QueueCut
from mirrormq.ranges.range_protocol import QueueExtent
from mirrormq.spark.client.client_errors import BrokerError, ConnectionLost, RequestRefused
from mirrormq.spark.client.node_address import parse_uris
from mirrormq.spark.client.node_selection import Nodes
from mirrormq.spark.client.range_client import RangeAnswer, RangeClient
from mirrormq.wire.fields import Table, table_of


class ReadPart(NamedTuple):
    """Reply to one read of a queue."""

    batch: bytes
    damaged: int
    """Number of messages left out, because no reachable node has a good copy of their records."""


READ_BYTES = 1024 * 1024
"""Bodies per read: as much as a node relays for another one."""


class ClusterAccess:
    """Connections to the nodes of one cluster."""

    def __init__(self, uris: Sequence[str], patience_s: float) -> None:
        try:
            self._addresses = parse_uris(",".join(uris))
        except ValueError as error:
            raise BackupError(f"the URI cannot be used: {error}") from None
        self._any = RangeClient(Nodes(self._addresses, patience_s))
        self._by_node: dict[str, RangeClient] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for client in (self._any, *self._by_node.values()):
            client.close()

    def ask(self, headers: Table, body: bytes = b"") -> RangeAnswer:
        """Send a request to any node; RequestRefused for an error reply, BackupError if no node replies."""
        return _asked(lambda: self._any.ask(headers, body))

    def meet_nodes(self) -> None:
        """Connect to every node of the URIs and remember its name, so that mirrors can be read."""
        for address in self._addresses if len(self._addresses) > 1 else ():
            client = RangeClient(Nodes([address], patience_s=0))
            try:
                answer = client.ask(range_protocol.queues())
                node, _ = range_protocol.read_queues(answer.headers, bytes(answer.body))
                self._by_node[node] = client
            except BrokerError:
                client.close()

    def cut(self, vhost: str, queue: str) -> tuple[QueueExtent, QueueCut]:
        """Return extent and state of a queue."""
        answer = self.ask(backup_protocol.backup_queue(vhost, queue))
        extent = range_protocol.read_extent(answer.headers)
        return extent, backup_protocol.decode_queue_cut(bytes(answer.body))

    def read(self, vhost: str, queue: str, extent: QueueExtent) -> Iterator[ReadPart]:
        """Yield replies with all messages of an extent, from a synchronised mirror if one is connected."""
        mirrors = [name for name in extent.synchronised if name != extent.master and name in self._by_node]
        node = mirrors[0] if mirrors else extent.master
        first = extent.first
        while first < extent.next:
            request = range_protocol.read(queue, first, extent.next, READ_BYTES, with_ingestion_times=True)
            request |= table_of({"vhost": vhost, "id": extent.id})
            answer = self._read_of(node, request)
            part = range_protocol.read_part(answer.headers)
            first = part.next
            yield ReadPart(bytes(answer.body), part.damaged)

    def _read_of(self, node: str, request: Table) -> RangeAnswer:
        client = self._by_node.get(node)
        if client is not None:
            try:
                return client.ask(request)
            except ConnectionLost:
                del self._by_node[node]  # The node has failed: any other one can read.
            except RequestRefused as error:
                # A damaged record of this mirror is being repaired; the request below waits for that.
                if error.reason != error_reasons.TRY_AGAIN:
                    raise BackupError(str(error)) from None
        return self.ask(request)


def _asked(ask: Callable[[], RangeAnswer]) -> RangeAnswer:
    try:
        return ask()
    except RequestRefused:
        raise
    except BrokerError as error:
        raise BackupError(str(error)) from None
