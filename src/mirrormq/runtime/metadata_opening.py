"""The metadata of a starting node: its log is read, and a new node founds a cluster of its own."""

from __future__ import annotations

import os
import random

from mirrormq.auth.passwords import DEFAULT_ALGORITHM, hash_password, salt_bytes
from mirrormq.broker.events import EXCHANGE as EVENT_EXCHANGE
from mirrormq.cluster.founding import new_cluster
from mirrormq.cluster.member import Member
from mirrormq.config.settings import Settings
from mirrormq.consensus import Automatic
from mirrormq.errors import ConfigurationError
from mirrormq.metadata import commands, records
from mirrormq.metadata.store import Defaults, MetadataStore
from mirrormq.storage.consensus_log import ConsensusLog


def open_member(log: ConsensusLog, settings: Settings) -> Member:
    """The node's part in its cluster, of which it may be all. Raises DamageError if the log is no use."""
    log.open(lambda: new_cluster(settings.name, random.SystemRandom().randrange))
    member = Member(settings.name, log, Automatic(), random.randrange)
    voters = member.consensus.members.voters
    if not member.joined and len(voters) == 1:
        raise ConfigurationError(
            f"The data in {settings.data_directory} belongs to node {voters[0]}, not to {settings.name}. "
            "Start the node with --name, or give this one a directory of its own."
        )
    if member.joined and len(voters) == 1:
        boot(member.metadata, settings)
    return member


def boot(store: MetadataStore, settings: Settings) -> None:
    """What the first node of a cluster does when it starts."""
    user = None
    if settings.default_user and not store.state.users:
        user = records.User(
            settings.default_user,
            hash_password(settings.default_pass.encode(), os.urandom(salt_bytes())),
            DEFAULT_ALGORITHM,
            list(settings.default_user_tags),
        )
    rights = settings.default_permissions
    store.boot(Defaults(user, settings.default_vhost, rights.configure, rights.write, rights.read))
    if settings.default_vhost in store.state.vhosts:
        events = records.Exchange(settings.default_vhost, EVENT_EXCHANGE, "topic", True, False, True)
        if events.key not in store.state.exchanges:
            store.write(commands.PutExchange(events))
