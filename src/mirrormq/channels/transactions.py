"""Confirm mode and transactions: a channel is in one of them or in neither.

A transaction keeps publishes and settlements aside until commit. `tx.commit-ok` promises what a
confirm promises, so a commit numbers its publishes in a ledger of its own and answers when every
queue has spoken.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from mirrormq.channels import acknowledgements
from mirrormq.channels.confirm_ledger import ConfirmLedger
from mirrormq.errors import PreconditionFailed
from mirrormq.wire import methods

if TYPE_CHECKING:
    from mirrormq.channels.channel import Channel


class TransactionCommit:
    """A commit on its way: the Publisher that its messages report to."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self.open = 1
        """Queue appends that have not been confirmed, and one for the commit itself."""
        self._refused = False

    def confirmed(self, first: int, last: int) -> None:
        """One more queue has its messages."""
        self.open -= last - first + 1
        channel = self._channel
        if self.open or channel.closing:
            return
        if self._refused:
            partial = PreconditionFailed("partial tx completion").at(methods.TX_COMMIT)
            channel.connection.close_channel(channel, partial)
        else:
            channel.send(methods.encode_tx_commit_ok())

    def refused(self, number: int) -> None:
        """A full queue would not take one of the messages."""
        self._refused = True
        self.confirmed(number, number)


def confirm_select(channel: Channel, method: methods.ConfirmSelect) -> None:
    """confirm.select."""
    if channel.publishing.transaction is not None:
        raise PreconditionFailed("cannot switch from tx to confirm mode")
    if channel.publishing.confirms is None:
        channel.publishing.confirms = ConfirmLedger()
    if not method.nowait:
        channel.send(methods.encode_confirm_select_ok())


def tx_select(channel: Channel, method: methods.TxSelect) -> None:
    """tx.select."""
    if channel.publishing.confirms is not None:
        raise PreconditionFailed("cannot switch from confirm to tx mode")
    if channel.publishing.transaction is None:
        channel.publishing.transaction = []
    channel.send(methods.encode_tx_select_ok())


def tx_commit(channel: Channel, method: methods.TxCommit) -> None:
    """tx.commit: publish and settle what was kept aside."""
    publishing = channel.publishing
    if publishing.transaction is None:
        raise PreconditionFailed("channel is not transactional")
    publishes, publishing.transaction = publishing.transaction, None
    settlements, publishing.settlements = publishing.settlements, []
    commit = TransactionCommit(channel)
    present = channel.vhost.queues
    for envelope, routed, contents in publishes:
        queues = tuple([present[queue.name] for queue in routed if queue.name in present])
        commit.open += len(contents) * len(queues)
        publishing.hand_over(envelope, queues, contents, commit, 1)
    for action, deliveries in settlements:
        acknowledgements.settle(channel, action, deliveries)
    publishing.transaction = []
    commit.confirmed(1, 1)


def tx_rollback(channel: Channel, method: methods.TxRollback) -> None:
    """tx.rollback: forget the publishes; what was acknowledged is unacknowledged again."""
    publishing = channel.publishing
    if publishing.transaction is None:
        raise PreconditionFailed("channel is not transactional")
    publishing.transaction = []
    for _, deliveries in publishing.settlements:
        channel.unacked.put_back(deliveries)
    publishing.settlements = []
    channel.send(methods.encode_tx_rollback_ok())


METHODS: dict[int, Callable[[Channel, Any], None]] = {
    methods.CONFIRM_SELECT: confirm_select,
    methods.TX_SELECT: tx_select,
    methods.TX_COMMIT: tx_commit,
    methods.TX_ROLLBACK: tx_rollback,
}
