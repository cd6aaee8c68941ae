"""A full disk and a failing fsync: the node stops confirming and ends; what it confirmed is there later.

The full disk is a small tmpfs, so it needs root. fsync fails through a shim that is compiled here and
loaded before libc, so the node itself has no seam for it; the simulated disk of `tests/storage` fails
each single write and sync in turn.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.durability.node import DEADLINE_S, Node
from tests.durability.traffic import Publisher, browse
from tests.needs import COMPILER
from tests.waiting import until

SHIM = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

/* Syncs fail while the file named by FAIL_SYNC_WHILE exists. */
static int failing(void) {
    const char *path = getenv("FAIL_SYNC_WHILE");
    if (path == NULL || access(path, F_OK) != 0) return 0;
    errno = EIO;
    return 1;
}

int fdatasync(int descriptor) {
    int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, "fdatasync");
    return failing() ? -1 : real(descriptor);
}

int fsync(int descriptor) {
    int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, "fsync");
    return failing() ? -1 : real(descriptor);
}
"""


def mount(directory: Path, options: str) -> None:
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", options, "none", str(directory)],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        pytest.skip(f"mounting is not allowed here ({done.stderr.strip()}): a container needs --privileged")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system with room for one journal segment and a little more."""
    if os.geteuid() != 0 or shutil.which("mount") is None:
        pytest.skip("only root can mount a small file system: run as root")
    mount(tmp_path, "size=100m")
    yield tmp_path
    subprocess.run(["umount", "-l", str(tmp_path)], check=True)


def test_a_full_disk_stops_the_node_and_loses_nothing_that_was_confirmed(small_disk: Path) -> None:
    with Node("disk_free_limit.absolute = 4KB\n", data=small_disk / "data") as node:
        node.dial().declare_queue("q", durable=True)
        publisher = Publisher(node, "", "q", 0, seed=1, size=30_000)
        publisher.start()
        publisher.join(DEADLINE_S)
        assert not publisher.is_alive(), "the disk should be full by now"
        assert node.exit_code() == 1
        assert "node stops because its journal failed" in node.output
        assert "No space left on device" in node.output
        assert publisher.confirmed
        assert publisher.next - 1 not in publisher.confirmed, "what did not fit was not confirmed"
        subprocess.run(["mount", "-o", "remount,size=400m", str(small_disk)], check=True)
        node.boot()
        found = [delivery.number for delivery in browse(node, "q")]
        assert found == sorted(set(found))
        assert publisher.confirmed <= set(found)


@pytest.mark.parametrize("megabytes", [60, 180])
def test_publishers_rest_before_the_disk_is_full(small_disk: Path, megabytes: int) -> None:
    """A segment's preallocated size is above the limit at which the alarm is raised: it may not fit."""
    subprocess.run(["mount", "-o", f"remount,size={megabytes}m", str(small_disk)], check=True)
    with Node(data=small_disk / "data") as node:
        node.dial().declare_queue("q", durable=True)
        publisher = Publisher(node, "", "q", 0, seed=1, size=30_000)
        publisher.start()
        until(lambda: "disk resource limit alarm set" in node.output, lambda: node.output)
        publisher.join(0.5)
        assert publisher.is_alive(), node.output
        found = {delivery.number for delivery in browse(node, "q")}
        assert publisher.confirmed <= found


@pytest.fixture(scope="module")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library whose fsync fails on demand."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip(COMPILER)
    directory = tmp_path_factory.mktemp("shim")
    (directory / "shim.c").write_text(SHIM)
    library = directory / "shim.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, directory / "shim.c", "-ldl"], check=True)
    return library


def test_nothing_is_confirmed_after_a_failed_sync(shim: Path, tmp_path: Path) -> None:
    trigger = tmp_path / "fail"
    with Node(variables={"LD_PRELOAD": str(shim), "FAIL_SYNC_WHILE": str(trigger)}) as node:
        node.dial().declare_queue("q", durable=True)
        before = Publisher(node, "", "q", 0, seed=1, limit=500)
        before.start()
        before.join(DEADLINE_S)
        assert len(before.confirmed) == 500
        trigger.touch()
        after = Publisher(node, "", "q", 500, seed=2)
        after.start()
        after.join(DEADLINE_S)
        assert not after.confirmed
        assert node.exit_code() == 1
        assert "node stops because its journal failed" in node.output
        assert "Input/output error" in node.output
        trigger.unlink()
        node.boot()
        found = [delivery.number for delivery in browse(node, "q")]
        assert found[:500] == list(range(500))
        assert found == sorted(set(found))


def test_a_declaration_is_not_answered_after_a_failed_sync(shim: Path, tmp_path: Path) -> None:
    trigger = tmp_path / "fail"
    with Node(variables={"LD_PRELOAD": str(shim), "FAIL_SYNC_WHILE": str(trigger)}) as node:
        client = node.dial()
        trigger.touch()
        with pytest.raises(Exception, match="closed the connection"):
            client.declare_queue("q", durable=True)
        assert node.exit_code() == 1
        assert "the metadata log cannot be written" in node.output


def test_a_control_command_that_cannot_be_kept_stops_the_node_too(shim: Path, tmp_path: Path) -> None:
    trigger = tmp_path / "fail"
    with Node(variables={"LD_PRELOAD": str(shim), "FAIL_SYNC_WHILE": str(trigger)}) as node:
        trigger.touch()
        with pytest.raises(RuntimeError, match=r"cannot be written|went away"):
            node.control("add_vhost", "v")
        assert node.exit_code() == 1
        trigger.unlink()
        node.boot()
        assert "/" in node.control("list_vhosts", "name").split()
