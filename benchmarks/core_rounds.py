"""Interleaved rounds of the in-process benchmark, for one checkout or two, and instruction counts.

Each checkout has a process of its own that measures on demand (`benchmarks.core_path --serve`). The two take
turns, so that what disturbs the machine disturbs both. CPU time still varies by a factor of 1.7 on shared
cores: the verdict is "faster" or "slower" only if the ranges of all rounds lie apart. Instruction counts
hardly vary.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent.parent

WARM_UP_SHARE = 10
"""The first measurement of a process is a tenth as long and not counted."""

INSTRUCTIONS_SHARE = 20
"""Callgrind is some fifty times slower: a twentieth of the messages."""

ASK_BUILD = "from mirrormq.builds import choice; print(choice.description)"


def environment_of(directory: Path) -> dict[str, str]:
    """Return the environment of a process that imports a checkout."""
    search = os.pathsep.join((str(directory / "src"), str(directory)))
    return {**os.environ, "PYTHONPATH": search, "PYTHONHASHSEED": "0"}


def build_of(directory: Path) -> str:
    """Return the build of the message core that a checkout runs."""
    command = [sys.executable, "-c", ASK_BUILD]
    environment = environment_of(directory)
    done = subprocess.run(command, cwd=directory, env=environment, text=True, capture_output=True, check=True)
    return done.stdout.strip()


class Checkout:
    """A process that measures one checkout."""

    def __init__(self, directory: Path, wrapper: tuple[str, ...] = ()) -> None:
        own = directory / "benchmarks" / "core_path.py"
        script = own if own.exists() else HERE / "benchmarks" / "core_path.py"
        self.process = subprocess.Popen(
            [*wrapper, sys.executable, str(script), "--serve"], cwd=directory, text=True,
            env=environment_of(directory), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip

    def prepare(self, workload: str, count: int) -> None:
        """Have everything made that clients will send."""
        self._ask(f"{workload} {count}")

    def run(self) -> float:
        """CPU seconds of what was prepared."""
        return float(self._ask("run"))

    def measure(self, workload: str, count: int) -> float:
        """CPU microseconds per message."""
        self.prepare(workload, count)
        return self.run() / count * 1e6

    def _ask(self, command: str) -> str:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(f"{command}\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            raise SystemExit(f"the measuring process ended with {self.process.wait()}")
        return answer

    def close(self) -> None:
        """Let the process end and remove its journal."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def run(counts: dict[str, int], base: str | None, rounds: int, *, instructions: bool) -> None:
    """Measure this checkout, and the one in `base` beside it."""
    directories = [HERE] if base is None else [Path(base).resolve(), HERE]
    for directory in directories:
        print(f"message core of {directory}: {build_of(directory)}", flush=True)
    if instructions:
        show_instructions(counts, directories)
    else:
        show_rounds(counts, directories, rounds)


def show_rounds(counts: dict[str, int], directories: list[Path], rounds: int) -> None:
    """Print median and range of each workload."""
    checkouts = [Checkout(directory) for directory in directories]
    try:
        for workload, count in counts.items():
            found: list[list[float]] = [[] for _ in checkouts]
            for checkout in checkouts:
                checkout.measure(workload, max(1, count // WARM_UP_SHARE))
            for number in range(rounds):
                order = list(zip(checkouts, found, strict=True))
                for checkout, figures in order[:: 1 if number % 2 else -1]:
                    figures.append(checkout.measure(workload, count))
            print(comparison(workload, found), flush=True)
    finally:
        for checkout in checkouts:
            checkout.close()


def comparison(workload: str, found: list[list[float]]) -> str:
    """One line: base, this checkout, their ratio and the verdict."""
    texts = [f"{statistics.median(one):6.2f} ({min(one):.2f}-{max(one):.2f})" for one in found]
    if len(found) == 1:
        return f"{workload}  {texts[0]} µs"
    base, own = found
    verdict = "ranges overlap"
    if max(own) < min(base):
        verdict = "faster"
    elif min(own) > max(base):
        verdict = "slower"
    ratio = statistics.median(base) / statistics.median(own)
    return f"{workload}  base {texts[0]}  here {texts[1]} µs  base/here {ratio:.2f}  {verdict}"


# -- instructions -----------------------------------------------------------------------------------


class Instructions:
    """A measuring process under callgrind, which counts only while a workload runs."""

    def __init__(self, directory: Path, reports: Path) -> None:
        self._reports = reports
        self._dumps = 0
        options = ("--tool=callgrind", "--instr-atstart=no", f"--callgrind-out-file={reports}/out")
        self.checkout = Checkout(directory, ("valgrind", "-q", *options))

    def count(self, workload: str, count: int) -> int:
        """Instructions of so many messages."""
        self.checkout.prepare(workload, count)
        self._control("--instr=on")
        self.checkout.run()
        self._control("--dump")
        self._control("--instr=off")
        self._dumps += 1
        report = (self._reports / f"out.{self._dumps}").read_text()
        return int(report.rpartition("totals:")[2].split()[0])

    def _control(self, command: str) -> None:
        process = str(self.checkout.process.pid)
        subprocess.run(["callgrind_control", command, process], check=True, capture_output=True)


def show_instructions(counts: dict[str, int], directories: list[Path]) -> None:
    """Print instructions per message: those of a run with twice as many messages, less those of the run."""
    if shutil.which("callgrind_control") is None:
        raise SystemExit("callgrind is missing (Debian: apt install valgrind)")
    with tempfile.TemporaryDirectory() as reports:
        counting = []
        for number, directory in enumerate(directories):
            (Path(reports) / str(number)).mkdir()
            counting.append(Instructions(directory, Path(reports) / str(number)))
        try:
            for workload, usual in counts.items():
                print(instructions_of(workload, max(1, usual // INSTRUCTIONS_SHARE), counting), flush=True)
        finally:
            for one in counting:
                one.checkout.close()


def instructions_of(workload: str, count: int, counting: list[Instructions]) -> str:
    """One line: instructions per message of each checkout."""
    figures = [(one.count(workload, 2 * count) - one.count(workload, count)) / count for one in counting]
    text = "  ".join(f"{figure:9.0f}" for figure in figures)
    ratio = f"  base/here {figures[0] / figures[1]:.2f}" if len(figures) > 1 else ""
    return f"{workload}  {text} instructions per message{ratio}"
