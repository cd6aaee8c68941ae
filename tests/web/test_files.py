"""Served files: strict headers, no external dependencies, texts in two languages."""

from __future__ import annotations

import fnmatch
import gzip
import hashlib
import re
import tomllib
from pathlib import Path

import pytest

from tests.brokers.mirrormq import MirrorMQ
from tests.management.http import Client

ROOT = Path(__file__).resolve().parents[2]
WEB = ROOT / "src" / "mirrormq" / "management" / "web"
FILES = sorted(path.relative_to(WEB).as_posix() for path in WEB.rglob("*") if path.is_file())
OURS = [name for name in FILES if not name.startswith("vendor/")]


def assets(client: Client) -> str:
    found = re.search(rb"(assets/[0-9a-f]+)/main.js", client.request("GET", "//").body)
    assert found is not None
    return found[1].decode()


def test_the_page_allows_its_own_files_and_nothing_else(client: Client) -> None:
    answer = client.request("GET", "//")
    assert answer.status == 200 and answer.headers["content-type"] == "text/html; charset=utf-8"
    rules = dict(
        rule.strip().partition(" ")[::2] for rule in answer.headers["content-security-policy"].split(";")
    )
    assert rules["default-src"] == "'none'"
    assert {rules["script-src"], rules["style-src"], rules["connect-src"]} == {"'self'"}
    assert {rules["frame-ancestors"], rules["base-uri"], rules["form-action"]} == {"'none'"}
    assert "unsafe" not in answer.headers["content-security-policy"]
    assert answer.headers["x-frame-options"] == "DENY"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["referrer-policy"] == "no-referrer"
    assert "set-cookie" not in answer.headers


def test_files_are_kept_for_ever_and_the_first_page_is_not(client: Client) -> None:
    first = client.request("GET", "//")
    assert first.headers["cache-control"] == "no-cache"
    again = client.request("GET", "//", headers={"If-None-Match": first.headers["etag"]})
    assert (again.status, again.body) == (304, b"")
    script = client.request("GET", f"//{assets(client)}/main.js")
    assert "immutable" in script.headers["cache-control"]
    assert script.headers["content-type"].startswith("text/javascript")
    packed = client.request("GET", f"//{assets(client)}/main.js", headers={"Accept-Encoding": "gzip"})
    assert packed.headers["content-encoding"] == "gzip" and gzip.decompress(packed.body) == script.body


def test_every_file_is_served_and_nothing_beside_them(client: Client) -> None:
    where = assets(client)
    for name in FILES:
        if name != "index.html":
            answer = client.request("GET", f"//{where}/{name}")
            assert answer.status == 200, name
            assert answer.body == (WEB / name).read_bytes()
            assert "content-security-policy" in answer.headers and "x-frame-options" in answer.headers
    for path in (f"{where}/../pages.py", f"{where}/%2e%2e/pages.py", "assets/0/main.js", "index.html", "web"):
        assert client.request("GET", f"//{path}").status == 404, path


def test_a_file_cannot_be_posted_to(client: Client) -> None:
    answer = client.request("POST", "//")
    assert (answer.status, answer.headers["allow"]) == (405, "HEAD, GET")
    assert client.request("HEAD", "//").status == 200


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_a_page_of_another_site_cannot_act(client: Client, site: str) -> None:
    """Check a header that browsers add themselves and scripts cannot change."""
    headers = {"Sec-Fetch-Site": site}
    assert client.request("PUT", "queues/%2F/planted", {}, headers).status == 403
    assert client.request("POST", "rebalance/queues", {}, headers).status == 403
    assert client.request("DELETE", "queues/%2F/planted", headers=headers).status == 403
    assert "planted" not in [row["name"] for row in client.get("queues")]
    own = client.request("PUT", "queues/%2F/planted", {}, {"Sec-Fetch-Site": "same-origin"})
    assert own.status == 201
    assert client.delete("queues/%2F/planted").status == 204


