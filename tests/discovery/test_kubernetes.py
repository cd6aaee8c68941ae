"""Peer discovery with the API of Kubernetes: TLS, token, Endpoints object, and nodes that use it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from mirrormq.cluster.discovered_peers import (
    DiscoveryFailed,
    absent_members,
    hosts_of_endpoints,
    is_expected,
    may_create,
    ordinal_of,
)
from mirrormq.config.settings import Settings
from mirrormq.config.settings_loader import load_settings
from mirrormq.runtime.peer_discovery import discovered_peers
from tests.discovery.kubernetes_api import KubernetesApi

SUFFIX = ".mirrormq-nodes.brokers.svc.cluster.local"


@pytest.fixture
def api(tmp_path: Path) -> Iterator[KubernetesApi]:
    api = KubernetesApi(tmp_path)
    yield api
    api.server.shutdown()
    api.server.server_close()


def settings_of(api: KubernetesApi, more: str = "") -> Settings:
    conf = api.directory / "node.conf"
    conf.write_text(api.settings() + more)
    return replace(load_settings([], {}, conf), name=f"mirrormq@mirrormq-0{SUFFIX}")


def discover(settings: Settings) -> dict[str, str]:
    return asyncio.run(discovered_peers(settings))


def test_ready_and_starting_pods_are_found_by_host_name(api: KubernetesApi) -> None:
    settings = settings_of(api, f"cluster_formation.k8s.hostname_suffix = {SUFFIX}\n")
    assert discover(settings) == {}
    api.ready = [{"ip": "10.1.0.4", "hostname": "mirrormq-0"}]
    api.not_ready = [{"ip": "10.1.0.5", "hostname": "mirrormq-1"}]
    assert discover(settings) == {
        f"mirrormq@mirrormq-{number}{SUFFIX}": f"mirrormq-{number}{SUFFIX}:25672" for number in range(2)
    }


def test_pods_are_found_by_address(api: KubernetesApi) -> None:
    api.ready = [{"ip": "10.1.0.4", "hostname": "mirrormq-0"}]
    settings = settings_of(api, "cluster_formation.k8s.address_type = ip\n")
    assert discover(settings) == {"mirrormq@10.1.0.4": "10.1.0.4:25672"}


def test_a_token_is_read_again_for_each_request(api: KubernetesApi) -> None:
    """Kubernetes replaces tokens while a pod runs."""
    token = api.directory / "token"
    right = token.read_text()
    token.write_text("expired")
    with pytest.raises(DiscoveryFailed, match="answers 401 Unauthorized; the token is not valid"):
        discover(settings_of(api))
    token.write_text(right)
    assert discover(settings_of(api)) == {}


def test_a_missing_service_is_named(api: KubernetesApi) -> None:
    settings = settings_of(api, "cluster_formation.k8s.service_name = absent\n")
    with pytest.raises(DiscoveryFailed, match=r"endpoints/absent answers 404 .*no service of that name"):
        discover(settings)


def test_an_api_with_another_certificate_is_refused(api: KubernetesApi, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    imposter = KubernetesApi(other)
    settings = settings_of(api, f"cluster_formation.k8s.port = {imposter.port}\n")
    with pytest.raises(DiscoveryFailed, match="CERTIFICATE_VERIFY_FAILED"):
        discover(settings)
    imposter.server.shutdown()


@pytest.mark.parametrize("document", [[], {"subsets": 5}, {"subsets": [{"addresses": [{"ip": "10.0.0.1"}]}]}])
def test_an_unusable_object_is_refused(document: object) -> None:
    with pytest.raises(DiscoveryFailed):
        hosts_of_endpoints(document, "hostname", "")


def test_only_ordinal_0_creates_a_cluster() -> None:
    names = [f"mirrormq@mirrormq-{number}{SUFFIX}" for number in range(11)]
    assert [ordinal_of(name) for name in names] == list(range(11))
    assert [may_create(name, names, 0) for name in names] == [True] + [False] * 10
    assert not may_create(names[1], names[1:], 0), "pod 0 is late: pod 1 must wait for it"


def test_without_ordinals_the_first_name_creates_a_cluster() -> None:
    names = ["mirror@a.example", "mirror@b.example", "mirror@c.example"]
    assert [may_create(name, names, 0) for name in names] == [True, False, False]
    assert not may_create("mirror@0.example", names, 0), "discovery does not show this node"


def test_a_size_hint_needs_a_majority() -> None:
    name = "mirror@a.example"
    found = [name, "mirror@b.example", "mirror@c.example"]
    for size, least in ((1, 1), (2, 2), (3, 2), (5, 3)):
        assert [may_create(name, found[:count], size) for count in (1, 2, 3)] == [
            count >= least for count in (1, 2, 3)
        ]


def test_stopped_members_that_discovery_does_not_show_are_absent() -> None:
    running = {"m@a": True, "m@b": False, "m@c": False, "m@d": True}
    assert absent_members(running, {"m@a", "m@c"}) == ["m@b"]
    assert absent_members(running, {}) == []


def test_a_pod_of_the_target_size_is_expected_back() -> None:
    names = [f"mirrormq@mirrormq-{ordinal}{SUFFIX}" for ordinal in range(4)]
    assert [is_expected(name, 3) for name in names] == [True, True, True, False]
    assert not is_expected("mirrormq@10.1.0.4", 3), "an address has no ordinal"
    assert not is_expected(names[0], 0), "no target size"
