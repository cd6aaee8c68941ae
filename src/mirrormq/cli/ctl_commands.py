"""Table of the `mirrormqctl` commands: arguments, options, banner and columns of each.

The usage lines, banners and column names are rabbitmqctl 3.10's, because scripts match on them.
"""

from __future__ import annotations

from mirrormq.cli import bridge_commands, diagnostic_commands, health_commands, plugin_commands
from mirrormq.cli.ctl_command import HEADERS, UNLIMITED, VHOST, CtlCommand

QUEUE_COLUMNS = (
    "arguments", "auto_delete", "consumer_capacity", "consumer_utilisation", "consumers", "disk_reads",
    "disk_writes", "durable", "exclusive", "exclusive_consumer_pid", "exclusive_consumer_tag",
    "head_message_timestamp", "leader", "members", "memory", "message_bytes", "message_bytes_persistent",
    "message_bytes_ram", "message_bytes_ready", "message_bytes_unacknowledged", "messages",
    "messages_persistent", "messages_ram", "messages_ready", "messages_ready_ram",
    "messages_unacknowledged", "messages_unacknowledged_ram", "mirror_pids", "name", "online", "owner_pid",
    "pid", "policy", "slave_pids", "state", "synchronised_mirror_pids", "synchronised_slave_pids", "type",
    "untrusted_mirror_nodes",
)  # fmt: skip
CONNECTION_COLUMNS = (
    "auth_mechanism", "channel_max", "channels", "client_properties", "connected_at", "frame_max", "host",
    "name", "peer_cert_issuer", "peer_cert_subject", "peer_cert_validity", "peer_host", "peer_port", "pid",
    "port", "protocol", "recv_cnt", "recv_oct", "send_cnt", "send_oct", "send_pend", "ssl", "ssl_cipher",
    "ssl_hash", "ssl_key_exchange", "ssl_protocol", "state", "timeout", "user", "vhost",
)  # fmt: skip
CHANNEL_COLUMNS = (
    "acks_uncommitted", "confirm", "connection", "consumer_count", "global_prefetch_count",
    "messages_unacknowledged", "messages_uncommitted", "messages_unconfirmed", "name", "number", "pid",
    "prefetch_count", "transactional", "user", "vhost",
)  # fmt: skip
CONSUMER_COLUMNS = (
    "queue_name", "channel_pid", "consumer_tag", "ack_required", "prefetch_count", "active", "arguments",
    "activity_status",
)  # fmt: skip
EXCHANGE_COLUMNS = ("arguments", "auto_delete", "durable", "internal", "name", "policy", "type")
BINDING_COLUMNS = (
    "source_name", "source_kind", "destination_name", "destination_kind", "routing_key", "arguments",
)  # fmt: skip
VHOST_COLUMNS = ("cluster_state", "default_queue_type", "description", "name", "tags", "tracing")
POLICY_COLUMNS = ("vhost", "name", "pattern", "apply-to", "definition", "priority")
POLICY_USAGE = f"{VHOST} [--priority <priority>] [--apply-to <apply-to>] <name> <pattern> <definition>"
POLICY_OPTIONS = ("priority", "apply-to")
REBALANCE_COLUMNS = ("Node name", "Number of quorum queues", "Number of replicated classic queues")
LEASE_COLUMNS = (
    "queue", "name", "user", "number", "from", "to", "messages", "message_bytes", "idle_limit", "idle_since",
)  # fmt: skip
JOB_COLUMNS = ("job", "kind", "state", "text", "age")
SCRUB_COLUMNS = (
    "node", "state", "passes", "segments_done", "segments_total", "bytes_done", "bytes_total",
    "damaged_found", "damaged_repaired", "damaged_messages",
)  # fmt: skip
ORPHAN_COLUMNS = ("node", "number", "vhost", "queue", "messages", "message_bytes", "set_aside_at")
PRIORITY_0 = {"priority": "0"}

