"""The style of the tree as a test: who may import whom, what must stay pure, sizes that may only shrink.

The tables below are the rules. A change that needs another import says so here, where a reviewer sees
it; a file or function that grew past its limit is split, not added to the table of exceptions.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.import_cycles import import_cycles

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "mirrormq"

LEAVES = {"errors", "limits", "clock", "protocol_version", "builds", "uri_passwords"}
"""Modules of a few definitions that everybody may use and that use nobody."""

MAY_IMPORT: dict[str, set[str]] = {
    "wire": set(),
    "sequences": set(),
    "ranges": {"wire", "sequences"},
    "auth": {"wire", "metadata"},
    "metadata": {"wire", "auth", "ranges", "sequences"},
    "exchanges": {"wire"},
    "queues": {"wire", "ranges", "sequences"},
    "replication": {
        "wire", "queues", "metadata", "ranges", "sequences", "remote", "storage", "events",
    },
    "remote": {"wire", "peers", "queues", "ranges", "sequences"},
    "consensus": set(),
    "peers": set(),
    "cluster": {
        "bridges", "consensus", "events", "metadata", "queues", "replication", "sequences", "storage", "wire",
    },
    "config": set(),
    # Its one door to the outside is the Disk it is given, so the broker may hold a journal and stay pure.
    "storage": {"wire", "queues", "consensus", "sequences"},
    "events": {"wire", "auth", "metadata", "queues", "storage"},
    "leases": {
        "wire", "auth", "metadata", "queues", "ranges", "remote", "replication", "storage", "sequences",
    },
    "broker": {
        "wire", "auth", "metadata", "exchanges", "queues", "storage", "config", "replication", "remote",
        "cluster", "ranges", "sequences", "events", "leases",
    },
    "channels": {
        "wire", "auth", "metadata", "exchanges", "queues", "replication", "broker", "ranges", "sequences",
    },
    "connections": {"wire", "auth", "metadata", "queues", "channels", "broker", "config", "events"},
    "control": {
        "wire", "auth", "metadata", "exchanges", "queues", "broker", "channels", "connections", "config",
        "cluster", "ranges", "bridges", "leases", "replication",
    },
    "management": {
        "wire", "auth", "metadata", "exchanges", "queues", "storage", "events", "broker", "channels",
        "connections", "control", "config", "ranges", "leases", "bridges", "replication",
    },
    "runtime": {
        "wire", "auth", "metadata", "exchanges", "queues", "storage", "broker", "channels", "connections",
        "control", "management", "config", "peers", "consensus", "cluster", "remote", "replication",
        "bridges", "client", "client_io", "events",
    },
    "client": {"wire"},
    "client_io": {"bridges", "client", "wire"},
    "bridges": {"wire", "client", "config", "metadata", "exchanges"},
    "perf": {"wire", "client", "client_io"},
    "testing": {"config", "cli"},
    "chaos": {"wire", "client", "client_io", "history", "testing"},
    # Its client of range requests is the Spark client's, which needs no Spark.
    "arrow": {"ranges", "sequences", "spark"},
    "backup": {"metadata", "ranges", "sequences", "spark", "wire"},
    "cli": {
        "backup", "migration", "migration_io", "wire", "config", "control", "runtime", "perf", "chaos",
        "testing", "spark",
    },
    "migration": {"bridges", "client", "queues", "wire"},
    "migration_io": {"backup", "bridges", "client", "client_io", "migration", "ranges", "spark", "wire"},
    "history": set(),
    "simulator": {
        "bridges",
        "auth", "wire", "metadata", "queues", "storage", "replication", "consensus", "cluster", "remote",
        "broker", "channels", "connections", "config", "peers", "ranges", "client", "sequences",
    },
    "spark": {"wire", "client", "client_io", "perf", "history", "ranges", "sequences"},
}  # fmt: skip
"""Package → the packages it may import, for type checkers only included."""

PURE = (
    "wire", "connections", "channels", "exchanges", "queues", "replication", "remote", "consensus",
    "peers", "cluster", "metadata", "auth", "broker", "ranges", "client", "bridges", "sequences",
    "events", "leases", "migration",
)  # fmt: skip
OUTSIDE = {
    "aiohttp", "asyncio", "concurrent", "logging", "multiprocessing", "os", "pathlib",
    "queue", "random", "secrets", "select", "selectors", "shutil", "signal", "socket", "ssl",
    "subprocess", "tempfile", "threading", "time", "uuid", "uvloop",
}  # fmt: skip
"""Modules that a pure package never imports: clocks, randomness, files, sockets, threads, logs."""

OUTSIDE_CALLS = {"open", "print", "input", "datetime.now", "datetime.utcnow", "date.today"}

FILE_LINES_MAX = 400
CLASS_FILE_LINES_MAX = 600
"""Of a file that is one class."""

FUNCTION_LINES_MAX = 50

LONG_FILES: dict[str, int] = {"tests/differential/scripts/routing.py": 403}
"""Files over the limit and their size now. May only shrink; a file that fits again leaves the table."""

LONG_FUNCTIONS: dict[str, int] = {}
"""Functions over the limit and their size now, as path:name. May only shrink."""

REPLACED_CONSTANTS: dict[str, int] = {
    "tests/mirrored/test_repairs.py": 1, "tests/spark/test_jobs.py": 1,
    "tests/spark_client/test_many_queues.py": 1,
    "tests/wakeups/test_wakeups.py": 1, "tests/wire/test_large.py": 2,
}  # fmt: skip
"""Tests that replace a constant of a module while they run, and how many. May only shrink: a limit that a
test or the simulator changes is a field of a frozen value, handed in at construction (decision 0117)."""

GENERATED = {"src/mirrormq/wire/methods.py"}
"""Files that a program writes; the limits do not apply."""

FORBIDDEN_TEXT = {
    "a package registry's host": re.compile(r"(files\.pythonhosted|pypi|npmjs|yarnpkg)\.(org|com)"),
    "a path of one machine": re.compile(r"(?<![\w.~}$-])/(work|root|home/\w+)/"),
}


@cache
def tracked_files() -> tuple[Path, ...]:
    """Return the files of the repository, new ones included."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        names = subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout.decode().split("\0")
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("not a git checkout: git clone it, or git init and git add", allow_module_level=True)
    return tuple(path for name in names if name and (path := ROOT / name).is_file())


