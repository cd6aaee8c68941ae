"""`load_definitions`: a file is imported once, and again only when it has changed."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from mirrormq.testing import Cluster
from mirrormq.testing.port_allocator import free_ports

POLICY = {"vhost": "/", "name": "short", "pattern": "^q", "definition": {"max-length": 5}}


def write(path: Path, length: int) -> None:
    policy = POLICY | {"definition": {"max-length": length}}
    path.write_text(json.dumps({"vhosts": [{"name": "/"}], "policies": [policy]}))


def definition(cluster: Cluster) -> dict[str, int] | None:
    """Return the definition of the file's policy, None if it was deleted."""
    found = json.loads(cluster.ctl("-q", "list_policies", "--formatter", "json"))
    return json.loads(found[0]["definition"]) if found else None


def restart(cluster: Cluster, *nodes: int) -> None:
    for index in nodes:
        cluster.stop(index)
    for index in reversed(nodes):
        cluster.start(index)


@pytest.fixture
def file(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "definitions.json"
    write(path, 5)
    yield path


def test_an_unchanged_file_does_not_undo_what_an_operator_changed(file: Path) -> None:
    with Cluster(nodes=2, conf=f"load_definitions = {file}\n") as cluster:
        assert definition(cluster) == {"max-length": 5}
        cluster.ctl("clear_policy", "short")
        restart(cluster, 1)
        assert definition(cluster) is None
        restart(cluster, 0, 1)
        assert definition(cluster) is None
        write(file, 7)
        restart(cluster, 1)
        assert definition(cluster) == {"max-length": 7}


def test_each_start_imports_the_file_where_that_is_asked_for(file: Path) -> None:
    conf = f"load_definitions = {file}\ndefinitions.skip_if_unchanged = false\n"
    with Cluster(nodes=1, conf=conf) as cluster:
        cluster.ctl("clear_policy", "short")
        restart(cluster, 0)
        assert definition(cluster) == {"max-length": 5}


def test_an_entry_that_cannot_be_imported_is_logged_and_the_node_starts(tmp_path: Path) -> None:
    file = tmp_path / "definitions.json"
    document = {"users": [{"password": "x"}], "vhosts": [{"name": "imported"}]}
    file.write_text(json.dumps(document))
    with Cluster(nodes=1, conf=f"load_definitions = {file}\n") as cluster:
        assert "imported" in cluster.ctl("list_vhosts")
        logs = b"".join(path.read_bytes() for path in cluster.directory.rglob("*.log"))
        assert b"skipped users '': the key 'name' is missing; Add the key 'name'" in logs


@pytest.mark.parametrize("text", ["{", "[]", '{"users": [{"password": "x"}]}'], ids=str)
def test_a_file_that_cannot_be_imported_ends_the_start_with_one_sentence(text: str, tmp_path: Path) -> None:
    file, conf = tmp_path / "definitions.json", tmp_path / "node.conf"
    file.write_text(text)
    lines = [f"load_definitions = {file}", "definitions.all_or_nothing = true", "log.console = false"]
    conf.write_text("\n".join([*lines, f"runtime_dir = {tmp_path}/run\n"]))
    command = [sys.executable, "-m", "mirrormq", "server", "--data", str(tmp_path / "data")]
    command += ["--conf", str(conf), "--amqp", f"127.0.0.1:{free_ports(1)}", "--management", "none"]
    command += ["--cluster", "none", "--cookie-file", str(tmp_path / "cookie")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 78
    assert f"The definitions in {file} cannot be" in done.stderr
    assert "Traceback" not in done.stderr
