"""Verbs of RabbitMQ's tools that have nothing behind them here, and a sentence that says so.

They are known, so that nobody has to wonder whether the name is mistyped; they end with 69.
"""

from __future__ import annotations

_ERLANG = "There is no Erlang in a MirrorMQ node"
_QUORUM = "MirrorMQ has mirrored queues and no quorum queues or streams"
_ENCRYPTED = "MirrorMQ's configuration has no encrypted values: keep secrets in files of the node's user"
_BUILT_IN = "What RabbitMQ has as plugins is built in and cannot be switched off"
_SOURCES = "Where logins come from is not tracked"

REFUSED = {
    "eval": f"{_ERLANG}, so it cannot evaluate any: use the verbs, or the HTTP API.",
    "eval_file": f"{_ERLANG}, so it cannot evaluate any: use the verbs, or the HTTP API.",
    "exec": "There is no Elixir in mirrormqctl: use the verbs, or the HTTP API.",
    "remote_shell": f"{_ERLANG}, so it has no shell: use the verbs, or the HTTP API.",
    "observer": f"{_ERLANG} to observe: 'mirrormq top' shows a cluster at work.",
    "force_gc": f"{_ERLANG}; what is not needed is freed at once, and nothing has to be collected by hand.",
    "hipe_compile": f"{_ERLANG} to compile.",
    "runtime_thread_stats": f"{_ERLANG}, and one thread does the work: 'mirrormq top' shows what it does.",
    "maybe_stuck": f"{_ERLANG} whose processes could be stuck: see 'mirrormqctl list_unresponsive_queues'.",
    "erlang_version": f"{_ERLANG}: 'mirrormqctl status' names the versions of what is there.",
    "erlang_cookie_hash": f"{_ERLANG}: the cluster's cookie is in the file that 'cookie_file' names.",
    "erlang_cookie_sources": f"{_ERLANG}: the control socket needs no cookie, only its owner can open it.",
    "schema_info": "MirrorMQ has no Mnesia tables: 'mirrormqctl export_definitions' shows what is declared.",
    "resolver_info": "Names are resolved by the operating system: see its /etc/hosts and /etc/resolv.conf.",
    "list_network_interfaces": "Interfaces are the operating system's: 'ip address' shows them.",
    "encode": f"{_ENCRYPTED}.",
    "decode": f"{_ENCRYPTED}.",
    "list_ciphers": f"{_ENCRYPTED}.",
    "list_hashes": f"{_ENCRYPTED}.",
    "enable_auth_attempt_source_tracking": f"{_SOURCES}: failed ones are in the log, with their address.",
    "disable_auth_attempt_source_tracking": f"{_SOURCES}: there is nothing to switch off.",
    "disable": f"{_BUILT_IN}: 'mirrormqctl list' shows it.",
    "set": f"{_BUILT_IN}: 'mirrormqctl list' shows it.",
    "directories": "There are no plugins and no directories of them: 'mirrormqctl list' shows all.",
    "update_cluster_nodes": "A node hears of new members from those it knows, also after it was away.",
    "rename_cluster_node": (
        "A node's name is for life: let one with the new name join, then 'forget_cluster_node' the old one."
    ),
    "grow": f"{_QUORUM}: a policy with ha-mode says where mirrors are.",
    "shrink": f"{_QUORUM}: a policy with ha-mode says where mirrors are.",
    "add_member": f"{_QUORUM}: a policy with ha-mode says where mirrors are.",
    "delete_member": f"{_QUORUM}: a policy with ha-mode says where mirrors are.",
    "quorum_status": f"{_QUORUM}: see 'mirrormqctl list_queues name slave_pids synchronised_slave_pids'.",
    "stream_status": f"{_QUORUM}.",
    "peek": f"{_QUORUM}: a range of a queue can be read without taking it, see docs/ranges.md.",
    "reclaim_quorum_memory": f"{_QUORUM}.",
}
