"""Confirm mode and transactions: a channel is in one of the modes or in none.

A transaction holds publishes and settlements until commit. `tx.commit-ok` guarantees the same as a
confirm. A commit therefore counts its open publishes and replies when every queue has confirmed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from mirrormq.broker.channel_states import CONFIRMING, RUNNING, TRANSACTIONAL
from mirrormq.channels import acknowledgements
from mirrormq.channels.confirm_ledger import ConfirmLedger
from mirrormq.errors import PreconditionFailed
from mirrormq.wire import methods

if TYPE_CHECKING:
    from mirrormq.channels.channel import Channel


class TransactionCommit:
    """Commit in progress: the Publisher to which queues report its messages."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self.open = 1
        """Queue appends that are not confirmed yet, plus one for the commit itself."""
        self._refused = False

    def confirmed(self, first: int, last: int) -> None:
        """Record that a queue has confirmed messages, and reply when all queues have."""
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
        """Record that a full queue has refused one of the messages."""
        self._refused = True
        self.confirmed(number, number)


def confirm_select(channel: Channel, method: methods.ConfirmSelect) -> None:
    """Handle confirm.select."""
    if channel.state is TRANSACTIONAL:
        raise PreconditionFailed("cannot switch from tx to confirm mode")
    if channel.state is RUNNING:
        channel.state = CONFIRMING
        channel.publishing.confirms = ConfirmLedger()
    if not method.nowait:
        channel.send(methods.encode_confirm_select_ok())


def tx_select(channel: Channel, method: methods.TxSelect) -> None:
    """Handle tx.select."""
    if channel.state is CONFIRMING:
        raise PreconditionFailed("cannot switch from confirm to tx mode")
    if channel.state is RUNNING:
        channel.state = TRANSACTIONAL
        channel.publishing.transaction = []
    channel.send(methods.encode_tx_select_ok())


def tx_commit(channel: Channel, method: methods.TxCommit) -> None:
    """Handle tx.commit: publish and settle what the transaction holds."""
    publishing = channel.publishing
    if publishing.transaction is None:
        raise PreconditionFailed("channel is not transactional")
    publishes, publishing.transaction = publishing.transaction, None
    settlements, publishing.settlements = publishing.settlements, []
    commit = TransactionCommit(channel)
    present = channel.vhost.queues
    for envelope, routed, contents in publishes:
        # A queue may have been deleted since the publish: the commit must not wait for it.
        queues = tuple([present[queue.name] for queue in routed if queue.name in present])
        # Count before publishing: a queue may confirm during the call, and zero would answer the commit.
        commit.open += len(contents) * len(queues)
        publishing.hand_over(envelope, queues, contents, commit, 1)
    for action, deliveries in settlements:
        acknowledgements.settle(channel, action, deliveries)
    publishing.transaction = []
    commit.confirmed(1, 1)


def tx_rollback(channel: Channel, method: methods.TxRollback) -> None:
    """Handle tx.rollback: discard the publishes; acknowledged deliveries become unacknowledged again."""
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
