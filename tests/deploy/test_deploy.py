"""systemd, Docker and Kubernetes: what they say is what a node understands, what they run does its work."""

from __future__ import annotations

import configparser
import json
import os
import re
import shutil
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pika
import pytest
import yaml

from mirrormq.config.conf import ConfEntry
from mirrormq.config.environment import READ_BY_OTHER_CODE, key_of
from mirrormq.config.settings_loader import load_settings
from tests.brokers.ports import free_ports
from tests.deploy.nodes import DEADLINE_S, ENTRYPOINT, ROOT, Container, containers
from tests.needs import not_installed

DEPLOY = ROOT / "deploy"
UNIT = DEPLOY / "systemd" / "mirrormq.service"
PROGRAM = Path(sys.executable).with_name("mirrormq")


# -- systemd ------------------------------------------------------------------------------------


def _unit() -> configparser.ConfigParser:
    parser = configparser.ConfigParser(strict=False, interpolation=None, delimiters=("=",))
    parser.optionxform = str  # type: ignore[assignment, method-assign]
    parser.read(UNIT)
    return parser


def test_systemd_understands_the_unit(tmp_path: Path) -> None:
    service = _unit()["Service"]
    assert (service["Type"], service["RestartPreventExitStatus"]) == ("notify", "78")
    analyze = shutil.which("systemd-analyze")
    if analyze is not None:
        copy = tmp_path / "mirrormq.service"
        copy.write_text(UNIT.read_text().replace("/opt/mirrormq/bin/mirrormq", str(PROGRAM)))
        done = subprocess.run([analyze, "verify", str(copy)], capture_output=True, text=True, check=False)
        assert done.returncode == 0 and not done.stderr, done.stderr


@pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason=not_installed("systemd-analyze", "systemd")
)
def test_systemd_rates_the_sandbox_as_closed() -> None:
    """The threshold is in tenths: systemd's exposure reaches from 0 to 10."""
    command = ["systemd-analyze", "security", "--offline=yes", "--threshold=20", str(UNIT)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_the_unit_runs_a_node_that_says_when_it_is_ready(tmp_path: Path) -> None:
    """Its command, with its settings, and a socket where systemd's would be."""
    command = _unit()["Service"]["ExecStart"].split()
    settings = (DEPLOY / "systemd" / "mirrormq.conf").read_text()
    amqp, management, cluster = free_ports(3)
    for old, new in (
        ("5672", str(amqp)),
        ("15672", str(management)),
        ("0.0.0.0:25672", f"127.0.0.1:{cluster}"),
    ):
        settings, count = re.subn(rf"= {re.escape(old)}$", f"= {new}", settings, flags=re.MULTILINE)
        assert count == 1
    conf = tmp_path / "mirrormq.conf"
    conf.write_text(settings.replace("/var/lib/mirrormq/", f"{tmp_path}/"))
    replaced = {"/opt/mirrormq/bin/mirrormq": str(PROGRAM), "/etc/mirrormq/mirrormq.conf": str(conf)}
    words = [replaced.get(word, word).replace("%S", str(tmp_path)) for word in command]
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(DEADLINE_S)
        environment = os.environ | {
            "NOTIFY_SOCKET": str(tmp_path / "notify"), "MIRRORMQ_RUNTIME_DIR": str(tmp_path / "run"),
            "MIRRORMQ_COOKIE": "a long secret for tests", "MIRRORMQ_NAME": "unit@localhost",
        }  # fmt: skip
        node = subprocess.Popen(words, env=environment, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE)
        try:
            assert manager.recv(100) == b"READY=1"
            secret = tmp_path / "admin-password"
            assert stat.S_IMODE(secret.stat().st_mode) == 0o600
            login = pika.PlainCredentials("admin", secret.read_text().strip())
            pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", amqp, credentials=login)).close()
            with pytest.raises(pika.exceptions.ProbableAuthenticationError):
                pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", amqp))
            node.send_signal(signal.SIGTERM)
            assert manager.recv(100) == b"STOPPING=1"
            _, said = node.communicate(timeout=DEADLINE_S)
            assert node.returncode == 0
        finally:
            if node.poll() is None:
                node.kill()
                node.wait()
    assert all(json.loads(line)["level"] for line in said.splitlines())


# -- Docker -------------------------------------------------------------------------------------


def test_the_entrypoint_is_a_shell_script_with_known_variables() -> None:
    assert os.access(ENTRYPOINT, os.X_OK)
    shell = shutil.which("dash") or "/bin/sh"
    assert subprocess.run([shell, "-n", str(ENTRYPOINT)], check=False).returncode == 0
    variables = re.findall(r"MIRRORMQ_\w+(?==)", (DEPLOY / "docker" / "Dockerfile").read_text())
    known = [name for name in variables if name != "MIRRORMQ_COMPILE"]
    assert known and all(key_of(name.removeprefix("MIRRORMQ_")) for name in known)


def _compose() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((DEPLOY / "docker" / "compose.yaml").read_text())
    return found


def _manifests() -> dict[tuple[str, str], dict[str, Any]]:
    documents = yaml.safe_load_all((DEPLOY / "kubernetes" / "mirrormq.yaml").read_text())
    return {(each["kind"], each["metadata"]["name"]): each for each in documents}


def _check_settings(settings: str, members: list[str], tmp_path: Path) -> None:
    path = tmp_path / "mirrormq.conf"
    path.write_text(settings)
    loaded = load_settings([ConfEntry("name", members[0], "test")], {}, path)
    assert [seed.name for seed in loaded.classic_config_nodes] == members
    assert not loaded.warnings


def test_no_shipped_file_holds_a_password_or_creates_guest() -> None:
    for path in DEPLOY.rglob("*"):
        if path.is_file() and path.suffix != ".md":
            text = path.read_text()
            assert not re.search(r"""["']?password["']?: *["']|default_pass *=|change me""", text), path
            assert not re.search(r"""["']guest["']|default_user *= *guest""", text), path
    secret = {each["name"]: each for each in _container()["env"]}["MIRRORMQ_DEFAULT_PASS"]
    assert secret["valueFrom"] == {"secretKeyRef": {"name": "mirrormq", "key": "password"}}


def test_a_container_without_settings_makes_a_password(tmp_path: Path) -> None:
    amqp, management, cluster = free_ports(3)
    environment = {
        "MIRRORMQ_LISTENERS__TCP__DEFAULT": f"127.0.0.1:{amqp}", "MIRRORMQ_COOKIE": "a long secret for tests",
        "MIRRORMQ_MANAGEMENT__ADDRESS": f"127.0.0.1:{management}",
        "MIRRORMQ_CLUSTER__LISTENER": f"127.0.0.1:{cluster}", "MIRRORMQ_RUNTIME_DIR": str(tmp_path / "run"),
    }  # fmt: skip
    node = Container("alone@localhost", environment, tmp_path / "volume")
    node.start()
    try:
        node.await_healthy()
        password = (tmp_path / "volume" / "admin-password").read_text().strip()
        assert len(password) >= 24
        login = pika.PlainCredentials("admin", password)
        pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", amqp, credentials=login)).close()
        assert json.loads(_ctl(node, "list_users", "--formatter", "json"))[0]["user"] == "admin"
        assert node.stop() == 0
    finally:
        node.end()


def test_the_services_of_the_compose_file_are_each_others_members(tmp_path: Path) -> None:
    compose = _compose()
    services = compose["services"]
    names = [service["environment"]["MIRRORMQ_NAME"] for service in services.values()]
    assert [name.partition("@")[2] for name in names] == [s["hostname"] for s in services.values()]
    _check_settings(compose["configs"]["node"]["content"], names, tmp_path)
    published = [port.partition(":")[0] for service in services.values() for port in service["ports"]]
    assert len(set(published)) == len(published)
    for service in services.values():
        assert service["volumes"][0].partition(":")[0] in compose["volumes"]
        for variable in service["environment"]:
            word = variable.removeprefix("MIRRORMQ_")
            assert word in READ_BY_OTHER_CODE or key_of(word), variable
        for config in service["configs"]:
            assert config["source"] in compose["configs"]


def test_three_containers_are_a_cluster_that_mirrors(tmp_path: Path) -> None:
    compose = _compose()
    configs = compose["configs"]
    given = compose["services"]["node1"]["environment"]
    user = {key: given[key] for key in ("MIRRORMQ_DEFAULT_USER", "MIRRORMQ_DEFAULT_PASS")}
    assert user["MIRRORMQ_DEFAULT_PASS"].startswith("${MIRRORMQ_DEFAULT_PASS:?")
    user["MIRRORMQ_DEFAULT_PASS"] = "a secret of the operator"
    texts = (configs["node"]["content"], configs["definitions"]["content"])
    with containers(*texts, user, tmp_path) as nodes:
        for node in nodes:
            node.await_healthy()
            assert node.run("alive").returncode == 0
        _ctl(nodes[0], "await_online_nodes", str(len(nodes)), "-t", "60")
        reported = json.loads(_ctl(nodes[0], "cluster_status", "--formatter", "json"))
        assert sorted(reported["running_nodes"]) == [node.name for node in nodes]
        port = int(nodes[1].environment["MIRRORMQ_LISTENERS__TCP__DEFAULT"].rpartition(":")[2])
        assert [row["user"] for row in json.loads(_ctl(nodes[0], "list_users", "--formatter", "json"))] == [
            "admin"
        ]
        login = pika.PlainCredentials("admin", "a secret of the operator")
        connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", port, credentials=login))
        connection.channel().queue_declare("orders", durable=True)
        connection.close()
        mirrors = json.loads(_ctl(nodes[0], "list_queues", "slave_pids", "--formatter", "json"))
        assert len(mirrors[0]["slave_pids"]) == 2
        _stopped_after_its_hook(nodes)


def _stopped_after_its_hook(nodes: list[Container]) -> None:
    """As Kubernetes takes a pod away: the hook, then SIGTERM; the node's masters are elsewhere by then."""
    master = next(
        node
        for node in nodes
        if f"<{node.name}." in _ctl(nodes[0], "list_queues", "pid", "--formatter", "json")
    )
    hook = _container()["lifecycle"]["preStop"]["exec"]["command"]
    assert hook[0] == "entrypoint"
    done = master.run(*hook[1:])
    assert done.returncode == 0, done.stderr
    others = [node for node in nodes if node is not master]
    assert master.stop() == 0
    assert f"<{master.name}." not in _ctl(others[0], "list_queues", "pid", "--formatter", "json")
    master.start()
    master.await_healthy()
    status = json.loads(_ctl(master, "cluster_status", "--formatter", "json"))
    assert status["maintenance_status"][master.name] == "not under maintenance"


def _ctl(node: Container, *words: str) -> str:
    """A container has one node; nobody has to name it."""
    done = node.run("mirrormqctl", "-q", *words)
    assert done.returncode == 0, done.stderr
    return done.stdout


# -- Kubernetes ---------------------------------------------------------------------------------


def _container() -> dict[str, Any]:
    found: dict[str, Any] = _manifests()["StatefulSet", "mirrormq"]["spec"]["template"]["spec"]["containers"][
        0
    ]
    return found


def test_the_manifest_fits_together(tmp_path: Path) -> None:
    found = _manifests()
    stateful = found["StatefulSet", "mirrormq"]["spec"]
    service = found["Service", stateful["serviceName"]]["spec"]
    labels = stateful["template"]["metadata"]["labels"]
    assert service["clusterIP"] == "None" and service["publishNotReadyAddresses"] is True
    assert stateful["selector"]["matchLabels"] == labels == service["selector"]
    names = [
        f"mirrormq@mirrormq-{index}.{stateful['serviceName']}.default.svc.cluster.local"
        for index in range(stateful["replicas"])
    ]
    data = found["ConfigMap", "mirrormq"]["data"]
    _check_settings(data["mirrormq.conf"], names, tmp_path)
    assert json.loads(data["definitions.json"]) == json.loads(_compose()["configs"]["definitions"]["content"])
    container = _container()
    variables = {each["name"]: each for each in container["env"]}
    template = variables["MIRRORMQ_NAME"]["value"]
    assert template.replace("$(POD_NAME)", "mirrormq-0").replace("$(POD_NAMESPACE)", "default") == names[0]
    mounted = {each["name"] for each in container["volumeMounts"]}
    given = {each["name"] for each in stateful["template"]["spec"]["volumes"]}
    given |= {each["metadata"]["name"] for each in stateful["volumeClaimTemplates"]}
    assert mounted == given
    ports = {each["name"] for each in container["ports"]}
    assert container["readinessProbe"]["tcpSocket"]["port"] in ports


def _exec_commands() -> Iterator[list[str]]:
    container = _container()
    yield container["startupProbe"]["exec"]["command"]
    yield container["lifecycle"]["preStop"]["exec"]["command"]


def test_a_large_journal_has_time_to_recover() -> None:
    startup = _container()["startupProbe"]
    assert startup["periodSeconds"] * startup["failureThreshold"] >= 1800
    assert startup["exec"] == _container()["livenessProbe"]["exec"]


@pytest.mark.parametrize("command", list(_exec_commands()), ids=" ".join)
def test_probes_and_hooks_are_words_of_the_entrypoint(command: list[str]) -> None:
    assert command[0] == "entrypoint"
    assert re.search(rf"^{command[1]}\)$", ENTRYPOINT.read_text(), re.MULTILINE)


def test_a_probe_fails_where_there_is_no_node(tmp_path: Path) -> None:
    nobody = Container("nobody@localhost", {"MIRRORMQ_RUNTIME_DIR": str(tmp_path)}, tmp_path / "volume")
    for probe in ("alive", "healthy"):
        assert nobody.run(probe).returncode != 0
