"""Commands of `mirrormqctl` for shovels and federation."""

from __future__ import annotations

from mirrormq.cli.ctl_command import VHOST, CtlCommand

ALL = (
    CtlCommand("shovel_status", "Shovel", "Lists shovels with their state and its reason", "", (0, 0),
         "Shovel status on node {node}", example="shovel_status --formatter json"),
    CtlCommand("delete_shovel", "Shovel", "Deletes a dynamic shovel, in any state", f"{VHOST} <name>", (1, 1),
         "Deleting shovel {0} in vhost {vhost}", example="delete_shovel -p / my-shovel"),
    CtlCommand("restart_shovel", "Shovel", "Restarts a dynamic shovel", f"{VHOST} <name>", (1, 1),
         "Restarting dynamic Shovel {0} in virtual host {vhost} on node {node}",
         example="restart_shovel -p / my-shovel"),
)  # fmt: skip
