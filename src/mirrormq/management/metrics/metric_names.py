"""Table of metrics: type and help text of each. RabbitMQ's metrics have its exporter's help texts."""

from __future__ import annotations

COUNTER, GAUGE, HISTOGRAM, UNTYPED = "counter", "gauge", "histogram", "untyped"

_RABBITMQ = {
    UNTYPED: """
alarms_file_descriptor_limit
    is 1 if file descriptor limit alarm is in effect
alarms_free_disk_space_watermark
    is 1 if free disk space watermark alarm is in effect
alarms_memory_used_watermark
    is 1 if VM memory watermark alarm is in effect
build_info
    RabbitMQ & Erlang/OTP version info
identity_info
    RabbitMQ node & cluster identity info
""",
    GAUGE: """
channel_acks_uncommitted
    Message acknowledgements in a transaction not yet committed
channel_consumers
    Consumers on a channel
channel_messages_uncommitted
    Messages received in a transaction but not yet committed
channel_messages_unacked
    Delivered but not yet acknowledged messages
channel_messages_unconfirmed
    Published but not yet confirmed messages
channel_prefetch
    Total limit of unacknowledged messages for all consumers on a channel
channels
    Channels currently open
cluster_exchange_bindings
    Number of bindings for an exchange. This value is cluster-wide.
cluster_exchange_name
    Enumerates exchanges without any additional info. This value is cluster-wide.
cluster_vhost_status
    Whether a given vhost is running
connection_channels
    Channels on a connection
connection_pending_packets
    Number of packets waiting to be sent on a connection
connections
    Connections currently open
consumer_prefetch
    Limit of unacknowledged messages for each consumer
consumers
    Consumers currently connected
disk_space_available_bytes
    Disk space available in bytes
disk_space_available_limit_bytes
    Free disk space low watermark in bytes
erlang_net_ticktime_seconds
    Inter-node heartbeat interval
erlang_uptime_seconds
    Node uptime
global_consumers
    Current number of consumers
global_publishers
    Current number of publishers
process_max_fds
    Open file descriptors limit
process_max_tcp_sockets
    Open TCP sockets limit
process_open_fds
    Open file descriptors
process_open_tcp_sockets
    Open TCP sockets
process_resident_memory_bytes
    Memory used in bytes
queue_consumer_capacity
    Consumer capacity
queue_consumer_utilisation
    Same as consumer capacity
queue_consumers
    Consumers on a queue
queue_head_message_timestamp
    Timestamp of the first message in the queue, if any
queue_messages
    Sum of ready and unacknowledged messages - total queue depth
queue_messages_bytes
    Size in bytes of ready and unacknowledged messages
queue_messages_paged_out
    Messages paged out to disk
queue_messages_paged_out_bytes
    Size in bytes of messages paged out to disk
queue_messages_persistent
    Persistent messages
queue_messages_persistent_bytes
    Size in bytes of persistent messages
queue_messages_ram
    Ready and unacknowledged messages stored in memory
queue_messages_ram_bytes
    Size of ready and unacknowledged messages stored in memory
queue_messages_ready
    Messages ready to be delivered to consumers
queue_messages_ready_bytes
    Size in bytes of ready messages
queue_messages_ready_ram
    Ready messages stored in memory
queue_messages_unacked
    Messages delivered to consumers but not yet acknowledged
queue_messages_unacked_bytes
    Size in bytes of all unacknowledged messages
queue_messages_unacked_ram
    Unacknowledged messages stored in memory
queue_process_memory_bytes
    Memory in bytes used by the Erlang queue process
queues
    Queues available
resident_memory_limit_bytes
    Memory high watermark in bytes
""",
    COUNTER: """
auth_attempts_failed_total
    Total number of failed authentication attempts
auth_attempts_succeeded_total
    Total number of successful authentication attempts
auth_attempts_total
    Total number of authorization attempts
channel_get_ack_total
    Total number of messages fetched with basic.get in manual acknowledgement mode
channel_get_empty_total
    Total number of times basic.get operations fetched no message
channel_get_total
    Total number of messages fetched with basic.get in automatic acknowledgement mode
channel_messages_acked_total
    Total number of messages acknowledged by consumers
channel_messages_confirmed_total
    Total number of messages published into an exchange and confirmed on the channel
channel_messages_delivered_ack_total
    Total number of messages delivered to consumers in manual acknowledgement mode
channel_messages_delivered_total
    Total number of messages delivered to consumers in automatic acknowledgement mode
channel_messages_published_total
    Total number of messages published into an exchange on a channel
channel_messages_redelivered_total
    Total number of messages redelivered to consumers
channel_messages_unroutable_dropped_total
    Total number of messages published as non-mandatory into an exchange and dropped as unroutable
channel_messages_unroutable_returned_total
  Total number of messages published as mandatory into an exchange and returned to the publisher as unroutable
channels_closed_total
    Total number of channels closed
channels_opened_total
    Total number of channels opened
connection_incoming_bytes_total
    Total number of bytes received on a connection
connection_incoming_packets_total
    Total number of packets received on a connection
connection_outgoing_bytes_total
    Total number of bytes sent on a connection
connection_outgoing_packets_total
    Total number of packets sent on a connection
connections_closed_total
    Total number of connections closed or terminated
connections_opened_total
    Total number of connections opened
global_messages_acknowledged_total
    Total number of messages acknowledged by consumers
global_messages_confirmed_total
    Total number of messages confirmed to publishers
global_messages_dead_lettered_expired_total
    Total number of messages dead-lettered due to message TTL exceeded
global_messages_dead_lettered_maxlen_total
    Total number of messages dead-lettered due to overflow drop-head or reject-publish-dlx
global_messages_dead_lettered_rejected_total
    Total number of messages dead-lettered due to basic.reject or basic.nack
global_messages_delivered_consume_auto_ack_total
    Total number of messages delivered to consumers using basic.consume with automatic acknowledgment
global_messages_delivered_consume_manual_ack_total
    Total number of messages delivered to consumers using basic.consume with manual acknowledgment
global_messages_delivered_get_auto_ack_total
    Total number of messages delivered to consumers using basic.get with automatic acknowledgment
global_messages_delivered_get_manual_ack_total
    Total number of messages delivered to consumers using basic.get with manual acknowledgment
global_messages_delivered_total
    Total number of messages delivered to consumers
global_messages_get_empty_total
    Total number of times basic.get operations fetched no message
global_messages_received_confirm_total
    Total number of messages received from publishers expecting confirmations
global_messages_received_total
    Total number of messages received from publishers
global_messages_redelivered_total
    Total number of messages redelivered to consumers
global_messages_routed_total
    Total number of messages routed to queues or streams
global_messages_unroutable_dropped_total
    Total number of messages published as non-mandatory into an exchange and dropped as unroutable
global_messages_unroutable_returned_total
  Total number of messages published as mandatory into an exchange and returned to the publisher as unroutable
io_read_bytes_total
    Total number of I/O bytes read
io_read_ops_total
    Total number of I/O read operations
io_read_time_seconds_total
    Total I/O read time
io_sync_ops_total
    Total number of I/O sync operations
io_sync_time_seconds_total
    Total I/O sync time
io_write_bytes_total
    Total number of I/O bytes written
io_write_ops_total
    Total number of I/O write operations
io_write_time_seconds_total
    Total I/O write time
msg_store_read_total
    Total number of Message Store read operations
msg_store_write_total
    Total number of Message Store write operations
queue_disk_reads_total
    Total number of times queue read messages from disk
queue_disk_writes_total
    Total number of times queue wrote messages to disk
queue_messages_published_total
    Total number of messages published to queues
queues_created_total
    Total number of queues created
queues_declared_total
    Total number of queues declared
queues_deleted_total
    Total number of queues deleted
""",
}

