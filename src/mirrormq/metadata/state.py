"""Metadata state: every record by key, and the indexes for frequent queries.

Only `apply` changes a state. It is deterministic, and it leaves nothing dangling:

1.  A queue, exchange, policy, permission or parameter lies in a vhost that exists; a permission
    belongs to a user that exists; a binding joins two ends that exist.
2.  Deleting a record deletes its dependants first: of a vhost its contents, of a queue or exchange its
    bindings, of a user their permissions.
3.  An auto-delete exchange is deleted with the last binding *from* it, whatever removed that.
4.  Queue ids grow, and are never used twice, also not after a restart.

`apply` returns the changes in their order; an empty list if nothing changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from mirrormq.metadata import commands as c
from mirrormq.metadata import (
    job_commands,
    lease_commands,
    link_commands,
    producer_commands,
    ring_commands,
    snapshots,
)
from mirrormq.metadata.changes import Change, Deleted, Put
from mirrormq.metadata.defaults import predeclared_exchanges
from mirrormq.metadata.index_tables import IN_VHOST, TABLE_OF, TABLES, drop_from_index
from mirrormq.metadata.link_records import Link, LinkKey
from mirrormq.metadata.log_indexes import UNKNOWN
from mirrormq.metadata.records import (
    Binding,
    BindingKey,
    Exchange,
    ExchangeKey,
    GlobalParameter,
    Job,
    JobKey,
    Lease,
    LeaseKey,
    Node,
    OperatorPolicy,
    Parameter,
    ParameterKey,
    Permission,
    PermissionKey,
    Policy,
    PolicyKey,
    Producer,
    ProducerKey,
    Queue,
    QueueKey,
    TopicPermission,
    TopicPermissionKey,
    User,
    Vhost,
)
from mirrormq.metadata.snapshots import Snapshot

_NO_BINDINGS: dict[BindingKey, Binding] = {}
_NO_QUEUES: dict[str, Queue] = {}
_NO_EXCHANGES: dict[str, Exchange] = {}


class MetadataState:
    """All metadata. Read the dictionaries freely; change them only through `apply`."""

    def __init__(self) -> None:
        self.vhosts: dict[str, Vhost] = {}
        self.users: dict[str, User] = {}
        self.permissions: dict[PermissionKey, Permission] = {}
        """Permissions by (user, vhost)."""
        self.topic_permissions: dict[TopicPermissionKey, TopicPermission] = {}
        """Topic permissions by (user, vhost, exchange)."""
        self.exchanges: dict[ExchangeKey, Exchange] = {}
        """Exchanges by (vhost, name)."""
        self.queues: dict[QueueKey, Queue] = {}
        """Queues by (vhost, name)."""
        self.bindings: dict[BindingKey, Binding] = {}
        """Bindings by (vhost, source, destination kind, destination, routing key, arguments)."""
        self.policies: dict[PolicyKey, Policy] = {}
        """Policies by (vhost, name)."""
        self.operator_policies: dict[PolicyKey, OperatorPolicy] = {}
        """Operator policies by (vhost, name)."""
        self.parameters: dict[ParameterKey, Parameter] = {}
        """Parameters by (vhost, component, name)."""
        self.global_parameters: dict[str, GlobalParameter] = {}
        self.nodes: dict[str, Node] = {}
        """Members of the cluster by name."""
        self.leases: dict[LeaseKey, Lease] = {}
        """Leases by (queue id, name)."""
        self.jobs: dict[JobKey, Job] = {}
        """Jobs by (vhost, name)."""
        self.producers: dict[ProducerKey, Producer] = {}
        """Producers by (vhost, name)."""
        self.links: dict[LinkKey, Link] = {}
        """Assignments of links by (vhost, kind, name)."""
        self.queue_keys: dict[int, QueueKey] = {}
        """Queue id → (vhost, name)."""
        self.queues_without_indexes = 0
        """Number of queues whose log indexes are unknown (`metadata.log_indexes`)."""
        self.next_queue_id = 1
        self.log_index = 0
        """Index of the log entry that is applied now, or was applied last."""
        self.version = 0
        """Version that grows with every change."""
        self.access_version = 0
        """Version that grows when users, vhosts or permissions change: cached access decisions depend on
        it."""
        self.policy_version = 0
        """Version that grows when policies or operator policies change."""
        self._exchanges_by_vhost: dict[str, dict[str, Exchange]] = {}
        self._queues_by_vhost: dict[str, dict[str, Queue]] = {}
        self._bindings_by_source: dict[ExchangeKey, dict[BindingKey, Binding]] = {}
        self._bindings_by_destination: dict[tuple[str, str, str], dict[BindingKey, Binding]] = {}
        self._changes: list[Change] = []

    # Indexed queries.

    def queues_of(self, vhost: str) -> dict[str, Queue]:
        """Return a vhost's queues by name. Not to be changed."""
        return self._queues_by_vhost.get(vhost, _NO_QUEUES)

    def exchanges_of(self, vhost: str) -> dict[str, Exchange]:
        """Return a vhost's exchanges by name. Not to be changed."""
        return self._exchanges_by_vhost.get(vhost, _NO_EXCHANGES)

    def bindings_from(self, vhost: str, source: str) -> dict[BindingKey, Binding]:
        """Return the bindings of which an exchange is the source. Not to be changed."""
        return self._bindings_by_source.get((vhost, source), _NO_BINDINGS)

    def bindings_to(self, vhost: str, kind: str, destination: str) -> dict[BindingKey, Binding]:
        """Return the bindings that end at a queue or an exchange. Not to be changed."""
        return self._bindings_by_destination.get((vhost, kind, destination), _NO_BINDINGS)

    def leases_of(self, queue_id: int) -> list[Lease]:
        """Return the leases of a queue."""
        return [lease for lease in self.leases.values() if lease.queue_id == queue_id] if self.leases else []

    # Changes.

    def apply(self, command: c.Command, log_index: int = 0) -> list[Change]:
        """Apply the command of a log entry; return the changes in order."""
        self.log_index = log_index
        _APPLY[type(command)](self, command)
        return self.take_changes()

    def take_changes(self) -> list[Change]:
        """Return the changes by `store` and `remove` since the last call, and reset the list."""
        changes, self._changes = self._changes, []
        if changes:
            self.version += 1
        return changes

    def snapshot(self) -> bytes:
        """Return everything as bytes that `from_snapshot` reads."""
        tables = [list(getattr(self, name).values()) for name in TABLES]
        versions = (self.version, self.access_version, self.policy_version)
        return snapshots.encode(Snapshot(*versions, self.next_queue_id, *tables))

    @classmethod
    def from_snapshot(cls, blob: bytes) -> MetadataState:
        """Decode the state from `snapshot`; raises msgspec.DecodeError for anything else."""
        snapshot = snapshots.decode(blob)
        state = cls()
        for name in TABLES:
            for record in getattr(snapshot, name):
                state.store(record)
        state._changes = []
        state.version = snapshot.version
        state.access_version = snapshot.access_version
        state.policy_version = snapshot.policy_version
        state.next_queue_id = snapshot.next_queue_id
        return state

    # Single records with their indexes and versions. Only for the code that applies commands.

    def store(self, record: Any) -> None:
        table = getattr(self, TABLE_OF[type(record)])
        before = table.get(record.key)
        if before == record:
            return
        table[record.key] = record
        if isinstance(record, Queue):
            self._queues_by_vhost.setdefault(record.vhost, {})[record.name] = record
            self.queue_keys[record.queue_id] = record.key
            self.queues_without_indexes += _lacks_indexes(record) - _lacks_indexes(before)
        elif isinstance(record, Exchange):
            self._exchanges_by_vhost.setdefault(record.vhost, {})[record.name] = record
        elif isinstance(record, Binding):
            for index, key in self._binding_indexes(record):
                index.setdefault(key, {})[record.key] = record
        self._note(record, Put(record, before))

    def remove(self, record: Any) -> bool:
        """Remove a record; return False if it does not exist."""
        table = getattr(self, TABLE_OF[type(record)])
        removed = table.pop(record.key, None)
        if removed is None:
            return False
        if isinstance(record, Queue):
            drop_from_index(self._queues_by_vhost, record.vhost, record.name)
            del self.queue_keys[record.queue_id]
            self.queues_without_indexes -= _lacks_indexes(removed)
            for lease in self.leases_of(record.queue_id):
                self.remove(lease)
        elif isinstance(record, Exchange):
            drop_from_index(self._exchanges_by_vhost, record.vhost, record.name)
        elif isinstance(record, Binding):
            for index, key in self._binding_indexes(record):
                drop_from_index(index, key, record.key)
        self._note(record, Deleted(record))
        return True

    def _binding_indexes(self, binding: Binding) -> Iterator[tuple[dict[Any, Any], Any]]:
        yield self._bindings_by_source, (binding.vhost, binding.source)
        destination = (binding.vhost, binding.destination_kind, binding.destination)
        yield self._bindings_by_destination, destination

    def _note(self, record: object, change: Change) -> None:
        self._changes.append(change)
        if isinstance(record, Policy | OperatorPolicy):
            self.policy_version += 1
        elif isinstance(record, Vhost | User | Permission | TopicPermission):
            self.access_version += 1

    # Cascades.

    def _remove_binding(self, binding: Binding) -> None:
        if not self.remove(binding):
            return
        source = self.exchanges.get((binding.vhost, binding.source))
        if source is not None and source.auto_delete and not self.bindings_from(*source.key):
            self._remove_exchange(source)

    def _remove_exchange(self, exchange: Exchange) -> None:
        for binding in list(self.bindings_from(exchange.vhost, exchange.name).values()):
            self.remove(binding)
        self._remove_bindings_to(exchange.vhost, "exchange", exchange.name)
        self.remove(exchange)

    def remove_queue(self, queue: Queue) -> None:
        """Remove a queue with its bindings and the auto-delete exchanges whose last bindings these were."""
        self._remove_bindings_to(queue.vhost, "queue", queue.name)
        self.remove(queue)

    def _remove_bindings_to(self, vhost: str, kind: str, name: str) -> None:
        for binding in list(self.bindings_to(vhost, kind, name).values()):
            self._remove_binding(binding)

    def _remove_vhost(self, vhost: Vhost) -> None:
        for exchange in self.exchanges_of(vhost.name).values():
            for binding in list(self.bindings_from(vhost.name, exchange.name).values()):
                self.remove(binding)
        for queue in list(self.queues_of(vhost.name).values()):
            self.remove(queue)
        for exchange in list(self.exchanges_of(vhost.name).values()):
            self.remove(exchange)
        for name in IN_VHOST:
            for record in list(getattr(self, name).values()):
                if record.vhost == vhost.name:
                    self.remove(record)
        self.remove(vhost)

    # One method per command.

    def _put_vhost(self, command: c.PutVhost) -> None:
        is_new = command.record.name not in self.vhosts
        self.store(command.record)
        if is_new:
            for exchange in predeclared_exchanges(command.record.name):
                self.store(exchange)

    def _delete_vhost(self, command: c.DeleteVhost) -> None:
        if vhost := self.vhosts.get(command.name):
            self._remove_vhost(vhost)

    def _put_user(self, command: c.PutUser) -> None:
        self.store(command.record)

    def _delete_user(self, command: c.DeleteUser) -> None:
        user = self.users.get(command.name)
        if user is None:
            return
        for table in (self.topic_permissions, self.permissions):
            for record in [found for found in table.values() if found.user == user.name]:
                self.remove(record)
        self.remove(user)

    def _put_user_right(self, command: c.PutPermission | c.PutTopicPermission) -> None:
        if command.record.user in self.users and command.record.vhost in self.vhosts:
            self.store(command.record)

    def _delete_permission(self, command: c.DeletePermission) -> None:
        if permission := self.permissions.get((command.user, command.vhost)):
            self.remove(permission)

    def _delete_topic_permission(self, command: c.DeleteTopicPermission) -> None:
        for (user, vhost, exchange), record in list(self.topic_permissions.items()):
            if (user, vhost) == (command.user, command.vhost) and command.exchange in (None, exchange):
                self.remove(record)

    def _put_in_vhost(self, command: c.PutPolicy | c.PutOperatorPolicy | c.PutParameter) -> None:
        if command.record.vhost in self.vhosts:
            self.store(command.record)

    def _put_exchange(self, command: c.PutExchange) -> None:
        exchange = command.record
        if exchange.vhost in self.vhosts and not (command.if_absent and exchange.key in self.exchanges):
            self.store(exchange)

    def _delete_exchange(self, command: c.DeleteExchange) -> None:
        if exchange := self.exchanges.get((command.vhost, command.name)):
            self._remove_exchange(exchange)

    def _put_queue(self, command: c.PutQueue) -> None:
        queue = command.record
        before = self.queues.get(queue.key)
        if queue.vhost not in self.vhosts or (command.if_absent and before is not None):
            return
        if queue.queue_id == 0:
            given = self.next_queue_id if before is None else before.queue_id
            queue = msgspec.structs.replace(queue, queue_id=given)
        self.next_queue_id = max(self.next_queue_id, queue.queue_id + 1)
        self.store(ring_commands.new_queue(self, queue) if before is None else queue)

    def _delete_queue(self, command: c.DeleteQueue) -> None:
        queue = self.queues.get((command.vhost, command.name))
        if queue is not None and command.queue_id in (0, queue.queue_id):
            self.remove_queue(queue)

    def _put_binding(self, command: c.PutBinding) -> None:
        binding = command.record
        ends: dict[Any, Any] = self.queues if binding.destination_kind == "queue" else self.exchanges
        if (binding.vhost, binding.source) in self.exchanges and (
            binding.vhost,
            binding.destination,
        ) in ends:
            self.store(binding)

    def _delete_binding(self, command: c.DeleteBinding) -> None:
        key = (
            command.vhost,
            command.source,
            command.destination_kind,
            command.destination,
            command.routing_key,
            command.arguments,
        )
        if binding := self.bindings.get(key):
            self._remove_binding(binding)

    def _delete_policy(self, command: c.DeletePolicy) -> None:
        if policy := self.policies.get((command.vhost, command.name)):
            self.remove(policy)

    def _delete_operator_policy(self, command: c.DeleteOperatorPolicy) -> None:
        if policy := self.operator_policies.get((command.vhost, command.name)):
            self.remove(policy)

    def _delete_parameter(self, command: c.DeleteParameter) -> None:
        if parameter := self.parameters.get((command.vhost, command.component, command.name)):
            self.remove(parameter)

    def _put_global_parameter(self, command: c.PutGlobalParameter) -> None:
        self.store(command.record)

    def _delete_global_parameter(self, command: c.DeleteGlobalParameter) -> None:
        if parameter := self.global_parameters.get(command.name):
            self.remove(parameter)