def test_every_resource_comes_from_the_node() -> None:
    elsewhere = re.compile(r"(?:https?:)?//[\w-]+\.[\w.-]+")
    for name in OURS:
        found = [each for each in elsewhere.findall((WEB / name).read_text()) if "www.w3.org" not in each]
        assert not found, (name, found)


def test_texts_become_markup_nowhere() -> None:
    """Check that no code writes markup: Preact writes text."""
    for name in OURS:
        if name.endswith(".js"):
            text = (WEB / name).read_text()
            for door in (
                "innerHTML",
                "outerHTML",
                "dangerouslySet",
                "insertAdjacentHTML",
                "document.write",
                "eval(",
            ):
                assert door not in text, (name, door)


def test_files_are_small() -> None:
    sizes = {name: len((WEB / name).read_text().splitlines()) for name in OURS}
    assert not {name: size for name, size in sizes.items() if size > 400 and "locales" not in name}
    total = sum((WEB / name).stat().st_size for name in FILES)
    assert total < 500_000, "the whole page, unpacked: about a third of that is sent"


def test_the_wheel_takes_every_file_with_it() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    patterns = settings["tool"]["setuptools"]["package-data"]["mirrormq"]
    for name in FILES:
        path = f"management/web/{name}"
        assert any(fnmatch.fnmatch(path, pattern.replace("**/", "*")) for pattern in patterns), path


def test_vendored_files_are_what_the_list_says() -> None:
    vendor = WEB / "vendor"
    rows = re.findall(
        r"^\| (\S+) \| .*? \| .*? \| ([0-9a-f]{64}) \|", (vendor / "LICENSES.md").read_text(), re.M
    )
    originals = {name: (vendor / name).read_text() for name, _ in rows}
    originals["preact.js"] += "//# sourceMappingURL=preact.module.js.map\n"
    hooks = originals["hooks.js"].replace('from"./preact.js"', 'from"preact"')
    originals["hooks.js"] = hooks + "//# sourceMappingURL=hooks.module.js.map\n"
    originals["uplot.js"] = originals["uplot.js"].removesuffix("\nexport default uPlot;\n")
    found = {name: hashlib.sha256(text.encode()).hexdigest() for name, text in originals.items()}
    assert found == dict(rows)
    assert {path.name for path in vendor.iterdir()} == {*found, "LICENSES.md"}


def dictionary(language: str) -> dict[str, str]:
    pairs = re.findall(r'^  "([^"]+)": "(.*)",$', (WEB / "locales" / f"{language}.js").read_text(), re.M)
    assert len(dict(pairs)) == len(pairs), "a key stands twice"
    return dict(pairs)


def test_both_languages_say_the_same_things() -> None:
    english, chinese = dictionary("en"), dictionary("zh")
    assert english.keys() == chinese.keys()
    for key, text in english.items():
        assert sorted(re.findall(r"\{\w+\}", text)) == sorted(re.findall(r"\{\w+\}", chinese[key])), key


def test_every_text_that_is_asked_for_exists_and_none_is_forgotten() -> None:
    scripts = "\n".join(
        (WEB / name).read_text() for name in OURS if name.endswith(".js") and "locales" not in name
    )
    plain = set(re.findall(r'\bt\("([\w.]+)"', scripts))
    known = dictionary("en").keys()
    assert plain <= known, plain - known
    built = [re.escape(each) for each in re.findall(r"\bt\(`([\w.]*?)\$\{", scripts)]
    counted = {f"{key}.one" for key in plain}
    unused = [
        key for key in known - plain - counted if not any(re.match(start, key) for start in built if start)
    ]
    assert not unused


def test_the_page_is_there_without_a_login_and_the_numbers_are_not(node: MirrorMQ) -> None:
    stranger = Client(node.management_port, "nobody", "nothing")
    assert stranger.request("GET", "//").status == 200
    assert stranger.request("GET", "mirrormq/live").status == 401
