"""Survey of both clusters: `mirrormq migrate plan` asks, and writes the plan."""

from __future__ import annotations

import secrets
from typing import NamedTuple

from mirrormq.migration.definition_sets import select
from mirrormq.migration.migration_records import Plan, Proxy
from mirrormq.migration.proxy_steps import ProxyReplyError, backend_of
from mirrormq.migration.survey_findings import NewCluster, OldCluster, survey
from mirrormq.migration_io.broker_api import NOT_FOUND, ApiRefused, BrokerApi, MigrationError
from mirrormq.migration_io.haproxy_socket import HaproxySocket
from mirrormq.migration_io.migration_directory import now_text
from mirrormq.migration_io.queue_counts import check_login

PREVIEW = "mirrormq/definitions-preview?convert=quorum%3Dmirrored"


class Addresses(NamedTuple):
    """Addresses of both clusters."""

    old_api: list[str]
    old_amqp: list[str]
    new_api: list[str]
    new_amqp: list[str]


class ProxyOptions(NamedTuple):
    """HAProxy's socket and the names of its backends."""

    socket: str
    consumers: str
    producers: str


def make_plan(
    addresses: Addresses, vhosts: list[str], accepted: list[str], proxy: ProxyOptions | None
) -> Plan:
    """Ask both clusters and the proxy; return the plan with all findings."""
    old, new = BrokerApi("old", addresses.old_api), BrokerApi("new", addresses.new_api)
    old_cluster = OldCluster(
        old.get("overview"), old.get("definitions"), old.get("queues"), old.get("connections")
    )
    present = new.get("definitions")
    unknown = set(vhosts) - {vhost["name"] for vhost in old_cluster.definitions["vhosts"]}
    if unknown:
        raise MigrationError(f"the old cluster has no vhost '{min(unknown)}': correct --vhost")
    kept = [new.user] if any(user["name"] == new.user for user in present["users"]) else []
    selection = select(old_cluster.definitions, vhosts, kept)
    try:
        preview = new.post(PREVIEW, selection.document)
    except ApiRefused as error:
        if error.status != NOT_FOUND:
            raise
        raise MigrationError(
            "the new cluster is not a MirrorMQ cluster: name one of its nodes with --to"
        ) from None
    check_login("old", addresses.old_amqp)
    check_login("new", addresses.new_amqp)
    if vhosts:
        listed = [row for row in old_cluster.queues if row["vhost"] in vhosts]
        old_cluster = old_cluster._replace(queues=listed)
    findings = survey(old_cluster, NewCluster(present, preview, new.user), selection)
    return Plan(secrets.token_hex(4), now_text(), *addresses, vhosts, kept, findings, accepted, _proxy(proxy))


def _proxy(options: ProxyOptions | None) -> Proxy | None:
    if options is None:
        return None
    try:
        servers = HaproxySocket(options.socket).servers()
        return Proxy(
            options.socket, backend_of(servers, options.consumers), backend_of(servers, options.producers)
        )
    except ProxyReplyError as error:
        raise MigrationError(str(error)) from None
