"""Runner of one link: its client connections, its status, its log lines."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from mirrormq.auth.permissions import DIRECT_USER
from mirrormq.bridges.federation_exchange import ExchangeLink
from mirrormq.bridges.link import Link, Side
from mirrormq.bridges.link_kinds import LinkKind
from mirrormq.bridges.link_plan import LinkContext, LinkPlan
from mirrormq.bridges.link_status import LinkState, LinkStatus, shown_uri
from mirrormq.client.amqp_uri import HEARTBEAT_S, AmqpUri
from mirrormq.client.client_events import Closed, CloseReason, Event
from mirrormq.client.client_handshake import ClientOptions
from mirrormq.client_io.asyncio_client import AsyncioClient
from mirrormq.client_io.client_socket import ConnectionEnded
from mirrormq.client_io.link_connections import LinkConnections, now_ms
from mirrormq.control.link_events import link_status_event
from mirrormq.metadata.cluster_name import cluster_name
from mirrormq.metadata.link_records import Link as LinkRecord
from mirrormq.runtime.local_client import LocalClient

if TYPE_CHECKING:
    from mirrormq.runtime.application import Application

PRODUCT = "mirrormq link"

FAULT_PAUSE_S = 5.0
"""Pause after an unexpected error in a link, RabbitMQ's default of `reconnect-delay`."""


class LinkRunner(LinkConnections[AsyncioClient | LocalClient]):
    """Link of this node. Implements `bridges.link.LinkHost`."""

    def __init__(
        self,
        application: Application,
        record: LinkRecord,
        kind: LinkKind,
        definition: Any,
        over: Callable[[LinkRunner, bool], None],
        fault_pause_s: float = FAULT_PAUSE_S,
    ) -> None:
        super().__init__()
        self._application = application
        self.record = record
        self.definition = definition
        self._kind = kind
        self._over = over
        self._fault_pause_s = fault_pause_s
        self._shown = (LinkState.STARTING.value, "")
        self._stopping = False
        self._consuming = False
        self.link: Link | None = None
        self._failure = ""
        """Reason why the definition cannot be run, or the last unexpected error."""
        self._failed_ms = 0

    # -- start, stop, status ----------------------------------------------------------------------

    def start(self) -> None:
        """Begin the first attempt."""
        application = self._application
        state = application.metadata.state

        def uri_indexes() -> tuple[int, int]:
            assert self.link is not None
            return self.link.uri_index(Side.SOURCE), self.link.uri_index(Side.DESTINATION)

        context = LinkContext(
            state, cluster_name(state, application.settings.name), lambda: int(time.time()), uri_indexes
        )
        try:
            plan: LinkPlan = self._kind.plan(self.record.key, self.definition, context)
        except ValueError as error:
            self._failure, self._failed_ms = f"the definition cannot be used: {error}", now_ms()
            self._log_change()
            return
        except Exception as error:
            # The owner starts the other links of this node after this one.
            self._fault(error)
            return
        self._consuming = False
        self.link = Link(plan, self)
        self._act(lambda link: link.start(now_ms()))
        self._report()

    def stop(self, *, removed: bool = False) -> None:
        """End the link in good order, and notify the owner. `removed`: its definition is gone."""
        self._stopping = True
        if self.link is not None and isinstance(self.link.plan.extension, ExchangeLink):
            self.link.plan.extension.removed = removed
        if self.link is None or self._failure:
            self._end(False)
        else:
            self._act(lambda link: link.stop(now_ms()))

    def drop(self) -> None:
        """End the link at once, without waiting for confirms."""
        self._stopping = True
        self.hang_up()
        self._arm(None)

    def status(self) -> LinkStatus:
        """Return the status with the URIs in use."""
        if self.link is None or self._failure:
            return LinkStatus(LinkState.TERMINATED.value, self._failure, self._failed_ms)
        sources, destinations = self._kind.uris(self.definition)
        near = self._clients.get(Side.DESTINATION)
        return msgspec.structs.replace(
            self.link.status(),
            rate=round(self.link.rate_per_s(now_ms()), 1),
            local_connection=near.name if isinstance(near, LocalClient) else "",
            source_uri=shown_uri(sources[self.link.uri_index(Side.SOURCE)]),
            destination_uri=shown_uri(destinations[self.link.uri_index(Side.DESTINATION)]),
        )

    # -- LinkHost ---------------------------------------------------------------------------------

    def _client(
        self, side: Side, uri: AmqpUri, handle: Callable[[list[Event]], None], resumed: Callable[[], None]
    ) -> AsyncioClient | LocalClient:
        assert self.link is not None
        name = self.link.plan.name
        application = self._application
        if uri.host:
            options = ClientOptions.of_uri(uri, PRODUCT, heartbeat_s=HEARTBEAT_S, connection_name=name)
            return AsyncioClient(uri, options, handle, resumed)
        options = ClientOptions.of_uri(uri, PRODUCT, heartbeat_s=None, connection_name=name)
        user = DIRECT_USER
        if uri.user is not None:
            known = application.metadata.state.users.get(uri.user)
            if known is None:
                text = f"this cluster has no user '{uri.user}'"
                raise ConnectionEnded(Closed(CloseReason.LOGIN_REFUSED, text))
            user = known
        return LocalClient(application, user, options, handle, resumed)

    def ended(self, finished: bool) -> None:
        self._end(finished)

    # -- internals --------------------------------------------------------------------------------

    def _act(self, action: Callable[[Link], None]) -> None:
        """Call the link, then carry out what it has decided."""
        link = self.link
        if link is None:
            return
        try:
            action(link)
            self._flush()
        except Exception as error:
            self._fault(error)
            return
        self._arm(link.wake_ms)
        self._log_change()

    def propagate_bindings(self) -> None:
        """Pass changed bindings of the federated exchange on to the upstream."""

        def pass_on(link: Link) -> None:
            if isinstance(link.plan.extension, ExchangeLink):
                link.plan.extension.bindings_changed()

        self._act(pass_on)

    def consume(self, wanted: bool) -> None:
        """Start or cancel the source's consumer."""
        if self.link is not None and wanted is not self._consuming:
            self._consuming = wanted
            self._act(lambda link: link.consume(wanted))

    def _fault(self, error: Exception) -> None:
        """Contain an unexpected error: log it, and begin anew after a pause."""
        self._application.fault(None, error)
        self._arm(None)
        with contextlib.suppress(Exception):
            self.hang_up()
        self._failure = f"unexpected error, see the log of this node: {error}"
        self._failed_ms = now_ms()
        self.link = None
        if self._stopping:
            self._end(False)
        else:
            self._timer = self._loop.call_later(self._fault_pause_s, self._begin_anew)
            self._log_change()

    def _begin_anew(self) -> None:
        self._timer = None
        self._failure = ""
        self.start()

    def _end(self, finished: bool) -> None:
        self.hang_up()
        self._arm(None)
        self._over(self, finished)

    def _report(self) -> None:
        """Publish the status to the event exchange."""
        self._application.broker.events.link_changed(
            lambda: link_status_event(self.record, self.definition, self.status())
        )

    def _log_change(self) -> None:
        status = self.status()
        shown = (status.state, status.reason)
        if shown == self._shown:
            return
        self._shown = shown
        self._report()
        level = "info" if status.state in ("running", "finished", "starting") else "warning"
        where = f" in vhost '{self.record.vhost}'" if self.record.vhost else ""
        text = f"{self.record.kind} '{self.record.name}'{where}: {status.state}"
        if status.reason:
            text += f": {status.reason}"
        self._application.log_link(level, text)