ALL = (
    CtlCommand("add_user", "Users", "Creates a new user without permissions", "<username> <password>",
         (1, 2), 'Adding user "{0}" ...', example="add_user anna s3cret"),
    CtlCommand("authenticate_user", "Users", "Checks a user's password", "<username> <password>", (1, 2),
         'Authenticating user "{0}" ...', example="authenticate_user anna s3cret"),
    CtlCommand("change_password", "Users", "Changes a user's password", "<username> <password>", (1, 2),
         'Changing password for user "{0}" ...', example="change_password anna n3w-s3cret"),
    CtlCommand("clear_password", "Users", "Clears a user's password, which disables password logins",
         "<username>", (1, 1), 'Clearing password for user "{0}" ...', example="clear_password anna"),
    CtlCommand("delete_user", "Users", "Removes a user", "<username>", (1, 1), 'Deleting user "{0}" ...',
         example="delete_user anna"),
    CtlCommand("list_users", "Users", "Lists users and their tags", HEADERS, (0, 0), "Listing users ...",
         ("user", "tags")),
    CtlCommand("set_user_tags", "Users", "Sets a user's tags", "<username> <tag> [...]", (1, UNLIMITED),
         'Setting tags for user "{0}" to [{rest}] ...', example="set_user_tags anna administrator"),
    CtlCommand("set_user_limits", "Users", "Sets a user's limits", "<username> <definition>", (2, 2),
         'Setting user limits to "{1}" for user "{0}" ...',
         example="set_user_limits anna '{\"max-connections\": 10}'"),
    CtlCommand("clear_user_limits", "Users", "Clears a user's limits", "<username> <limit_type> | all", (2,
         2),
         'Clearing {which} for user "{0}" ...', example="clear_user_limits anna max-connections"),
    CtlCommand("list_user_limits", "Users", "Lists user limits", "[--user <username>] [--global]", (0, 0),
         "Listing limits for {whom} ...", ("user", "limits"), options=("user", "global")),

    CtlCommand("set_permissions", "Access Control", "Sets a user's permissions in a vhost",
         f"{VHOST} <username> <conf> <write> <read>", (4, 4),
         'Setting permissions for user "{0}" in vhost "{vhost}" ...',
         example="set_permissions -p / anna '.*' '.*' '.*'"),
    CtlCommand("set_permissions_globally", "Access Control", "Sets a user's permissions in all vhosts",
         "<username> <conf> <write> <read>", (4, 4),
         'Setting permissions for user "{0}" in all virtual hosts ...',
         example="set_permissions_globally anna '.*' '.*' '.*'"),
    CtlCommand("clear_permissions", "Access Control", "Revokes a user's permissions in a vhost",
         f"{VHOST} <username>", (1, 1), 'Clearing permissions for user "{0}" in vhost "{vhost}" ...',
         example="clear_permissions -p / anna"),
    CtlCommand("list_permissions", "Access Control", "Lists permissions in a vhost", f"{VHOST} {HEADERS}",
         (0, 0),
         'Listing permissions for vhost "{vhost}" ...', ("user", "configure", "write", "read")),
    CtlCommand("list_user_permissions", "Access Control", "Lists a user's permissions in all vhosts",
         f"{HEADERS} <username>", (1, 1), 'Listing permissions for user "{0}" ...',
         ("vhost", "configure", "write", "read"), example="list_user_permissions anna"),
    CtlCommand("set_topic_permissions", "Access Control", "Sets which routing keys a user may use",
         f"{VHOST} <username> <exchange> <write> <read>", (4, 4),
         'Setting topic permissions on "{1}" for user "{0}" in vhost "{vhost}" ...',
         example="set_topic_permissions anna amq.topic '^eu[.]' '.*'"),
    CtlCommand("clear_topic_permissions", "Access Control", "Clears a user's topic permissions",
         f"{VHOST} <username> [<exchange>]", (1, 2),
         'Clearing topic permissions {on}for user "{0}" in vhost "{vhost}" ...',
         example="clear_topic_permissions anna amq.topic"),
    CtlCommand("list_topic_permissions", "Access Control", "Lists topic permissions in a vhost",
         f"{VHOST} {HEADERS}", (0, 0), 'Listing topic permissions for vhost "{vhost}" ...',
         ("user", "exchange", "write", "read")),
    CtlCommand("list_user_topic_permissions", "Access Control", "Lists a user's topic permissions",
         f"{HEADERS} <username>", (1, 1), 'Listing topic permissions for user "{0}" ...',
         ("vhost", "exchange", "write", "read"), headers=False, example="list_user_topic_permissions anna"),
    CtlCommand("list_vhosts", "Access Control", "Lists vhosts", f"{HEADERS} [<column> ...]", (0, UNLIMITED),
         "Listing vhosts ...", ("name",), VHOST_COLUMNS),

    CtlCommand("add_vhost", "Virtual hosts", "Creates a vhost",
         '<vhost> [--description <description> --tags "<tag1>,<tag2>,<...>"'
         " --default-queue-type <quorum|classic|stream>]", (1, 1), 'Adding vhost "{0}" ...',
         options=("description", "tags", "default-queue-type"),
         example="add_vhost shop --description 'orders and bills'"),
    CtlCommand("delete_vhost", "Virtual hosts", "Deletes a vhost with everything in it", "<vhost>", (1, 1),
         'Deleting vhost "{0}" ...', example="delete_vhost shop"),
    CtlCommand("set_vhost_tags", "Virtual hosts", "Sets a vhost's tags", "<vhost> <tag> [...]", (1,
         UNLIMITED),
         'Setting tags for virtual host "{0}" to [{rest}] ...', example="set_vhost_tags shop production"),
    CtlCommand("set_vhost_limits", "Virtual hosts", "Sets a vhost's limits", f"{VHOST} <definition>", (1, 1),
         'Setting vhost limits to "{0}" for vhost "{vhost}" ...',
         example="set_vhost_limits -p / '{\"max-queues\": 1000}'"),
    CtlCommand("clear_vhost_limits", "Virtual hosts", "Clears a vhost's limits", VHOST, (0, 0),
         'Clearing vhost "{vhost}" limits ...'),
    CtlCommand("list_vhost_limits", "Virtual hosts", "Lists vhost limits", f"{VHOST} [--global] {HEADERS}",
         (0, 0),
         "Listing limits for {where} ...", ("vhost", "limits"), options=("global",)),
    CtlCommand("trace_on", "Virtual hosts", "Copies every message to amq.rabbitmq.trace", VHOST, (0, 0),
         'Starting tracing for vhost "{vhost}" ...'),
    CtlCommand("trace_off", "Virtual hosts", "Stops copying messages to amq.rabbitmq.trace", VHOST, (0, 0),
         'Stopping tracing for vhost "{vhost}" ...'),

    CtlCommand("set_policy", "Policies", "Sets or updates a policy", POLICY_USAGE, (3, 3),
         'Setting policy "{0}" for pattern "{1}" to "{2}" with priority "{priority}" for vhost "{vhost}" ...',
         options=POLICY_OPTIONS, banner_options=PRIORITY_0,
         example="set_policy short '^q' '{\"max-length\": 1000}' --apply-to queues"),
    CtlCommand("clear_policy", "Policies", "Removes a policy", f"{VHOST} <name>", (1, 1),
         'Clearing policy "{0}" on vhost "{vhost}" ...', example="clear_policy short"),
    CtlCommand("list_policies", "Policies", "Lists the policies of a vhost", f"{VHOST} {HEADERS}", (0, 0),
         'Listing policies for vhost "{vhost}" ...', POLICY_COLUMNS),
    CtlCommand("set_operator_policy", "Policies", "Sets a policy that limits other policies", POLICY_USAGE,
         (3, 3),
         'Setting operator policy override "{0}" for pattern "{1}" to "{2}" with priority "{priority}"'
         ' for vhost "{vhost}" ...', options=POLICY_OPTIONS, banner_options=PRIORITY_0,
         example="set_operator_policy ceiling '^q' '{\"max-length\": 9999}' --apply-to queues"),
    CtlCommand("clear_operator_policy", "Policies", "Removes an operator policy", f"{VHOST} <name>", (1, 1),
         'Clearing operator policy "{0}" on vhost "{vhost}" ...', example="clear_operator_policy ceiling"),
    CtlCommand("list_operator_policies", "Policies", "Lists the operator policies of a vhost",
         f"{VHOST} {HEADERS}",
         (0, 0), 'Listing operator policy overrides for vhost "{vhost}" ...', POLICY_COLUMNS),

    CtlCommand("set_parameter", "Parameters", "Sets a runtime parameter",
         f"{VHOST} <component_name> <name> <value>", (3, 3),
         'Setting runtime parameter "{1}" for component "{0}" to "{2}" in vhost "{vhost}" ...',
         example="set_parameter federation-upstream east '{\"uri\": \"amqp://east\"}'"),
    CtlCommand("clear_parameter", "Parameters", "Clears a runtime parameter",
         f"{VHOST} <component_name> <name>",
         (2, 2), 'Clearing runtime parameter "{1}" for component "{0}" on vhost "{vhost}" ...',
         example="clear_parameter federation-upstream east"),
    CtlCommand("list_parameters", "Parameters", "Lists a vhost's runtime parameters", f"{VHOST} {HEADERS}",
         (0, 0),
         'Listing runtime parameters for vhost "{vhost}" ...', ("component", "name", "value")),
    CtlCommand("set_global_parameter", "Parameters", "Sets a global runtime parameter", "<name> <value>", (2,
         2),
         'Setting global runtime parameter "{0}" to "{1}" ...',
         example="set_global_parameter team '\"shop\"'"),
    CtlCommand("clear_global_parameter", "Parameters", "Clears a global runtime parameter", "<name>", (1, 1),
         'Clearing global runtime parameter "{0}" ...', example="clear_global_parameter team"),
    CtlCommand("list_global_parameters", "Parameters", "Lists global runtime parameters", HEADERS, (0, 0),
         "Listing global runtime parameters ...", ("name", "value")),

    CtlCommand("list_queues", "Monitoring", "Lists queues and their properties",
         f"{VHOST} [--online] [--offline] [--local] {HEADERS} [<column>, ...]", (0, UNLIMITED),
         "Timeout: {timeout} seconds ...\nListing queues for vhost {vhost} ...", ("name", "messages"),
         QUEUE_COLUMNS, ("online", "offline", "local"), "list_queues name messages consumers"),
    CtlCommand("list_exchanges", "Monitoring", "Lists exchanges", f"{VHOST} {HEADERS} [<column> ...]",
         (0, UNLIMITED), "Listing exchanges for vhost {vhost} ...", ("name", "type"), EXCHANGE_COLUMNS),
    CtlCommand("list_bindings", "Monitoring", "Lists bindings", f"{VHOST} {HEADERS} [<column> ...]", (0,
         UNLIMITED),
         "Listing bindings for vhost {vhost}...", BINDING_COLUMNS, BINDING_COLUMNS),
    CtlCommand("list_connections", "Monitoring", "Lists client connections", f"{HEADERS} [<column> ...]",
         (0, UNLIMITED), "Listing connections ...", ("user", "peer_host", "peer_port", "state"),
         CONNECTION_COLUMNS),
    CtlCommand("list_channels", "Monitoring", "Lists channels", f"{HEADERS} [<column> ...]", (0, UNLIMITED),
         "Listing channels ...", ("pid", "user", "consumer_count", "messages_unacknowledged"),
         CHANNEL_COLUMNS),
    CtlCommand("list_consumers", "Monitoring", "Lists consumers", f"{VHOST} {HEADERS} [<column> ...]",
         (0, UNLIMITED), "Listing consumers in vhost {vhost} ...", CONSUMER_COLUMNS[:-1], CONSUMER_COLUMNS),
    CtlCommand("status", "Monitoring", "Shows the status of a node", "", (0, 0), "Status of node {node} ..."),

    CtlCommand("add_queue", "Queues", "Declares a durable queue and named copies of its messages",
         f"{VHOST} <queue_name> [mirroring=<json>]", (1, UNLIMITED),
         "Adding queue '{0}' to vhost '{vhost}' ...",
         example="""add_queue orders mirroring='{"copies": [{"src_name": "orders-copy", "dst_tag": ""}]}'"""),
    CtlCommand("purge_queue", "Queues", "Removes all ready messages of a queue", "<queue>", (1, 1),
         "Purging queue '{0}' in vhost '{vhost}' ...", example="purge_queue orders"),
    CtlCommand("list_leases", "Queues", "Lists the leases of a vhost's queues", VHOST,
         (0, 0),
         "Listing leases for vhost {vhost} ...", columns=LEASE_COLUMNS),
    CtlCommand("release_lease", "Queues", "Returns the messages of a lease to its queue",
         f"{VHOST} <queue> <lease>", (2, 2), "Releasing lease '{1}' of queue '{0}' in vhost '{vhost}' ...",
         example="release_lease orders archive"),
    CtlCommand("list_jobs", "Queues", "Lists jobs and the seconds since their last report",
         VHOST,
         (0, 0), "Listing jobs for vhost {vhost} ...", columns=JOB_COLUMNS),
    CtlCommand("delete_queue", "Queues", "Deletes a queue", "<queue_name> [--if-empty|-e] [--if-unused|-u]",
         (1, 1),
         "Deleting queue '{0}' on vhost '{vhost}' {conditions}...", options=("if-empty", "if-unused"),
         example="delete_queue orders --if-empty"),

    CtlCommand("sync_queue", "Mirrors", "Synchronises a queue's mirrors", f"{VHOST} <queue>", (1, 1),
         "Synchronising queue '{0}' in vhost '{vhost}' ...", example="sync_queue orders"),
    CtlCommand("cancel_sync_queue", "Mirrors", "Stops the synchronisation of a queue's mirrors",
         f"{VHOST} <queue>",
         (1, 1), "Stopping synchronising queue '{0}' in vhost '{vhost}' ...",
         example="cancel_sync_queue orders"),
    CtlCommand("rebalance", "Mirrors", "Distributes the masters of mirrored queues evenly",
         "< all | classic | quorum > [--vhost-pattern <pattern>] [--queue-pattern <pattern>]", (1, 1),
         "Re-balancing leaders of {0} queues...", columns=REBALANCE_COLUMNS,
         options=("vhost-pattern", "queue-pattern"), example="rebalance all"),
    CtlCommand("move_master", "Mirrors", "Makes a synchronised mirror the master of a queue",
         f"{VHOST} <queue> <node>", (2, 2), "Moving the master of queue '{0}' in vhost '{vhost}' to {1} ...",
         example="move_master orders mirror2@localhost"),
    CtlCommand("recover_queue", "Mirrors", "Makes a node master of a down queue, with the copy it has",
         f"{VHOST} <queue> <node>", (2, 2), "Forcing queue '{0}' in vhost '{vhost}' onto {1} ...",
         example="recover_queue orders mirror2@localhost"),
    CtlCommand("list_orphans", "Mirrors", "Lists orphans: messages that only a losing side held", "",
         (0, 0),
         "Listing orphans ...", columns=ORPHAN_COLUMNS),
    CtlCommand("restore_orphans", "Mirrors", "Publishes a node's orphans to their queues again",
         "<number> | all",
         (1, 1), "Restoring orphans of node {node} ...", example="restore_orphans all"),
    CtlCommand("export_orphans", "Mirrors", "Writes a node's orphans to a file, one JSON line each",
         "<file> [<number> | all]", (1, 2), "Exporting orphans of node {node} to {0} ...",
         example="export_orphans /tmp/orphans.json"),
    CtlCommand("delete_orphans", "Mirrors", "Deletes a node's orphans", "<number> | all", (1, 1),
         "Deleting orphans of node {node} ...", example="delete_orphans 1"),
    CtlCommand("scrub", "Mirrors",
         "Verifies a node's journal in the background, or shows the progress",
         "[--status]", (0, 0), "Scrub of node {node} ...", columns=SCRUB_COLUMNS, options=("status",)),
    CtlCommand("drain", "Mirrors", "Puts a node into maintenance mode", "", (0, 0),
         "Will put node {node} into maintenance mode. The node will no longer serve any client traffic!"),
    CtlCommand("revive", "Mirrors", "Ends a node's maintenance mode", "", (0, 0),
         "Will put node {node} back into regular operating mode. The node will again serve client traffic and"
         " host primary queue replicas."),

    CtlCommand("close_connection", "Operations", "Closes a connection", "<connection pid> <explanation>", (2,
         2),
         "Closing connection {0}, reason: {1}...",
         example="close_connection '<mirror1@localhost.1700000000.3.0>' 'maintenance'"),
    CtlCommand("close_all_connections", "Operations", "Closes all connections of a vhost or of the node",
         "[--vhost <vhost> --limit <limit>] [-n <node> --global]"
         " [--per-connection-delay <delay>] <explanation>",
         (1, 1), "Closing all connections in vhost {vhost}, reason: {0}...",
         options=("limit", "global", "per-connection-delay"),
         example="close_all_connections --vhost shop --limit 10 'maintenance'"),
    CtlCommand("close_all_user_connections", "Operations", "Closes all connections of a user",
         "<username> <explanation>", (2, 2), "Closing connections of user {0}, reason: {1}...",
         example="close_all_user_connections anna 'maintenance'"),
    CtlCommand("set_vm_memory_high_watermark", "Operations",
         "Sets the memory watermark until the next restart",
         "<fraction> | absolute <value>", (1, 2), "Setting memory threshold on {node} to {threshold} ...",
         example="set_vm_memory_high_watermark 0.6"),
    CtlCommand("set_log_level", "Operations", "Sets the log level, or one category's, until the next start",
         "[<category>] <log_level>", (1, 2), "Setting log level {levelled} ...",
         example="set_log_level connection debug"),
    CtlCommand("rotate_logs", "Operations", "Opens new log files after the old ones were moved", "",
         (0, 0),
         "Rotating logs for node {node} ..."),
    CtlCommand("set_disk_free_limit", "Operations", "Sets the disk space limit until the next restart",
         "<disk_limit> | mem_relative <fraction>", (1, 2),
         "Setting disk free limit on {node} to {threshold} ...", example="set_disk_free_limit 2GB"),

    CtlCommand("export_definitions", "Definitions", "Exports users, vhosts, policies, queues … as JSON",
         '<file_path | "-"> [--format <json>]', (1, 1),
         'Exporting definitions in JSON to a file at "{0}" ...', options=("format",),
         example="export_definitions definitions.json"),
    CtlCommand("import_definitions", "Definitions", "Imports definitions from JSON",
         '<file_path | "-"> [--format <json>] [--skip-if-unchanged] [--skip-unsupported] '
         "[--convert quorum=mirrored] [--all-or-nothing]", (0, 1),
         'Importing definitions in JSON from a file at "{0}" ...',
         options=("format", "skip-if-unchanged", "skip-unsupported", "convert", "all-or-nothing"),
         example="import_definitions definitions.json --convert quorum=mirrored --skip-unsupported"),

    CtlCommand("await_online_nodes", "Cluster", "Waits until <count> nodes of the cluster run", "<count>",
         (1, 1), example="await_online_nodes 3"),
    CtlCommand("cluster_status", "Cluster", "Shows the nodes of the cluster and their state", "", (0, 0),
         "Cluster status of node {node} ..."),
    CtlCommand("force_boot", "Cluster", "Makes a node start next time without waiting for peers", "", (0,
         0)),
    CtlCommand("force_reset", "Cluster", "Resets a node without notifying the other members", "",
         (0, 0),
         "Forcefully resetting node {node} ..."),
    CtlCommand("forget_cluster_node", "Cluster", "Removes a stopped node from the cluster",
         "[--offline] <existing_cluster_member_node>", (1, 1), "Removing node {0} from the cluster",
         options=("offline",), example="forget_cluster_node mirror3@localhost"),
    CtlCommand("join_cluster", "Cluster", "Joins a stopped node to another node's cluster",
         "[--disc|--ram] <existing_cluster_member>", (1, 1), "Clustering node {node} with {0}",
         options=("disc", "ram"), example="join_cluster mirror1@localhost"),
    CtlCommand("reset", "Cluster", "Removes a node from its cluster and deletes its data", "", (0, 0),
         "Resetting node {node} ..."),
    CtlCommand("set_cluster_name", "Cluster", "Sets the name of the cluster", "<name>", (1, 1),
         "Setting cluster name to {0} ...", example="set_cluster_name shop"),

    CtlCommand("environment", "Monitoring", "Shows a node's settings", "", (0, 0),
         "Application environment of node {node} ..."),
    CtlCommand("report", "Monitoring", "Shows a report for troubleshooting", "", (0, 0),
         "Reporting server status of node {node} ..."),

    CtlCommand("await_startup", "Nodes", "Waits until the node serves clients", "", (0, 0)),
    CtlCommand("start_app", "Nodes", "Starts the application in a running node process", "", (0, 0),
         "Starting node {node} ..."),
    CtlCommand("stop_app", "Nodes", "Stops the application and keeps the process running", "", (0, 0),
         "Stopping rabbit application on node {node} ..."),
    CtlCommand("stop", "Nodes", "Stops the node", "[--idempotent] [<pidfile>]", (0, 1),
         "Stopping and halting node {node} ...", options=("idempotent",)),
    CtlCommand("shutdown", "Nodes", "Stops the node and waits until its process has ended", "", (0, 0)),
)  # fmt: skip

