"""Table of the commands of rabbitmq-plugins, and RabbitMQ plugins whose functions are built in."""

from __future__ import annotations

from mirrormq.cli.ctl_command import UNLIMITED, CtlCommand

GROUP = "Plugins"
BUILT_IN = (
    "rabbitmq_auth_mechanism_ssl",
    "rabbitmq_consistent_hash_exchange",
    "rabbitmq_event_exchange",
    "rabbitmq_management",
    "rabbitmq_management_agent",
    "rabbitmq_prometheus",
    "rabbitmq_random_exchange",
    "rabbitmq_recent_history_exchange",
    "rabbitmq_sharding",
    "rabbitmq_web_dispatch",
)
"""Plugins whose functions are built in; of rabbitmq_sharding only the exchange type x-modulus-hash."""
NEEDED_BY_OTHERS = frozenset({"rabbitmq_management_agent", "rabbitmq_web_dispatch"})
"""Plugins that RabbitMQ enables implicitly, as dependencies of others."""
WHERE = ("offline", "online")

ALL = (
    CtlCommand("list", GROUP, "Lists the RabbitMQ plugins that are built in",
         "[pattern] [--verbose] [--minimal] [--enabled] [--implicitly-enabled]", (0, 1),
         options=("verbose", "minimal", "enabled", "implicitly-enabled", "if-empty"),
         example="list --minimal hash"),
    CtlCommand("is_enabled", GROUP, "Fails unless all of these plugins are built in",
         "<plugin1> [ <plugin2>] [--offline] [--online]", (1, UNLIMITED), options=WHERE,
         example="is_enabled rabbitmq_management"),
    CtlCommand("enable", GROUP, "Succeeds if these plugins are built in",
         "<plugin1> [ <plugin2>] | --all [--offline] [--online]", (0, UNLIMITED),
         "Enabling plugins on node {node}:", options=(*WHERE, "all"), example="enable rabbitmq_management"),
)  # fmt: skip
"""Commands of rabbitmq-plugins. `-e` is parsed as --if-empty of other commands; here it means
--implicitly-enabled."""
