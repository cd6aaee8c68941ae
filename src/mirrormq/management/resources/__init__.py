"""The API's resources, one file each. `ROUTES` is all of them."""

from __future__ import annotations

from mirrormq.management.resources import (
    auth_attempts,
    bindings,
    channels,
    connections,
    consumers,
    control,
    definitions,
    exchanges,
    health,
    jobs,
    leases,
    limits,
    matching,
    nodes,
    overview,
    parameters,
    permissions,
    policies,
    queues,
    reset,
    session,
    timeline,
    topic_permissions,
    users,
    vhosts,
)

_MODULES = (
    auth_attempts, bindings, channels, connections, consumers, control, definitions, exchanges, health, jobs,
    leases, limits, matching, nodes, overview, parameters, permissions, policies, queues, reset, session,
    timeline, topic_permissions, users, vhosts,
)  # fmt: skip

ROUTES = [route for module in _MODULES for route in module.ROUTES]
