"""Record transcripts from a real RabbitMQ: `python -m tests.differential.record [NAME…]`.

Without names all scripts run, `--twice` style, as often as `--runs` says; a script whose transcripts differ
between runs is named and makes the exit code 1.
"""

from __future__ import annotations

import argparse
import difflib
import sys

import tests.differential.scripts  # noqa: F401 - registers the scripts
from tests.brokers.rabbitmq import VERSION, RabbitMQ
from tests.differential.judges import run_on_rabbitmq
from tests.differential.runner import SCRIPTS, write_recorded


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("names", nargs="*", help="scripts or subjects to record; all if none is given")
    options.add_argument("--runs", type=int, default=1, help="run this often and report scripts that differ")
    options.add_argument("--show", action="store_true", help="print the transcripts as well")
    chosen = options.parse_args()
    if not RabbitMQ.available():
        print(f"RabbitMQ {VERSION} is not installed, so there is nothing to record from.", file=sys.stderr)
        return 1
    scripts = [
        one for one in SCRIPTS.values() if not chosen.names or {one.name, one.subject} & set(chosen.names)
    ]
    first = run_on_rabbitmq(scripts)
    write_recorded(first)
    if chosen.show:
        for name, text in first.items():
            print(f"=== {name}\n{text}")
    unsteady = False
    for _ in range(chosen.runs - 1):
        for name, text in run_on_rabbitmq(scripts).items():
            if text != first[name]:
                unsteady = True
                print(f"--- {name} differs between runs")
                sys.stdout.writelines(
                    difflib.unified_diff(first[name].splitlines(True), text.splitlines(True))
                )
    print(f"{len(first)} scripts recorded")
    return int(unsteady)


if __name__ == "__main__":
    sys.exit(main())
