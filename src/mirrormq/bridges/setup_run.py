"""Run of a setup script on one connection: one request at a time, a new channel after each refusal."""

from __future__ import annotations

from typing import Generic, TypeVar

from mirrormq.bridges.link_plan import Setup
from mirrormq.client.client_channel import ChannelState, ClientChannel
from mirrormq.client.client_connection import ClientConnection
from mirrormq.client.client_events import ChannelClosed, Event, MethodReply

T = TypeVar("T")


class SetupRun(Generic[T]):
    """Setup script under way; `finished` turns true with its `result`."""

    def __init__(self, connection: ClientConnection, script: Setup[T]) -> None:
        self._connection = connection
        self._script = script
        self.channel = connection.open_channel()
        self.finished = False
        self.result: T | None = None
        self._advance(None)

    def handle(self, event: Event) -> None:
        """Pass a reply to the script; raises SetupFailed."""
        if not isinstance(event, MethodReply | ChannelClosed) or event.channel != self.channel.number:
            return
        self._advance(event)

    def _advance(self, reply: MethodReply | ChannelClosed | None) -> None:
        try:
            request = next(self._script) if reply is None else self._script.send(reply)
        except StopIteration as stop:
            self.finished, self.result = True, stop.value
            return
        channel = self.open()
        for each in request if isinstance(request, tuple) else (request,):
            channel.request(each)

    def open(self) -> ClientChannel:
        """Return the open channel, a new one if the broker closed the last."""
        if self.channel.state is not ChannelState.OPEN:
            self.channel = self._connection.open_channel()
        return self.channel
