"""Site of the documentation: strict build, languages, search, API reference, nothing from other hosts."""

from __future__ import annotations

import importlib
import importlib.util
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tests.test_documents import DOCUMENTS
from tests.test_tidy import ROOT, name_of

pytestmark = pytest.mark.timeout(600)  # two builds of 10 s of processor time each, on a busy machine
PUBLIC = ("mirrormq.testing", "mirrormq.spark", "mirrormq.arrow", "mirrormq.ranges")
FOREIGN = re.compile(r"""<(?:script|img|link)[^>]+(?:src|href)="(?:https?:)?//[^"]+"[^>]*>""")
CANONICAL = 'rel="canonical"'


def load_builder() -> ModuleType:
    """Load docs/site.py, which is no package."""
    spec = importlib.util.spec_from_file_location("docs_site", ROOT / "docs" / "site.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    into = tmp_path_factory.mktemp("docs")
    command = [sys.executable, str(ROOT / "docs" / "site.py"), "--into", str(into)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return into


def test_every_document_is_a_page(folder: Path) -> None:
    for path in DOCUMENTS:
        name = name_of(path).removesuffix(".md")
        page = name.removesuffix(".zh").removesuffix("README").rstrip("/")
        language = "zh" if name.endswith(".zh") else ""
        assert (folder / "site" / language / page / "index.html").is_file(), name


def test_every_title_of_the_navigation_has_a_translation() -> None:
    text = (ROOT / "mkdocs.yml").read_text()
    titles = set(re.findall(r"^ +- ([^:\n]+):", text.partition("\nnav:\n")[2], re.MULTILINE))
    translated = set(re.findall(r"^ {12}([^:\n]+):", text, re.MULTILINE))
    assert titles and titles <= translated


def test_the_introduction_exists_in_both_languages(folder: Path) -> None:
    for language, words in (("", ("Install", "English")), ("zh", ("安装", "中文"))):
        text = (folder / "site" / language / "index.html").read_text()
        assert f'lang="{language or "en"}"' in text
        assert all(word in text for word in words)


def test_the_search_knows_english_and_chinese_words(folder: Path) -> None:
    index = json.loads((folder / "site" / "search" / "search_index.json").read_text())
    assert set(index["config"]["lang"]) == {"en", "zh"}
    texts = [entry["text"] for entry in index["docs"]]
    assert any("haproxy-config" in text for text in texts)
    # A zero-width space parts Chinese words; without it only whole sentences are found.
    assert any("\u200b镜像\u200b" in text for text in texts)


def test_the_reference_has_what_the_public_modules_export(folder: Path) -> None:
    text = (folder / "site" / "docs" / "api" / "index.html").read_text()
    for name in PUBLIC:
        for exported in importlib.import_module(name).__all__:
            assert f'id="{name}.{exported}"' in text, (name, exported)


def test_no_page_loads_anything_from_another_host(folder: Path) -> None:
    for page in (folder / "site").rglob("*.html"):
        found = [tag for tag in FOREIGN.findall(page.read_text()) if CANONICAL not in tag]
        assert not found, (page, found)


def test_a_link_without_target_ends_the_build(folder: Path, tmp_path: Path) -> None:
    sources = tmp_path / "sources"
    shutil.copytree(folder / "sources", sources)
    with (sources / "docs" / "backup.md").open("a") as document:
        document.write("\n[nowhere](operations.md#no-such-heading)\n")
    assert load_builder().render(tmp_path) != 0
