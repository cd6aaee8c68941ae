"""Commands of RabbitMQ 3.13 that find mirroring policies, for operators who plan to stop using mirrored
queues."""

from __future__ import annotations

from typing import Any

from mirrormq.cli import invoke
from mirrormq.cli.command_line import CommandLine
from mirrormq.cli.ctl_command import CtlCommand
from mirrormq.cli.health_checks import failed, passed


def _mirroring_policies(line: CommandLine) -> list[dict[str, Any]]:
    vhosts = [str(row["name"]) for row in invoke.ask(line, "list_vhosts", [])]
    rows = [row for vhost in vhosts for row in invoke.ask(line, "list_policies", [], {"vhost": vhost})]
    return [row for row in rows if "ha-mode" in row["definition"]]


def list_mirroring(command: CtlCommand, line: CommandLine) -> int:
    """List the mirroring policies of all vhosts."""
    invoke.show_banner(command, line)
    invoke.show_rows(command, line, _mirroring_policies(line))
    return 0


def check_mirroring(command: CtlCommand, line: CommandLine) -> int:
    invoke.show_banner(command, line)
    found = _mirroring_policies(line)
    if not found:
        return passed(line, "Cluster reported no classic queue mirroring policies")
    return failed(line, "Cluster reported classic queue mirroring policies", policies=found)


PROGRAMS = {
    "list_policies_with_classic_queue_mirroring": list_mirroring,
    "check_if_cluster_has_classic_queue_mirroring_policy": check_mirroring,
}
