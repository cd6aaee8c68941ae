"""Compile the message core with mypyc: `make compile`, or `MIRRORMQ_COMPILE=1 pip install .`

The compiled modules go to `src/mirrormq/_compiled`, with a digest of their sources (`mirrormq.builds`).
Nothing happens if that build is current. Without a C compiler the broker runs pure, which is not an error.
If mypyc is not installed, its pinned version goes to a temporary folder while the core is compiled.

    python compile_core.py                 compile if the build is not current
    python compile_core.py --into FOLDER   compile into another folder, for a wheel
    python compile_core.py --background    return at once; the broker's next start finds the build
"""

from __future__ import annotations

import argparse
import ast
import fcntl
import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent
SOURCE = ROOT / "src"
sys.path.insert(0, str(SOURCE))

from mirrormq import builds  # noqa: E402

MYPY_OPTIONS = (
    "--config-file=", "--python-version=3.11", "--namespace-packages", "--explicit-package-bases",
    "--ignore-missing-imports",
)  # fmt: skip
"""Options of the type checker while it compiles; `make check` is the strict check."""


def compiler() -> str | None:
    """Return the path of the C compiler that extensions are built with; None if it is not installed."""
    configured = os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc"
    for command in (configured.split()[0], "cc", "gcc"):
        if found := shutil.which(command):
            return found
    return None


def has_headers() -> bool:
    """Return whether the interpreter's C headers are installed."""
    return Path(sysconfig.get_path("include"), "Python.h").exists()


def sources() -> list[str]:
    """Return the core modules and everything of ours that they import, types included, by file name."""
    found: set[str] = set()
    pending = sorted(builds.CORE_MODULES)
    while pending:
        name = pending.pop()
        file = SOURCE / (name.replace(".", "/") + ".py")
        if not file.exists():
            file = SOURCE / name.replace(".", "/") / "__init__.py"
        relative = file.relative_to(SOURCE).as_posix()
        if file.exists() and relative not in found:
            found.add(relative)
            pending += imported(file)
    return sorted(found)


def imported(file: Path) -> list[str]:
    """Return the names of ours that a file imports: modules, or names in a module."""
    names = []
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            names += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        elif isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
    return [name for name in names if name.split(".")[0] == "mirrormq"]


def compile_into(folder: Path) -> None:
    """Compile the core into a folder with the mypyc of this interpreter."""
    from mypyc.build import mypycify
    from setuptools import Distribution

    read = sources()
    digest = builds.digest_of(read, SOURCE)
    files = [name.replace(".", "/") + ".py" for name in sorted(builds.CORE_MODULES)]
    with tempfile.TemporaryDirectory(prefix="mirrormq-compile-") as scratch:
        os.chdir(SOURCE)
        extensions = mypycify(
            [*MYPY_OPTIONS, f"--cache-dir={scratch}/cache", *files],
            opt_level="2",
            debug_level="0",
            group_name=builds.GROUP.removesuffix("__mypyc"),
            target_dir=f"{scratch}/c",
        )
        command = Distribution({"name": "core", "ext_modules": extensions}).get_command_obj("build_ext")
        command.build_lib, command.build_temp = f"{scratch}/lib", f"{scratch}/temp"
        command.ensure_finalized()
        command.run()
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        for name in (builds.GROUP, *builds.CORE_MODULES):
            built = builds.compiled_file(Path(scratch, "lib", *name.split(".")[:-1]), name.split(".")[-1])
            shutil.copy(built, builds.compiled_file(folder, name))
    # Written last: a folder without it is no build.
    (folder / builds.DIGEST_FILE).write_text("\n".join([digest, *read, ""]))


def compile_elsewhere(folder: Path) -> int:
    """Compile in a process that finds the pinned mypyc in a temporary folder; return its exit code."""
    with tempfile.TemporaryDirectory(prefix="mirrormq-mypyc-") as tools:
        pip = [sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--target", tools]
        requirements = ["--require-hashes", "--no-deps", "-r", str(ROOT / "requirements" / "compile.txt")]
        done = subprocess.run([*pip, *requirements], check=False)
        if done.returncode:
            return done.returncode
        path = os.pathsep.join(filter(None, [tools, os.environ.get("PYTHONPATH")]))
        again = [sys.executable, __file__, "--into", str(folder)]
        return subprocess.run(again, env={**os.environ, "PYTHONPATH": path}, check=False).returncode


def compile_in_background(folder: Path) -> None:
    """Start a process that compiles, and return. It outlives the terminal and ends by itself."""
    log = ROOT / "build" / "compile.log"
    log.parent.mkdir(exist_ok=True)
    with log.open("w") as output:
        subprocess.Popen(
            ["nice", "-n", "19", sys.executable, __file__, "--into", str(folder)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    print(f"The message core runs pure until the next start: it is compiled in the background ({log}).")


def main() -> int:
    """Compile the core if that is possible and necessary."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--into", type=Path, metavar="FOLDER", help="write the compiled modules there")
    parser.add_argument("--background", action="store_true", help="compile in a process of its own")
    parser.add_argument("--required", action="store_true", help="fail if there is no C compiler")
    options = parser.parse_args()
    folder: Path = (options.into or builds.COMPILED).resolve()
    if builds.problem_of(folder, SOURCE) is None:
        return 0
    if compiler() is None or not has_headers():
        print(
            "The message core runs pure: no C compiler, or no Python headers, to compile it with "
            "(Debian: apt install gcc libc6-dev python3-dev).",
            file=sys.stderr,
        )
        return 1 if options.required else 0
    if options.background:
        compile_in_background(folder)
        return 0
    if importlib.util.find_spec("mypyc") is None:
        return compile_elsewhere(folder)
    with Path(__file__).open() as lock:
        # A second process would replace the files of the first one under a node that has begun to load them.
        fcntl.flock(lock, fcntl.LOCK_EX)
        if builds.problem_of(folder, SOURCE) is None:
            return 0
        print(f"compiling the message core, {len(builds.CORE_MODULES)} modules (about a minute)", flush=True)
        began_s = time.monotonic()
        compile_into(folder)
        print(f"compiled in {time.monotonic() - began_s:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
