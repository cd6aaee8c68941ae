"""Nodes that find each other through the API of Kubernetes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.brokers.ports import free_ports
from tests.discovery.kubernetes_api import KubernetesApi
from tests.waiting import until

CTL = (sys.executable, "-c", "from mirrormq.cli.ctl import main; main()")


class Pod:
    """Node whose host is a loopback address, so that pods have own addresses and one port."""

    def __init__(self, directory: Path, api: KubernetesApi, number: int, port: int) -> None:
        self.ip = f"127.0.1.{number + 1}"
        self.name = f"mirrormq@{self.ip}"
        self.log = directory / f"pod{number}.out"
        self._environment = {
            **os.environ, "MIRRORMQ_COOKIE": "pods", "MIRRORMQ_RUNTIME_DIR": str(directory / "run")
        }  # fmt: skip
        conf = directory / f"pod{number}.conf"
        conf.write_text(api.settings() + "cluster_formation.k8s.address_type = ip\n")
        command = [sys.executable, "-m", "mirrormq", "server", "--name", self.name, "--conf", str(conf)]
        command += ["--data", str(directory / f"pod{number}"), "--amqp", f"{self.ip}:{free_ports(1)[0]}"]
        command += ["--management", "none", "--cluster", f"{self.ip}:{port}"]
        with self.log.open("ab") as out:
            self.process = subprocess.Popen(command, stdout=out, stderr=out, env=self._environment)

    def members(self) -> list[str]:
        words = ["-q", "-n", self.name, "cluster_status", "--formatter", "json"]
        command = [*CTL, *words]
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=60, env=self._environment
        )
        return sorted(json.loads(done.stdout)["running_nodes"]) if done.stdout.startswith("{") else []


@pytest.fixture
def api(tmp_path: Path) -> KubernetesApi:
    account = tmp_path / "account"
    account.mkdir()
    return KubernetesApi(account)


def test_pods_form_one_cluster_and_a_later_pod_joins(api: KubernetesApi, tmp_path: Path) -> None:
    """The first pod by name comes last: the others wait for it instead of creating a cluster of their own."""
    port = free_ports(1)[0]
    api.not_ready = [{"ip": f"127.0.1.{number}"} for number in (1, 2)]
    pods = [Pod(tmp_path, api, 1, port)]
    try:
        until(lambda: "waits for a cluster to join" in pods[0].log.read_text(), "the second pod waits")
        pods.append(Pod(tmp_path, api, 0, port))
        for pod in pods:
            _await_members(pod, 2)
        api.ready, api.not_ready = api.not_ready, [{"ip": "127.0.1.3"}]
        pods.append(Pod(tmp_path, api, 2, port))
        for pod in pods:
            _await_members(pod, 3)
    finally:
        for pod in pods:
            pod.process.terminate()
        for pod in pods:
            pod.process.wait(60)


def _await_members(pod: Pod, count: int) -> None:
    until(
        lambda: len(pod.members()) == count,
        lambda: f"{pod.name} has {count} running members: {pod.members()}\n{pod.log.read_text()}",
    )
