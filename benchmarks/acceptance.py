"""`make acceptance`: the long trials, and a table with date, revision and result of each one's latest run.

The suite has a short version of every trial; here they run for minutes. A trial is a command: exit code 0 is
a pass. Each result is written as soon as it is known, so a run that is interrupted keeps what it has. The
program ends with 1 if a trial failed.

    python -m benchmarks.acceptance [--only chaos] [--only scale]
"""

from __future__ import annotations

import argparse
import os
import shlex
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.machine import revision, today

ROOT = Path(__file__).resolve().parent.parent
TABLE = Path(__file__).with_name("ACCEPTANCE.md")
SCRATCH = "SCRATCH"
"""Word in a command that stands for an empty directory of the trial's own."""
HEADINGS = ["trial", "date", "revision", "result", "minutes", "command"]
TEXT = """\
# Long trials

Written by `make acceptance`: the latest run of each trial. `make test` runs a short version of every one.
"""

PYTEST = "python -m pytest -q -n 2 --timeout 3600"


@dataclass(frozen=True)
class Trial:
    """One command, in the root of the repository."""

    name: str
    command: str
    variables: dict[str, str] = field(default_factory=dict)

    @property
    def shown(self) -> str:
        """The command as a shell takes it."""
        return " ".join([*(f"{name}={value}" for name, value in self.variables.items()), self.command])


TRIALS = (
    Trial("simulator", f"python -m mirrormq.simulator --seeds 1000 --jobs {os.cpu_count()}"),
    Trial("consensus", f"{PYTEST} tests/consensus/test_soak.py", {"SEEDS": "5000"}),
    Trial("replication", f"{PYTEST} tests/replication", {"SEEDS": "5000"}),
    Trial("crashes", f"{PYTEST} tests/broker/test_crashes.py", {"SEEDS": "50"}),
    Trial(
        "storms",
        f"{PYTEST} tests/mirrored/test_storms.py tests/dedup/test_storms.py tests/leases/test_storms.py",
        {"STORMS": "400"},
    ),
    Trial("backing", f"{PYTEST} tests/queues/test_backing_battery.py", {"EXAMPLES": "1000"}),
    Trial(
        "chaos",
        f"mirrormq chaos --nodes 3 --duration 600 --history {SCRATCH} "
        "--fault kill --fault freeze --fault restart --fault policy",
    ),
    Trial(
        "partitions",
        f"mirrormq chaos --nodes 3 --duration 600 --history {SCRATCH} --fault partition --fault kill",
    ),
    Trial("upgrade", f"{PYTEST} tests/upgrade", {"OLDER_REVISION": "45e97cd"}),
    Trial(
        "migration",
        "python -m pytest -q -s --timeout 3600 tests/migration_processes",
        {"MIGRATION_MESSAGES": "200000"},
    ),
    Trial("bridges", f"{PYTEST} tests/bridge_processes tests/tls/test_shovel_over_tls.py"),
    Trial(
        "proxies",
        "python -m pytest -q -s --timeout 3600 tests/cli/test_balancing.py tests/cli/test_virtual_address.py "
        "tests/cli/test_load_through_a_proxy.py",
    ),
    Trial("scale", "python -m benchmarks.scale"),
    Trial("audit", "python -m tests.spark.large measure --rows 1000000 5000000"),
    Trial("image", "python -m tests.deploy.image"),
    Trial("clients", f"{PYTEST} tests/clients", {"CLIENTS_AGAINST": "rabbitmq"}),
)


def run(trial: Trial, tried: str) -> list[str]:
    """Run one trial of a revision with its output on the terminal; returns its row of the table."""
    began_s = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="mirrormq-") as scratch:
        command = shlex.split(trial.command.replace(SCRATCH, scratch))
        # Programs of the environment that runs this one, whatever PATH says.
        program = str(Path(sys.executable).with_name(command[0]))
        variables = os.environ | trial.variables
        code = subprocess.run([program, *command[1:]], cwd=ROOT, env=variables, check=False).returncode
    minutes = (time.monotonic() - began_s) / 60
    result = "passed" if code == 0 else f"failed (exit code {code})"
    return [trial.name, today(), tried, result, f"{minutes:.1f}", f"`{trial.shown}`"]


def read_table(table: Path) -> dict[str, list[str]]:
    """Rows by trial; none where there is no table yet."""
    lines = table.read_text().splitlines() if table.exists() else []
    rows = [
        [cell.strip() for cell in line.strip("|").split(" | ")] for line in lines if line.startswith("| ")
    ]
    return {row[0]: row for row in rows[1:]}


def write_table(table: Path, rows: dict[str, list[str]], trials: tuple[Trial, ...]) -> None:
    """Replace the table; a trial that exists no more loses its row."""
    known = [rows[trial.name] for trial in trials if trial.name in rows]
    head = ["| " + " | ".join(HEADINGS) + " |", "|" + "---|" * len(HEADINGS)]
    body = ["| " + " | ".join(row) + " |" for row in known]
    table.write_text("\n".join([TEXT, *head, *body, ""]))


def accept(trials: tuple[Trial, ...], chosen: list[str], table: Path) -> bool:
    """Run the chosen trials, all if none is chosen; says whether all passed."""
    passed = True
    tried = revision()  # before the first result changes the table, which is a file of the revision
    for trial in trials:
        if chosen and trial.name not in chosen:
            continue
        print(f"== {trial.name}: {trial.shown}", flush=True)
        row = run(trial, tried)
        write_table(table, read_table(table) | {trial.name: row}, trials)
        print(f"== {trial.name}: {row[3]} after {row[4]} minutes", flush=True)
        passed = passed and row[3] == "passed"
    return passed


def main() -> None:
    parser = argparse.ArgumentParser(prog="make acceptance", description=__doc__)
    names = [trial.name for trial in TRIALS]
    parser.add_argument("--only", action="append", default=[], choices=names, help="repeat for several")
    sys.exit(0 if accept(TRIALS, parser.parse_args().only, TABLE) else 1)


if __name__ == "__main__":
    main()