COMMANDS = {
    command.name: command
    for command in (
        *ALL,
        *health_commands.ALL,
        *diagnostic_commands.ALL,
        *plugin_commands.ALL,
        *bridge_commands.ALL,
    )
}

WITHOUT_TIMEOUT = (
    "list_channels", "list_vhost_limits", "list_user_limits", "check_certificate_expiration",
    "check_if_node_is_mirror_sync_critical", "check_if_node_is_quorum_critical",
    "list_node_auth_attempt_stats",
)  # fmt: skip
WITH_TIMEOUT = (
    "delete_queue", "purge_queue", "ping", "status", "export_definitions", "import_definitions",
    "cluster_status", "await_online_nodes", "log_tail", "log_tail_stream", "consume_event_stream",
    "memory_breakdown", "listeners", "tls_versions", "cipher_suites",
)  # fmt: skip


def usage_of(command: CtlCommand) -> str:
    """Return the usage line of a command."""
    listing = command.name.startswith(("list_", "check_")) and command.name not in WITHOUT_TIMEOUT
    timed = command.name in WITH_TIMEOUT or listing
    words = [command.name, command.usage, "[--timeout <timeout>]" if timed else ""]
    return "mirrormqctl [--node <node>] [--longnames] [--quiet] " + " ".join(filter(None, words))
