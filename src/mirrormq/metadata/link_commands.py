"""Link commands: how assignments of links to nodes change the metadata state.

The epoch of a link fences its holders. The leader proposes each assignment with the epoch that follows the
one it knows, so of two proposals for the same link one is refused. A node runs a link only while the record
names the node, its incarnation and the epoch that it started with.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from mirrormq.metadata import commands as c

if TYPE_CHECKING:
    from mirrormq.metadata.state import MetadataState


def assign_links(state: MetadataState, command: c.AssignLinks) -> None:
    """Adopt assignments whose epoch follows the present one, and drop those that are still in force."""
    for change in command.changes:
        link = change.record
        before = state.links.get(link.key)
        node = state.nodes.get(link.node)
        # Static shovels belong to no vhost. Links of other kinds end with their vhost.
        if link.vhost and link.vhost not in state.vhosts:
            continue
        if node is not None and node.incarnation != link.incarnation:
            continue
        if link.epoch == (0 if before is None else before.epoch) + 1:
            state.store(link)
    for key, epoch in command.dropped:
        present = state.links.get(key)
        if present is not None and present.epoch == epoch:
            state.remove(present)


def restart_link(state: MetadataState, command: c.RestartLink) -> None:
    """Begin the next epoch of a link on the same node."""
    link = state.links.get((command.vhost, command.kind, command.name))
    if link is not None:
        state.store(msgspec.structs.replace(link, epoch=link.epoch + 1))


def finish_link(state: MetadataState, command: c.FinishLink) -> None:
    """Delete a link with its parameter, if the epoch that finished it is still in force."""
    key = (command.vhost, command.kind, command.name)
    link = state.links.get(key)
    if link is None or link.epoch != command.epoch:
        return
    if parameter := state.parameters.get(key):
        state.remove(parameter)
    state.remove(link)