_MIRRORMQ = {
    GAUGE: """
bridge_backlog
    Messages that wait at the sources of connected links, up to 30 s old
bridge_links
    Links of shovels and federation on this node, by state
bridge_pending
    Messages that a link has received and not published yet
bridge_unconfirmed
    Messages that a link has published and the destination has not confirmed yet
cluster_nodes
    Members of the cluster
cluster_nodes_running
    Members that serve clients and are reachable from this node
cluster_partitions
    Nodes from which this node is partitioned
journal_fault
    Is 1 if this node found the fault in its journal at startup
job_number
    Number that a running job reports, by its name: messages behind, messages per second and others
jobs
    Jobs that reported to this node, by state
lease_bytes
    Bodies of messages that a lease holds
lease_idle_seconds
    Time since the last request of a lease's client
lease_messages
    Messages that a lease holds
leases
    Leases of queues whose master is this node
orphan_messages
    Orphans of lost partition sides that this node keeps until an operator decides
orphan_queues
    Queues with orphans on this node
queue_copies_untrusted
    Unsynchronised copies on nodes with a journal fault, of rings that this node is master of
queues_down
    Down queues that wait for this node
queues_unsynchronised
    Rings that this node is master of with an unsynchronised mirror
ring_epoch
    Epoch of a ring: number of its masters since its declaration
ring_epochs
    Sum of the epochs of all rings that this node is master of
ring_in_sync_members
    Synchronised members of a ring, including its master
ring_lag_messages
    Operations that the slowest mirror has not received yet
ring_members
    Members of a ring, including its master
rings
    Rings that this node is master of
scrub_damaged_messages
    Damaged stored messages that are not served and have no good copy yet
scrub_running
    Is 1 while the journal is being verified
scrub_segments
    Segments of the current or last verification pass
scrub_segments_done
    Verified segments of the current or last pass
turn_longest_seconds
    Longest turn of the event loop in the last seconds, without fsync
""",
    COUNTER: """
bridge_forwarded_total
    Messages that a link has moved
bridge_refused_total
    Refusals by the destination of a link: rejected and unroutable messages
bridge_restarts_total
    Failed attempts of a link
failovers_total
    Promotions after the loss of a master, as observed by this node
promotions_incomplete_total
    Promotions of this node without the copies of members that had not reported, or without a trusted copy
scrub_damaged_messages_total
    Messages found damaged by verification or by reading
scrub_damaged_stretches_total
    Damaged spans that verification found in the journal
scrub_passes_total
    Completed verification passes
scrub_read_bytes_total
    Verified bytes of the journal
scrub_repaired_messages_total
    Damaged messages that were rewritten with a copy from another node
""",
    HISTOGRAM: """
fsync_duration_seconds
    Duration of journal syncs to disk
""",
}


def _table() -> dict[str, tuple[str, str]]:
    found: dict[str, tuple[str, str]] = {}
    for prefix, kinds in (("rabbitmq", _RABBITMQ), ("mirrormq", _MIRRORMQ)):
        for kind, lines in kinds.items():
            names = lines.strip().splitlines()
            for name, meaning in zip(names[::2], names[1::2], strict=True):
                found[f"{prefix}_{name}"] = (kind, meaning.strip())
    return found


METRICS = _table() | {
    "process_start_time_seconds": (GAUGE, "Start time of the process since unix epoch in seconds.")
}
"""Type and help text by name."""