def python_files() -> list[Path]:
    return [path for path in tracked_files() if path.suffix == ".py"]


def source_files() -> list[Path]:
    return sorted(SOURCE.rglob("*.py"))


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(), str(path))


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def running_nodes(tree: ast.AST) -> Iterator[ast.AST]:
    """Every node except what stands under `if TYPE_CHECKING`."""
    for child in ast.iter_child_nodes(tree):
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            for other in child.orelse:
                yield other
                yield from running_nodes(other)
            continue
        yield child
        yield from running_nodes(child)


def imports(path: Path, *, types: bool = False) -> Iterator[tuple[int, str]]:
    """Line and full dotted name of everything a file imports when it runs; with `types`, also of imports
    for type checkers only."""
    for node in ast.walk(parsed(path)) if types else running_nodes(parsed(path)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                yield node.lineno, f"{node.module}.{alias.name}"


def calls(path: Path) -> Iterator[tuple[int, str]]:
    """Line and name of everything a file calls by a dotted name."""
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name | ast.Attribute):
            yield node.lineno, ast.unparse(node.func)


def package_of(path: Path) -> str:
    """The part directly under mirrormq that a file belongs to."""
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def test_packages_import_only_what_the_table_allows() -> None:
    wrong = []
    for path in source_files():
        package = package_of(path)
        if package in LEAVES | {"__init__"} or path.name == "__main__.py":
            continue
        allowed = MAY_IMPORT.get(package, set()) | LEAVES | {package, "__version__"}
        for line, name in imports(path, types=True):
            parts = name.split(".")
            if parts[0] == "mirrormq" and parts[1] not in allowed:
                wrong.append(f"{name_of(path)}:{line} imports {name}")
    assert not wrong, "\n".join(wrong)


def imported_modules() -> dict[str, set[str]]:
    """Return for each module of ours the modules of ours that it imports, for type checkers only included."""
    paths = {".".join(path.relative_to(SOURCE.parent).with_suffix("").parts): path for path in source_files()}
    graph: dict[str, set[str]] = {}
    for module, path in paths.items():
        names = [name for _, name in imports(path, types=True)]
        found = {name if name in paths else name.rpartition(".")[0] for name in names}
        graph[module] = (found & paths.keys()) - {module}
    return graph


def test_no_import_cycle_crosses_packages() -> None:
    crossing = [
        sorted(cycle)
        for cycle in import_cycles(imported_modules())
        if len({module.split(".")[1] for module in cycle}) > 1
    ]
    assert not crossing, crossing


def test_a_cycle_across_packages_is_found() -> None:
    graph = {"m.a.x": {"m.b.y"}, "m.b.y": {"m.c.z", "m.d"}, "m.c.z": {"m.a.x"}, "m.d": set[str]()}
    assert import_cycles(graph) == [{"m.a.x", "m.b.y", "m.c.z"}]


def test_every_package_is_in_the_table() -> None:
    packages = {path.parent.name for path in SOURCE.glob("*/__init__.py")}
    assert packages <= MAY_IMPORT.keys()


def test_leaves_import_nothing_of_ours() -> None:
    for leaf in LEAVES:
        path = SOURCE / f"{leaf}.py"
        if path.exists():
            assert not [name for _, name in imports(path) if name.startswith("mirrormq")], leaf


def test_pure_packages_do_not_touch_the_outside() -> None:
    wrong = []
    for path in source_files():
        if package_of(path) in PURE:
            for line, name in imports(path):
                if name.split(".")[0] in OUTSIDE:
                    wrong.append(f"{name_of(path)}:{line} imports {name}")
            wrong += [
                f"{name_of(path)}:{line} calls {name}" for line, name in calls(path) if name in OUTSIDE_CALLS
            ]
    assert not wrong, "\n".join(wrong)


