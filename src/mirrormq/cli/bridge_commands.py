"""Commands of `mirrormqctl` for shovels and federation."""

from __future__ import annotations

from mirrormq.cli.ctl_command import VHOST, CtlCommand

ALL = (
    CtlCommand("shovel_status", "Shovel", "Lists shovels with their state and its reason", "", (0, 0),
         "Shovel status on node {node}", example="shovel_status --formatter json"),
    CtlCommand("delete_shovel", "Shovel", "Deletes a dynamic shovel, in any state", f"{VHOST} <name>", (1, 1),
         "Deleting shovel {0} in vhost {vhost}", example="delete_shovel -p / my-shovel"),
    CtlCommand("restart_shovel", "Shovel", "Restarts a dynamic or static shovel", f"{VHOST} <name>", (1, 1),
         "Restarting dynamic Shovel {0} in virtual host {vhost} on node {node}",
         example="restart_shovel -p / my-shovel"),
    CtlCommand("federation_status", "Federation", "Lists federation links with their status and its reason",
         "[--only-down]", (0, 0), "Listing federation links {which_links}on node {node}...",
         options=("only-down",), example="federation_status --only-down"),
    CtlCommand("restart_federation_link", "Federation", "Restarts a federation link",
         "<id>", (1, 1), "Restarting federation link {0} on node {node}",
         example="restart_federation_link e2c575e3"),
)  # fmt: skip
