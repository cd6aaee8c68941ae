"""A mirror whose disk takes seconds for each sync lives, but is late: confirms stop waiting for it, and when
the disk is well again it is counted again by itself. The slow disk is a shim that is compiled here."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from mirrormq.testing import Cluster
from tests.mirrored_processes.range_requests import PERSISTENT, drain, mirror, synchronised
from tests.needs import COMPILER
from tests.seeds.seed_clients import channel
from tests.waiting import until

SHIM = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>

/* Syncs take three seconds while the file named by SLOW_SYNC_WHILE exists. */
int fdatasync(int descriptor) {
    int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, "fdatasync");
    const char *path = getenv("SLOW_SYNC_WHILE");
    if (path != NULL && access(path, F_OK) == 0) usleep(3000000);
    return real(descriptor);
}
"""


@pytest.fixture
def shim(tmp_path: Path) -> Path:
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip(COMPILER)
    (tmp_path / "shim.c").write_text(SHIM)
    library = tmp_path / "shim.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, tmp_path / "shim.c", "-ldl"], check=True)
    return library


@pytest.fixture
def trigger(tmp_path: Path) -> Path:
    return tmp_path / "slow"


@pytest.fixture
def cluster(shim: Path, trigger: Path) -> Iterator[Cluster]:
    """Three nodes; the third one's disk can be made slow."""
    with Cluster(nodes=3) as cluster:
        cluster.stop(2)
        os.environ.update(LD_PRELOAD=str(shim), SLOW_SYNC_WHILE=str(trigger))
        try:
            cluster.start(2)
        finally:
            del os.environ["LD_PRELOAD"], os.environ["SLOW_SYNC_WHILE"]
        mirror(cluster, ha_mode="all", ha_sync_mode="automatic")
        yield cluster


def test_a_slow_mirror_is_not_waited_for_and_returns_by_itself(cluster: Cluster, trigger: Path) -> None:
    slow = cluster.name(2)
    published = 0
    with channel(cluster, 0) as opened:
        opened.queue_declare("q", durable=True)
        until(lambda: slow in synchronised(cluster, "q"))
        trigger.touch()
        deadline = time.monotonic() + 60
        while slow in synchronised(cluster, "q"):
            assert time.monotonic() < deadline, "it is waited for although it is late"
            opened.basic_publish("", "q", b"%d" % published, PERSISTENT)
            published += 1
        assert synchronised(cluster, "q") == {cluster.name(1)}
        assert slow in cluster.ctl("-q", "cluster_status", "--formatter", "json")
        begin = time.monotonic()
        for _ in range(20):
            opened.basic_publish("", "q", b"%d" % published, PERSISTENT)
            published += 1
        assert time.monotonic() - begin < 30, "twenty syncs of the slow disk take sixty seconds"
        trigger.unlink()
        until(lambda: slow in synchronised(cluster, "q"))
    assert drain(cluster, "q", node=2) == [b"%d" % number for number in range(published)]
