"""Commands of RabbitMQ's tools that MirrorMQ does not support, each with an explanation.

They are recognised, so that an operator does not suspect a typing error. They end with exit code 69.
"""

from __future__ import annotations

_ERLANG = "A MirrorMQ node has no Erlang runtime"
_QUORUM = "MirrorMQ has mirrored queues, but no quorum queues or streams"
_ENCRYPTED = "MirrorMQ's configuration has no encrypted values: keep secrets in files of the node's user"
_BUILT_IN = "RabbitMQ's plugins are built in and cannot be disabled"
_SOURCES = "The sources of logins are not tracked"

REFUSED = {
    "eval": f"{_ERLANG}, so it cannot evaluate expressions: use the commands or the HTTP API.",
    "eval_file": f"{_ERLANG}, so it cannot evaluate expressions: use the commands or the HTTP API.",
    "exec": "The program mirrormqctl has no Elixir runtime: use the commands or the HTTP API.",
    "remote_shell": f"{_ERLANG}, so it has no shell: use the commands or the HTTP API.",
    "observer": f"{_ERLANG} to observe: use 'mirrormq top' to watch a cluster.",
    "force_gc": f"{_ERLANG}; memory is freed at once by reference counting.",
    "hipe_compile": f"{_ERLANG} to compile.",
    "runtime_thread_stats": f"{_ERLANG}, and one thread does the work: use 'mirrormq top' to watch it.",
    "maybe_stuck": f"{_ERLANG} with stuck processes: see 'mirrormqctl list_unresponsive_queues'.",
    "erlang_version": f"{_ERLANG}: 'mirrormqctl status' shows the versions.",
    "erlang_cookie_hash": f"{_ERLANG}: the cluster's cookie is in the file that 'cookie_file' names.",
    "erlang_cookie_sources": f"{_ERLANG}: the control socket needs no cookie, only its owner can open it.",
    "schema_info": "MirrorMQ has no Mnesia tables: 'mirrormqctl export_definitions' shows what is declared.",
    "resolver_info": "Names are resolved by the operating system: see its /etc/hosts and /etc/resolv.conf.",
    "list_network_interfaces": "Interfaces are the operating system's: 'ip address' shows them.",
    "encode": f"{_ENCRYPTED}.",
    "decode": f"{_ENCRYPTED}.",
    "list_ciphers": f"{_ENCRYPTED}.",
    "list_hashes": f"{_ENCRYPTED}.",
    "enable_auth_attempt_source_tracking": f"{_SOURCES}: failed logins are in the log, with their address.",
    "disable_auth_attempt_source_tracking": f"{_SOURCES}: there is nothing to disable.",
    "disable": f"{_BUILT_IN}: 'mirrormqctl list' shows them.",
    "set": f"{_BUILT_IN}: 'mirrormqctl list' shows them.",
    "directories": "Plugins are built in and have no directories: 'mirrormqctl list' shows them.",
    "update_cluster_nodes": "A node learns of new members from the members it knows, also after a restart.",
    "rename_cluster_node": (
        "A node's name cannot change: join a node with the new name, then 'forget_cluster_node' the old one."
    ),
    "grow": f"{_QUORUM}: a policy with ha-mode places the mirrors.",
    "shrink": f"{_QUORUM}: a policy with ha-mode places the mirrors.",
    "add_member": f"{_QUORUM}: a policy with ha-mode places the mirrors.",
    "delete_member": f"{_QUORUM}: a policy with ha-mode places the mirrors.",
    "quorum_status": f"{_QUORUM}: see 'mirrormqctl list_queues name slave_pids synchronised_slave_pids'.",
    "stream_status": f"{_QUORUM}.",
    "peek": f"{_QUORUM}: read a range of a queue without consuming it, see docs/ranges.md.",
    "reclaim_quorum_memory": f"{_QUORUM}.",
}
