"""Helm chart: helm renders it, Kubernetes' schemas accept the result, and a node understands its settings."""

from __future__ import annotations

import base64
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from mirrormq.cluster.discovered_peers import hosts_of_endpoints, may_create
from mirrormq.config.conf import ConfEntry
from mirrormq.config.settings import Address, Settings
from mirrormq.config.settings_loader import load_settings
from tests.deploy.nodes import ENTRYPOINT, ROOT

CHART = ROOT / "deploy" / "helm" / "mirrormq"
PROGRAMS = Path(sys.executable).parent
KUBERNETES_VERSIONS = ("1.31", "1.37")
RELEASE, NAMESPACE = "orders", "brokers"
TLS = ("tls.existingSecret=certificates", "tls.plainListener=false")
CASES = {
    "default": (),
    "tls": TLS,
    "all": (*TLS, "serviceMonitor.enabled=true", "storage.className=fast", "replicas=5",
            "existingSecret=mine"),
    "least": ("podDisruptionBudget=false", "networkPolicy.enabled=false", "replicas=1"),
}  # fmt: skip

pytestmark = pytest.mark.skipif(
    not (PROGRAMS / "helm").exists(), reason="helm is not installed: its package exists for Linux on x86_64"
)

Documents = dict[tuple[str, str], dict[str, Any]]