def _lacks_indexes(queue: Queue | None) -> bool:
    return queue is not None and queue.indexes.view == UNKNOWN


_APPLY: dict[type, Callable[[MetadataState, Any], None]] = {
    c.PutVhost: MetadataState._put_vhost,
    c.DeleteVhost: MetadataState._delete_vhost,
    c.PutUser: MetadataState._put_user,
    c.DeleteUser: MetadataState._delete_user,
    c.PutPermission: MetadataState._put_user_right,
    c.DeletePermission: MetadataState._delete_permission,
    c.PutTopicPermission: MetadataState._put_user_right,
    c.DeleteTopicPermission: MetadataState._delete_topic_permission,
    c.PutExchange: MetadataState._put_exchange,
    c.DeleteExchange: MetadataState._delete_exchange,
    c.PutQueue: MetadataState._put_queue,
    c.DeleteQueue: MetadataState._delete_queue,
    c.PutBinding: MetadataState._put_binding,
    c.DeleteBinding: MetadataState._delete_binding,
    c.PutPolicy: MetadataState._put_in_vhost,
    c.DeletePolicy: MetadataState._delete_policy,
    c.PutOperatorPolicy: MetadataState._put_in_vhost,
    c.DeleteOperatorPolicy: MetadataState._delete_operator_policy,
    c.PutParameter: MetadataState._put_in_vhost,
    c.DeleteParameter: MetadataState._delete_parameter,
    c.PutGlobalParameter: MetadataState._put_global_parameter,
    c.DeleteGlobalParameter: MetadataState._delete_global_parameter,
    c.DropTransient: ring_commands.drop_transient,
    c.PutNode: ring_commands.put_node,
    c.DeleteNode: ring_commands.delete_node,
    c.ChangeViews: ring_commands.change_views,
    c.ReportJournal: ring_commands.report_journal,
    c.ReportCopies: ring_commands.report_copies,
    c.ReportOutdated: ring_commands.report_outdated,
    c.ReleaseCopies: ring_commands.release_copies,
    c.DeleteQueues: ring_commands.delete_queues,
    c.NoteConsumer: ring_commands.note_consumer,
    c.TakeMessages: lease_commands.take_messages,
    c.SettleLease: lease_commands.settle_lease,
    c.ForgetSettled: lease_commands.forget_settled,
    c.EndLease: lease_commands.end_lease,
    c.PutJob: job_commands.put_job,
    c.DeleteJob: job_commands.delete_job,
    c.BeginBatch: producer_commands.begin_batch,
    c.EndWrite: producer_commands.end_write,
    c.AssignLinks: link_commands.assign_links,
    c.RestartLink: link_commands.restart_link,
    c.FinishLink: link_commands.finish_link,
    c.BeginLogIndexes: ring_commands.begin_log_indexes,
}
