"""First boot of a node: default metadata of a new cluster, and ownership of the data directory."""

from __future__ import annotations

import os

from mirrormq.auth.passwords import DEFAULT_ALGORITHM, hash_password, salt_bytes
from mirrormq.config.secret_files import read_or_make_password
from mirrormq.config.settings import Settings
from mirrormq.errors import ConfigurationError
from mirrormq.events.event_exchange import EXCHANGE as EVENT_EXCHANGE
from mirrormq.metadata import commands, records
from mirrormq.metadata.cluster_name import naming_commands
from mirrormq.metadata.store import Defaults, MetadataStore


def check_name(settings: Settings) -> None:
    """Check that the data directory belongs to this node. It belongs to the first node name that used it."""
    path = settings.data_directory / "node"
    try:
        owner = path.read_text().strip()
    except FileNotFoundError:
        path.write_text(settings.name)
        return
    if owner != settings.name:
        raise ConfigurationError(
            f"The data in {settings.data_directory} belongs to node {owner}, not to {settings.name}. "
            "Start the node with --name, or give this one another data directory."
        )


def _default_password(settings: Settings) -> str:
    file = settings.default_pass_file
    return settings.default_pass if file is None else read_or_make_password(file)


def boot(store: MetadataStore, settings: Settings) -> None:
    """Create the default vhost, user, permissions, event exchange and name of a new cluster."""
    user = None
    if settings.default_user and not store.state.users:
        user = records.User(
            settings.default_user,
            hash_password(_default_password(settings).encode(), os.urandom(salt_bytes())),
            DEFAULT_ALGORITHM,
            list(settings.default_user_tags),
        )
    rights = settings.default_permissions
    store.boot(Defaults(user, settings.default_vhost, rights.configure, rights.write, rights.read))
    for command in naming_commands(store.state, settings.name, settings.cluster_name):
        store.write(command)
    if settings.default_vhost in store.state.vhosts:
        events = records.Exchange(settings.default_vhost, EVENT_EXCHANGE, "topic", True, False, True)
        if events.key not in store.state.exchanges:
            store.write(commands.PutExchange(events))
