"""Dockerfile and Kubernetes manifests: hadolint and Kubernetes' own schemas accept them, names agree."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.deploy.nodes import ROOT
from tests.test_documents import complaint

DEPLOY = ROOT / "deploy"
PROGRAMS = Path(sys.executable).parent
KUBERNETES_VERSIONS = ("1.31", "1.37")
DEADLINE_S = 60


def documents(path: Path) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(path.read_text()))


def run(*command: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S, check=False)


def test_hadolint_finds_nothing_in_the_dockerfile(tmp_path: Path) -> None:
    dockerfile = DEPLOY / "docker" / "Dockerfile"
    done = run(PROGRAMS / "hadolint", dockerfile)
    assert (done.returncode, done.stdout) == (0, ""), done.stdout
    wrong = tmp_path / "Dockerfile"
    wrong.write_text(dockerfile.read_text().replace("WORKDIR /build", "WORKDIR build"))
    assert "DL3000" in run(PROGRAMS / "hadolint", wrong).stdout


@pytest.mark.parametrize("version", KUBERNETES_VERSIONS)
def test_kubernetes_accepts_the_manifests(version: str, tmp_path: Path) -> None:
    manifests = [DEPLOY / "kubernetes" / "mirrormq.yaml", DEPLOY / "spark" / "archive.yaml"]
    validate = [str(PROGRAMS / "kubernetes-validate"), "-k", version, "--strict"]
    done = run(*validate, *manifests)
    assert done.returncode == 0, done.stdout + done.stderr
    wrong = tmp_path / "archive.yaml"
    wrong.write_text(manifests[1].read_text().replace("replicas: 1", "replica: 1"))
    assert run(*validate, wrong).returncode != 0


def test_the_archive_uses_the_nodes_the_secret_and_its_volume() -> None:
    claim, deployment = documents(DEPLOY / "spark" / "archive.yaml")
    pod = deployment["spec"]["template"]["spec"]
    container = pod["containers"][0]
    command = " ".join(["mirrormq pipeline", *(f"'{argument}'" for argument in container["args"])])
    assert complaint(command, whole=True) == ""
    options = dict(
        argument[2:].split("=", 1) for argument in container["args"][1:] if "option" not in argument
    )
    services = [
        each["metadata"]["name"]
        for each in documents(DEPLOY / "kubernetes" / "mirrormq.yaml")
        if each["kind"] == "Service"
    ]
    assert options["uri"].removeprefix("amqp://admin@").partition(":")[0] in services
    assert f"--option=passwordEnv={container['env'][0]['name']}" in container["args"]
    volumes = {each["name"]: each for each in pod["volumes"]}
    mounts = {each["mountPath"]: each["name"] for each in container["volumeMounts"]}
    path = str(Path(options["to"]).parent)
    assert volumes[mounts[path]]["persistentVolumeClaim"]["claimName"] == claim["metadata"]["name"]
    assert f"VOLUME {path}" in (DEPLOY / "docker" / "Dockerfile").read_text()
