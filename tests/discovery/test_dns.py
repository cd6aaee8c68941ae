"""Peer discovery by DNS, with a real DNS server and the system's resolver, in own namespaces."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def test_nodes_find_each_other_by_dns_and_scale(tmp_path: Path) -> None:
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        pytest.skip("own namespaces need root and unshare (apt-get install util-linux)")
    (tmp_path / "resolv.conf").write_text("nameserver 127.0.0.1\noptions timeout:1 attempts:3\n")
    (tmp_path / "hosts").write_text("127.0.0.1 localhost\n")
    steps = [
        "ip link set lo up",
        f"mount --bind {tmp_path}/resolv.conf /etc/resolv.conf",
        f"mount --bind {tmp_path}/hosts /etc/hosts",
        f"exec {sys.executable} -m tests.discovery.dns_scene {tmp_path}",
    ]
    command = ["unshare", "--net", "--mount", "--propagation", "private", "sh", "-ec", "\n".join(steps)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300, cwd=ROOT)
    assert done.stdout.endswith("done\n"), done.stdout + done.stderr


@pytest.mark.parametrize("value", ["dns", "rabbit_peer_discovery_dns"])
def test_a_dns_backend_needs_a_host_name(value: str, tmp_path: Path) -> None:
    conf = tmp_path / "node.conf"
    conf.write_text(f"cluster_formation.peer_discovery_backend = {value}\n")
    command = [sys.executable, "-m", "mirrormq", "server", "--conf", str(conf), "--data", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 78
    assert "cluster_formation.dns.hostname" in done.stderr
