"""Which policies mirror queues: RabbitMQ 3.13's verbs for those who mean to leave mirrored queues."""

from __future__ import annotations

from typing import Any

from mirrormq.cli import asking
from mirrormq.cli.health import failed, passed
from mirrormq.cli.line import Line
from mirrormq.cli.verb import Verb


def _mirroring_policies(line: Line) -> list[dict[str, Any]]:
    vhosts = [str(row["name"]) for row in asking.ask(line, "list_vhosts", [])]
    rows = [row for vhost in vhosts for row in asking.ask(line, "list_policies", [], {"vhost": vhost})]
    return [row for row in rows if "ha-mode" in row["definition"]]


def list_mirroring(verb: Verb, line: Line) -> int:
    """Of all vhosts; whoever leaves mirrored queues behind looks for these."""
    asking.show_banner(verb, line)
    asking.show_rows(verb, line, _mirroring_policies(line))
    return 0


def check_mirroring(verb: Verb, line: Line) -> int:
    asking.show_banner(verb, line)
    found = _mirroring_policies(line)
    if not found:
        return passed(line, "Cluster reported no classic queue mirroring policies")
    return failed(line, "Cluster reported classic queue mirroring policies", policies=found)


PROGRAMS = {
    "list_policies_with_classic_queue_mirroring": list_mirroring,
    "check_if_cluster_has_classic_queue_mirroring_policy": check_mirroring,
}