def helm(*words: str) -> subprocess.CompletedProcess[str]:
    command = [str(PROGRAMS / "helm"), *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def rendered(case: str, more: tuple[str, ...] = ()) -> str:
    settings = [word for each in (*CASES[case], *more) for word in ("--set", each)]
    done = helm("template", RELEASE, str(CHART), "--namespace", NAMESPACE, *settings)
    assert done.returncode == 0, done.stderr
    return done.stdout


def documents(case: str, *more: str) -> Documents:
    found = [each for each in yaml.safe_load_all(rendered(case, more)) if each]
    return {(each["kind"], each["metadata"]["name"]): each for each in found}


def pod(found: Documents) -> dict[str, Any]:
    spec: dict[str, Any] = found["StatefulSet", RELEASE]["spec"]["template"]["spec"]
    return spec


def settings_of(found: Documents, tmp_path: Path) -> Settings:
    """Return the settings of a node, with the certificates of a TLS chart in a directory of the test."""
    text = found["ConfigMap", RELEASE]["data"]["mirrormq.conf"]
    for name in ("tls.crt", "tls.key", "ca.crt"):
        (tmp_path / name).touch()
    conf = tmp_path / "mirrormq.conf"
    conf.write_text(text.replace("/etc/mirrormq-tls/", f"{tmp_path}/"))
    name = f"mirrormq@{RELEASE}-0.{RELEASE}-nodes.{NAMESPACE}.svc.cluster.local"
    return load_settings([ConfEntry("name", name, "test")], {}, conf)


def test_helm_finds_no_fault() -> None:
    done = helm("lint", "--strict", str(CHART))
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("version", KUBERNETES_VERSIONS)
@pytest.mark.parametrize("case", CASES)
def test_kubernetes_accepts_what_the_chart_renders(case: str, version: str, tmp_path: Path) -> None:
    path = tmp_path / "rendered.yaml"
    native = [each for each in documents(case).values() if each["kind"] != "ServiceMonitor"]
    path.write_text(yaml.safe_dump_all(native))
    validate = [str(PROGRAMS / "kubernetes-validate"), "-k", version, "--strict"]
    done = subprocess.run([*validate, str(path)], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    path.write_text(path.read_text().replace("maxSkew:", "maximalSkew:"))
    assert subprocess.run([*validate, str(path)], capture_output=True, check=False).returncode != 0


@pytest.mark.parametrize("case", CASES)
def test_a_node_understands_its_settings(case: str, tmp_path: Path) -> None:
    found = documents(case)
    settings = settings_of(found, tmp_path)
    assert not settings.warnings
    service = found["Service", settings.discovery.k8s_service_name]["spec"]
    stateful = found["StatefulSet", RELEASE]["spec"]
    assert service["clusterIP"] == "None" and service["publishNotReadyAddresses"] is True
    assert stateful["serviceName"] == settings.discovery.k8s_service_name
    assert stateful["template"]["metadata"]["labels"] == service["selector"]
    (rule,) = found["Role", RELEASE]["rules"]
    assert rule["resourceNames"] == [settings.discovery.k8s_service_name]
    assert settings.discovery.target_size == stateful["replicas"]


def test_pods_have_the_names_that_discovery_gives_them(tmp_path: Path) -> None:
    found = documents("default")
    settings = settings_of(found, tmp_path)
    pods = [f"{RELEASE}-{number}" for number in range(3)]
    endpoints = {"subsets": [{"addresses": [{"ip": "10.0.0.1", "hostname": name} for name in pods]}]}
    discovery = settings.discovery
    hosts = hosts_of_endpoints(endpoints, discovery.k8s_address_type, discovery.k8s_hostname_suffix)
    variables = {each["name"]: each for each in pod(found)["containers"][0]["env"]}
    template = variables["MIRRORMQ_NAME"]["value"]
    names = [template.replace("$(POD_NAME)", name) for name in pods]
    assert names == [f"mirrormq@{host}" for host in hosts]
    assert [may_create(name, names, discovery.target_size) for name in names] == [True, False, False]


def test_probes_hooks_volumes_and_secrets_fit_together() -> None:
    found = documents("tls")
    spec = pod(found)
    (container,) = spec["containers"]
    commands = [container[probe]["exec"]["command"] for probe in ("startupProbe", "livenessProbe")]
    commands.append(container["lifecycle"]["preStop"]["exec"]["command"])
    for program, word, *_ in commands:
        assert program == "entrypoint" and f"\n{word})\n" in ENTRYPOINT.read_text()
    drain_s = int(commands[-1][2])
    assert spec["terminationGracePeriodSeconds"] > drain_s
    given = {each["name"] for each in spec["volumes"]}
    claims = found["StatefulSet", RELEASE]["spec"]["volumeClaimTemplates"]
    given |= {each["metadata"]["name"] for each in claims}
    assert {each["name"] for each in container["volumeMounts"]} == given
    assert spec["serviceAccountName"] == found["ServiceAccount", RELEASE]["metadata"]["name"]
    assert len(spec["topologySpreadConstraints"]) == 2


def test_each_installation_has_its_own_random_secret() -> None:
    secrets = [documents("default")["Secret", RELEASE]["data"] for _ in range(2)]
    assert len({each["cookie"] for each in secrets} | {each["password"] for each in secrets}) == 4
    assert all(len(base64.b64decode(value)) >= 24 for each in secrets for value in each.values())
    used = [each for each in pod(documents("all"))["containers"][0]["env"] if "valueFrom" in each][1:]
    assert {each["valueFrom"]["secretKeyRef"]["name"] for each in used} == {"mine"}
    assert ("Secret", RELEASE) not in documents("all")


def test_only_nodes_reach_the_cluster_port() -> None:
    found = documents("default")
    nodes, clients = found["NetworkPolicy", RELEASE]["spec"]["ingress"]
    assert {15672, 15671} <= {each["port"] for each in clients["ports"]}
    assert [each["port"] for each in nodes["ports"]] == [25672]
    assert nodes["from"][0]["podSelector"]["matchLabels"] == found["Service", RELEASE]["spec"]["selector"]
    assert 25672 not in [each["port"] for each in clients["ports"]]


def test_the_monitor_scrapes_each_node_once() -> None:
    """Its labels select the service of the clients, and not that of the nodes."""
    found = documents("all")
    monitor = found["ServiceMonitor", RELEASE]["spec"]
    wanted = monitor["selector"]["matchLabels"].items()
    services = [name for (kind, name), each in found.items()
                if kind == "Service" and wanted <= each["metadata"]["labels"].items()]  # fmt: skip
    assert services == [RELEASE]
    (endpoint,) = monitor["endpoints"]
    ports = {each["name"]: each["port"] for each in found["Service", RELEASE]["spec"]["ports"]}
    assert (endpoint["port"], endpoint["scheme"]) == ("https", "https")
    assert endpoint["tlsConfig"]["ca"]["secret"] == {"name": "certificates", "key": "ca.crt"}
    assert endpoint["tlsConfig"]["serverName"] == f"{RELEASE}.{NAMESPACE}.svc"
    _, _, monitoring = found["NetworkPolicy", RELEASE]["spec"]["ingress"]
    assert [each["port"] for each in monitoring["ports"]] == [ports["https"]]
    (peer,) = monitoring["from"]
    assert peer["namespaceSelector"]["matchLabels"] == {"kubernetes.io/metadata.name": "monitoring"}


def test_with_tls_the_api_and_the_probe_use_it(tmp_path: Path) -> None:
    for case, ports in (("default", {"amqp", "http"}), ("tls", {"amqps", "https"})):
        found = documents(case)
        assert {each["name"] for each in found["Service", RELEASE]["spec"]["ports"]} == ports
        (container,) = pod(found)["containers"]
        probe = container["readinessProbe"]["httpGet"]
        assert probe["port"] in ports and probe.get("scheme", "HTTP").lower() == probe["port"]
    settings = settings_of(found, tmp_path)
    assert settings.management_tls_listener == Address("0.0.0.0", 15671)
    plain = [each["value"] for each in container["env"] if each.get("value", "").startswith("127.0.0.1:")]
    assert plain == ["127.0.0.1:5672", "127.0.0.1:15672"]


def test_scaling_restarts_no_node_and_removes_members(tmp_path: Path) -> None:
    assert settings_of(documents("default"), tmp_path).discovery.cleanup_only_warns is False
    checksums = []
    for count, heartbeat in ((3, 60), (5, 60), (5, 61)):
        found = documents("default", f"replicas={count}", f"settings=heartbeat = {heartbeat}")
        checksums.append(found["StatefulSet", RELEASE]["spec"]["template"]["metadata"]["annotations"])
    assert checksums[0] == checksums[1] != checksums[2], "a change of other settings restarts the nodes"


def notes(tmp_path: Path, *settings: str) -> str:
    """Return the rendered NOTES.txt. `helm template` omits it, so a copy of the chart has it as template."""
    chart = tmp_path / "chart"
    shutil.copytree(CHART, chart, dirs_exist_ok=True)
    (chart / "notes").write_text((chart / "templates" / "NOTES.txt").read_text())
    (chart / "templates" / "notes.yaml").write_text('notes: {{ tpl (.Files.Get "notes") . | toJson }}\n')
    given = [word for each in settings for word in ("--set", each)]
    done = helm("template", RELEASE, str(chart), "-n", NAMESPACE, "-s", "templates/notes.yaml", *given)
    assert done.returncode == 0, done.stderr
    found: str = yaml.safe_load(done.stdout)["notes"]
    return found


def test_the_notes_say_how_to_connect(tmp_path: Path) -> None:
    plain = notes(tmp_path)
    assert f"amqp://{RELEASE}.{NAMESPACE}.svc:5672" in plain and "http://localhost:15672" in plain
    assert f"get secret {RELEASE} " in plain and "Argo CD" in plain
    secured = notes(tmp_path, *TLS, "existingSecret=mine")
    assert f"amqps://{RELEASE}.{NAMESPACE}.svc:5671" in secured and "https://localhost:15671" in secured
    assert "get secret mine " in secured and "Argo CD" not in secured


def test_the_chart_has_every_object_of_an_operated_cluster() -> None:
    kinds = {kind for kind, _ in documents("all") | documents("default")}
    assert kinds == {
        "StatefulSet", "Service", "ConfigMap", "Secret", "ServiceAccount", "Role", "RoleBinding",
        "PodDisruptionBudget", "NetworkPolicy", "ServiceMonitor",
    }  # fmt: skip
