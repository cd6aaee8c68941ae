"""Versions of the cluster protocol: everything that nodes send each other, and the metadata commands.

A node works with peers of its own version and of the one before, so a cluster is upgraded node by node. New
metadata commands wait until every member has the version that introduced them (`metadata.command_versions`).
Fields are only ever added at the end of a message or record, with a default: older nodes ignore them.

    1    up to the append operation with one publish payload; works with no later version
    2    append operations with a publish payload for each message
    3    links to other brokers: a node of version 2 accepts AssignLinks and does not run the link. Links
         without a vhost, and the names of static shovels in the record of a node. Log indexes in the
         records of queues. EndWrite; a full record of producers refuses new ones
"""

from __future__ import annotations

PROTOCOL_VERSION = 3
"""Version of this program. Grows when nodes of the version before would misunderstand this one."""

PROTOCOL_VERSION_OLDEST = 2
"""Oldest version that this program works with."""
