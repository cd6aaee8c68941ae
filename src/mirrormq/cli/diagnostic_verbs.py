"""More verbs of rabbitmq-diagnostics and rabbitmqctl: listeners, logs, events, the node's process."""

from __future__ import annotations

from mirrormq.cli.verb import Verb

GROUP = "Diagnostics"
AUTH_COLUMNS = ("protocol", "auth_attempts", "auth_attempts_failed", "auth_attempts_succeeded")

ALL = (
    Verb("suspend_listeners", "Operations", "Lets no new clients in; those that are there stay", "", (0, 0),
         "Will suspend client connection listeners on node {node}. The node will no longer accept client"
         " connections!"),
    Verb("resume_listeners", "Operations", "Lets clients in again", "", (0, 0),
         "Will resume client connection listeners on node {node}. The node will now accept client"
         " connections"),
    Verb("change_cluster_node_type", "Cluster", "Every node is a disc node", "<disc | ram>", (1, 1),
         "Turning {node} into a {0} node"),

    Verb("log_location", GROUP, "Shows where the node's log lines go", "[--all|-a]", (0, 0),
         "Log file location(s) on node {node} ...", options=("all",)),
    Verb("log_tail", GROUP, "Prints the last lines of the node's log", "[--number|-N <number>]", (0, 0),
         "Last {number} log lines on node {node} ...", options=("number",), banner_options={"number": "50"},
         example="log_tail --number 20"),
    Verb("log_tail_stream", GROUP, "Prints log lines as they are written", "[--duration|-d <seconds>]",
         (0, 0), "Streaming logs from node {node} {for_how_long}...", options=("duration",),
         example="log_tail_stream --duration 10"),
    Verb("consume_event_stream", GROUP, "Prints what happens in the node, a line of JSON for each event",
         "[--duration|-d <seconds>] [--pattern <pattern>]", (0, 0), options=("duration", "pattern"),
         example="consume_event_stream --pattern '^queue'"),
    Verb("memory_breakdown", GROUP, "Shows what the node's memory is used for", "[--unit <unit>]",
         (0, 0), "Reporting memory breakdown on node {node}...", options=("unit",)),
    Verb("os_env", GROUP, "Lists the variables that the node was started with", "", (0, 0),
         "Listing RabbitMQ-specific environment variables defined on node {node}..."),
    Verb("command_line_arguments", GROUP, "Shows how the node's process was started", "", (0, 0),
         "Command line arguments of node {node} ..."),
    Verb("certificates", GROUP, "Shows the certificates of the node's TLS listeners", "", (0, 0),
         "Certificates of node {node} ..."),
    Verb("tls_versions", GROUP, "Lists TLS versions that the node could speak", "", (0, 0),
         "Listing all TLS versions supported by the runtime..."),
    Verb("cipher_suites", GROUP, "Lists cipher suites that the node could use", "[--format openssl] [--all]",
         (0, 0), "Listing available cipher suites in OpenSSL format", options=("format", "all")),
    Verb("discover_peers", GROUP, "Lists the nodes that the configuration names", "", (0, 0),
         "Discovering peers nodes ..."),
    Verb("resolve_hostname", GROUP, "Asks the node for the addresses of a host",
         "<hostname> [--address-family <ipv4 | ipv6>]", (1, 1),
         "Asking node {node} to resolve hostname {0} to {address_family} addresses...",
         options=("address-family",), example="resolve_hostname localhost"),
    Verb("list_node_auth_attempt_stats", GROUP, "Lists how often clients logged in, or tried to",
         "[--by-source]", (0, 0), 'Listing authentication\n attempts for node "{node}" ...',
         AUTH_COLUMNS, options=("by-source",)),
    Verb("reset_node_auth_attempt_metrics", GROUP, "Counts logins from nought again", "", (0, 0),
         "Reset auth attempt metrics on node {node} ..."),
)  # fmt: skip
