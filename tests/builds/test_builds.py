"""The message core runs compiled if a current build exists, pure otherwise, and never a stale one."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import compile_core
import msgspec
import pytest

from mirrormq import builds
from tests.needs import COMPILER
from tests.waiting import until

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src"
COMPILE_S = 900
WHERE = (
    "import mirrormq.connections.scanner as m; from mirrormq import builds; "
    "print(builds.choice.name, m.__file__)"
)
SEEDS = 400


def run(*words: str, build: str = "", source: Path = SOURCE) -> subprocess.CompletedProcess[str]:
    environment = {key: value for key, value in os.environ.items() if key != "MIRRORMQ_BUILD"}
    environment |= {"PYTHONPATH": f"{source}{os.pathsep}{ROOT}"}
    if build:
        environment["MIRRORMQ_BUILD"] = build
    command = [sys.executable, *words]
    return subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def compiled() -> None:
    """Have a current compiled build."""
    if compile_core.compiler() is None or not compile_core.has_headers():
        pytest.skip(COMPILER)
    command = [sys.executable, str(ROOT / "compile_core.py"), "--required"]
    subprocess.run(command, check=True, timeout=COMPILE_S)


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """A build of two sources, with files of every compiled module."""
    (tmp_path / "one.py").write_text("a = 1\n")
    (tmp_path / "two.py").write_text("b = 2\n")
    folder = tmp_path / "_compiled"
    folder.mkdir()
    for name in (builds.GROUP, *builds.CORE_MODULES):
        builds.compiled_file(folder, name).write_bytes(b"")
    digest = builds.digest_of(["one.py", "two.py"], tmp_path)
    (folder / builds.DIGEST_FILE).write_text(f"{digest}\none.py\ntwo.py\n")
    return tmp_path


def test_a_build_is_current_until_a_source_changes(small: Path) -> None:
    folder = small / "_compiled"
    assert builds.problem_of(folder, small) is None
    (small / "two.py").write_text("b = 3\n")
    assert builds.problem_of(folder, small) == "a source has changed since it was compiled"
    (small / "two.py").write_text("b = 2\n")
    assert builds.problem_of(folder, small) is None
    (small / "one.py").unlink()
    assert builds.problem_of(folder, small) == "a source is missing"


def test_an_incomplete_build_does_not_run(small: Path) -> None:
    folder = small / "_compiled"
    builds.compiled_file(folder, "mirrormq.connections.scanner").unlink()
    assert builds.problem_of(folder, small) == "compiled for another Python, or other modules"
    (folder / builds.DIGEST_FILE).unlink()
    assert builds.problem_of(folder, small) == "not compiled"


def test_sources_cover_what_the_core_sees_of_other_modules() -> None:
    found = compile_core.sources()
    assert {name.replace(".", "/") + ".py" for name in builds.CORE_MODULES} <= set(found)
    # Types and constants of modules that are not compiled are compiled into those that are.
    assert {"mirrormq/limits.py", "mirrormq/broker/broker.py", "mirrormq/errors.py"} <= set(found)
    assert not [name for name in found if name.startswith(("mirrormq/runtime/app", "mirrormq/cli/"))]


def test_core_modules_exist_and_import_nothing_that_cannot_be_compiled() -> None:
    for name in sorted(builds.CORE_MODULES):
        tree = ast.parse((SOURCE / (name.replace(".", "/") + ".py")).read_text())
        for node in ast.walk(tree):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not {"msgspec", "asyncio"} & {one.split(".")[0] for one in names}, name


def test_the_core_compiles_where_no_requirement_is_installed(tmp_path: Path) -> None:
    """`pip install .` builds in an environment of its own, with the packages of requirements/compile.in."""
    (tmp_path / "msgspec").symlink_to(Path(msgspec.__file__).parent)
    files = [f"{name.replace('.', '/')}.py" for name in sorted(builds.CORE_MODULES)]
    options = [*compile_core.MYPY_OPTIONS, "--no-site-packages", f"--cache-dir={tmp_path}/cache"]
    command = [sys.executable, "-m", "mypy", *options, *files]
    environment = os.environ | {"MYPYPATH": str(tmp_path)}
    done = subprocess.run(command, cwd=SOURCE, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@pytest.mark.usefixtures("compiled")
def test_the_compiled_build_runs_unless_the_pure_one_is_demanded() -> None:
    name, file = run("-c", WHERE).stdout.split()
    assert name == "compiled" and "_compiled" in file
    name, file = run("-c", WHERE, build="pure").stdout.split()
    assert name == "pure" and file.endswith("scanner.py")


@pytest.mark.usefixtures("compiled")
def test_a_changed_source_is_never_run_in_its_old_form(tmp_path: Path) -> None:
    copy = tmp_path / "src"
    shutil.copytree(SOURCE / "mirrormq", copy / "mirrormq", ignore=shutil.ignore_patterns("__pycache__"))
    assert run("-c", WHERE, source=copy).stdout.startswith("compiled ")
    with (copy / "mirrormq" / "queues" / "message.py").open("a") as source:
        source.write("# changed\n")
    name, file = run("-c", WHERE, source=copy).stdout.split()
    assert name == "pure" and file.endswith("scanner.py")
    refused = run("-c", WHERE, source=copy, build="compiled")
    assert refused.returncode and "a source has changed since it was compiled" in refused.stderr
    assert "run make compile" in refused.stderr


def test_a_start_does_not_wait_for_the_compiler(tmp_path: Path) -> None:
    """Check `make up`'s first and second start with a core of one module."""
    if compile_core.compiler() is None or not compile_core.has_headers():
        pytest.skip(COMPILER)
    ignored = shutil.ignore_patterns("__pycache__", "_compiled", "web")
    shutil.copytree(SOURCE / "mirrormq", tmp_path / "src" / "mirrormq", ignore=ignored)
    shutil.copy(ROOT / "compile_core.py", tmp_path)
    table = tmp_path / "src" / "mirrormq" / "builds.py"
    shorter, count = re.subn(
        r"_BY_PACKAGE = \{.*?^\}", "_BY_PACKAGE = {}", table.read_text(), flags=re.M | re.S
    )
    assert count == 1
    table.write_text(shorter)

    def start() -> str:
        done = run(str(tmp_path / "compile_core.py"), "--background", source=tmp_path / "src")
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout

    folder = tmp_path / "src" / "mirrormq" / "_compiled"
    assert "runs pure until the next start" in start()
    assert not (folder / builds.DIGEST_FILE).exists(), "the compiler has just begun"
    log = tmp_path / "build" / "compile.log"
    until((folder / builds.DIGEST_FILE).exists, log.read_text, patience_s=COMPILE_S)
    assert start() == "", "nothing is left to do"


@pytest.mark.usefixtures("compiled")
def test_both_builds_make_the_same_of_random_streams() -> None:
    outcomes = [run("-m", "tests.hostile.oracle", str(SEEDS), build=build) for build in ("pure", "compiled")]
    assert [one.returncode for one in outcomes] == [0, 0], outcomes[1].stderr[-2000:]
    pure, compiled = (one.stdout.splitlines() for one in outcomes)
    assert len(pure) == SEEDS
    assert [pair for pair in zip(pure, compiled, strict=True) if pair[0] != pair[1]] == []