def test_only_the_runtime_has_an_event_loop() -> None:
    may = {"runtime", "client_io", "management", "migration_io", "testing", "cli"}
    wrong = [
        f"{name_of(path)}:{line} imports {name}"
        for path in source_files()
        if package_of(path) not in may
        for line, name in imports(path)
        if name.split(".")[0] in ("asyncio", "uvloop")
    ]
    assert not wrong, "\n".join(wrong)


def long_files() -> dict[str, int]:
    sizes = {path: len(path.read_text().splitlines()) for path in python_files()}
    return {
        name_of(path): size
        for path, size in sizes.items()
        if size > (CLASS_FILE_LINES_MAX if is_one_class(path, size) else FILE_LINES_MAX)
        if name_of(path) not in GENERATED
    }


def is_one_class(path: Path, size: int) -> bool:
    """Whether one class is most of a file's code, its essay apart: to cut it in two would cut one idea."""
    body = parsed(path).body
    code_lines = size - (body[0].end_lineno or 0) if body else 0
    classes = [node for node in body if isinstance(node, ast.ClassDef)]
    return any(((node.end_lineno or 0) - node.lineno) * 3 > code_lines * 2 for node in classes)


def long_functions() -> dict[str, int]:
    found = {}
    for path in python_files():
        if name_of(path) in GENERATED:
            continue
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                size = (node.end_lineno or node.lineno) - node.lineno + 1
                if size > FUNCTION_LINES_MAX:
                    found[f"{name_of(path)}:{node.name}"] = size
    return found


def replaced_constants() -> dict[str, int]:
    """Return for each file the calls that assign to a constant of a module from outside."""
    setters = re.compile(r"(^|\.)(setattr|patch\.object|delattr)$")
    constant = re.compile(r"(^|\.)[A-Z][A-Z0-9]*(_[A-Z0-9]+)*$")
    found: dict[str, int] = {}
    for path in python_files():
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.Call) and setters.search(ast.unparse(node.func)):
                names = [argument.value for argument in node.args[:2] if isinstance(argument, ast.Constant)]
                computed = [ast.unparse(argument) for argument in node.args[:2]] == ["module", "name"]
                if computed or any(isinstance(name, str) and constant.search(name) for name in names):
                    found[name_of(path)] = found.get(name_of(path), 0) + 1
    return found


def test_nothing_decides_by_the_text_of_an_error() -> None:
    text = r"(str\(\w*(error|failure|exception|refused)\)|\w\.(text|explanation)\b)"
    after = rf"{text}( (==|!=|in|not in) |\.(starts|ends)with\()"
    by_text = re.compile(rf"(==|!=) [\w.]*{text}|\bin (\([^()]*)?[\w.]*{text}|{after}")
    wrong = [
        f"{name_of(path)}:{number} {line.strip()}"
        for path in source_files()
        if path.name != "restore_run.py"  # nodes of an older version send no reason
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if by_text.search(line) and not line.strip().startswith("for ")
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    ("found", "table"),
    [
        (long_files, LONG_FILES),
        (long_functions, LONG_FUNCTIONS),
        (replaced_constants, REPLACED_CONSTANTS),
    ],
    ids=["files", "functions", "replaced constants"],
)
def test_sizes_only_shrink(found: object, table: dict[str, int]) -> None:
    assert callable(found)
    sizes: dict[str, int] = found()
    grown = {name: size for name, size in sizes.items() if size > table.get(name, 0)}
    assert not grown, f"split these instead, or hand the value in: {grown}"
    shrunk = {name: sizes.get(name, "fits now") for name, size in table.items() if sizes.get(name, 0) < size}
    assert not shrunk, f"well done; write the new sizes into the table: {shrunk}"


def test_generated_code_equals_its_generator() -> None:
    command = [sys.executable, str(ROOT / "spec" / "generate.py"), "--check"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_module_says_its_idea() -> None:
    written = [path for path in python_files() if path.stat().st_size]
    silent = [name_of(path) for path in written if not ast.get_docstring(parsed(path))]
    assert not silent, silent


def test_no_file_names_a_registry_or_one_machine() -> None:
    wrong = []
    for path in tracked_files():
        try:
            text = path.read_text()
        except UnicodeDecodeError:
            continue
        if path == Path(__file__).resolve():
            continue
        for what, pattern in FORBIDDEN_TEXT.items():
            if found := pattern.search(text):
                line = text.count("\n", 0, found.start()) + 1
                wrong.append(f"{name_of(path)}:{line} names {what}: {found[0]}")
    assert not wrong, "\n".join(wrong)


def test_requirements_are_pinned_with_hashes() -> None:
    for path in sorted((ROOT / "requirements").glob("*.txt")):
        for entry in path.read_text().replace("\\\n", " ").splitlines():
            if entry.strip() and not entry.startswith("#"):
                assert re.match(r"[\w.\[\]-]+==[\w.]+", entry), f"{path.name}: {entry}"
                assert "--hash=sha256:" in entry, f"{path.name}: {entry}"
