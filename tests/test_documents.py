"""Documents can be followed: links have targets, files exist, commands parse.

Commands in blocks are read to the last option by the programs' own parsers, without being run. Those in
sentences are often cut short, so there the command itself has to exist.
"""

from __future__ import annotations

import importlib.util
import re
import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
import typer

from mirrormq.cli import ctl
from mirrormq.cli.command_line import UsageError, parse
from mirrormq.cli.completion import WITHOUT_A_NODE
from mirrormq.cli.ctl_commands import COMMANDS
from mirrormq.cli.program import app
from tests.test_tidy import ROOT, name_of, tracked_files

DOCUMENTS = [path for path in tracked_files() if path.suffix == ".md" and path.name != "LICENSES.md"]

FENCED = re.compile(r"^ *```(\w*)\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
INDENTED = re.compile(r"(?<=\n\n)(?:(?: {4}.*)?\n)+")
SHELL = ("", "sh", "bash", "console")
LINK = re.compile(r"\]\((?!\w+:)([^)#\s]*)(?:#([^)\s]+))?\)")
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)
DECISION = re.compile(r"decisions? (\d{4})")
DECISIONS = {path.name[:4] for path in (ROOT / "docs" / "decisions").glob("*.md")}
CODE = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
FILE = re.compile(
    r"[\w./*-]+\.(?:py|md|toml|in)|(?:[\w.-]+/)+"
    r"|(?:\.ci|src|tests|docs|benchmarks|deploy|examples|spec|requirements)/[\w./*-]+"
)
COMMAND = re.compile(r"(?:\.venv/bin/)?(mirrormq|mirrormqctl|make|python3? -m)(?= |$)(.*)")
SEVERAL = re.compile(r"&&|<\(|\)\s")
"""Between the commands of one line."""
TARGETS = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
VARIABLE = re.compile(r"\b[A-Z]+\b|\*")
"""Stands in a file's name for any word."""


@cache
def tree() -> str:
    """Every file and folder, one a line, each with a slash in front."""
    names = {name_of(path) for path in tracked_files()}
    folders = {f"{parent.as_posix()}/" for name in names for parent in Path(name).parents}
    return "".join(f"/{name}\n" for name in sorted(names | folders))


def is_there(name: str) -> bool:
    """Does the way to some file or folder end like that?"""
    if f"/{name}\n" in tree() or f"/{name}/\n" in tree():
        return True
    pattern = r"[^/\n]+".join(map(re.escape, VARIABLE.split(name)))
    return re.search(f"/{pattern}\n", tree()) is not None


def prose(path: Path) -> str:
    """The text without its blocks."""
    return INDENTED.sub("", FENCED.sub("", path.read_text()))


def block_lines(path: Path) -> Iterator[str]:
    """The lines of a document's blocks, with those that go on in the next one joined."""
    text = path.read_text()
    blocks = [block for language, block in FENCED.findall(text) if language in SHELL]
    blocks += map(dedent, INDENTED.findall(FENCED.sub("", text)))
    yield from "\n".join(blocks).replace("\\\n", " ").splitlines()


def anchors(path: Path) -> set[str]:
    """Return the anchors that a link into a document may name."""
    headings = HEADING.findall(FENCED.sub("", path.read_text()))
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@cache
def program() -> Any:
    """`mirrormq`, in classes that differ between typer's versions."""
    return typer.main.get_command(app)


def read_by_mirrormq(words: list[str]) -> None:
    """Commands down to the last one, then its options."""
    command = program()
    while words and hasattr(command, "commands") and not words[0].startswith("-"):
        assert words[0] in command.commands, f"there is no {words[0]}"
        command, words = command.commands[words[0]], words[1:]
    flags = {flag for parameter in command.params for flag in (*parameter.opts, *parameter.secondary_opts)}
    wrong = [word for word in words if word.startswith("--") and word.partition("=")[0] not in flags]
    assert not wrong, f"there is no {wrong}"


def read_by_mirrormqctl(words: list[str], *, whole: bool) -> None:
    """The command and, if the words are `whole`, all that rabbitmqctl looks at before it asks a node."""
    line = parse(words)
    if not line.words or line.words[0] in ("help", "version"):
        return
    name, line.words = line.words[0], line.words[1:]
    assert name in COMMANDS or name in WITHOUT_A_NODE, f"there is no command {name}"
    if whole:
        ctl.check(COMMANDS[name], line)


def complaint(command: str, *, whole: bool) -> str:
    """Return the error of a command, empty if there is none."""
    if (found := COMMAND.match(command)) is None:
        return ""
    try:
        words = shlex.split(found[2].partition(" > ")[0], comments=True)
        if found[1] == "mirrormq":
            read_by_mirrormq(words)
        elif found[1] == "mirrormqctl":
            read_by_mirrormqctl(words, whole=whole)
        elif found[1] == "make":
            wrong = [word for word in words if "=" not in word and word not in TARGETS]
            assert not wrong, f"no such target: {wrong}"
        else:
            assert importlib.util.find_spec(words[0]) is not None, f"no such module: {words[0]}"
    except (UsageError, AssertionError, ImportError, ValueError) as error:
        return str(error) or type(error).__name__
    return ""


def test_there_is_something_to_look_at() -> None:
    assert len(DOCUMENTS) > 30
    assert sum(bool(COMMAND.match(part)) for path in DOCUMENTS for part in block_lines(path)) > 50
    assert complaint("mirrormq cluster up --node 3", whole=True)
    assert complaint("mirrormq clutser", whole=False)
    assert complaint("mirrormqctl list_queues nam", whole=True)
    assert complaint("mirrormqctl list_queuse", whole=False)
    assert complaint("make tset", whole=False)
    assert complaint("python -m benchmarks.runs", whole=False)


def test_the_index_of_decisions_lists_every_record_in_order() -> None:
    index = (ROOT / "docs/decisions/README.md").read_text()
    listed = re.findall(r"^\| \[\d{4}\]\((.+?)\) \|", index, re.MULTILINE)
    assert listed == sorted(path.name for path in (ROOT / "docs/decisions").glob("0*.md"))


def test_every_document_is_in_the_navigation_of_the_site() -> None:
    """Add a new document to the `nav` of mkdocs.yml, and its title to `nav_translations`."""
    listed = (ROOT / "mkdocs.yml").read_text()
    names = [name for path in DOCUMENTS if not (name := name_of(path)).endswith(".zh.md")]
    missing = [name for name in names if f": {name}\n" not in listed and "/decisions/0" not in name]
    assert not missing


def test_the_changelog_has_the_form_of_keep_a_changelog() -> None:
    text = (ROOT / "CHANGELOG.md").read_text()
    versions = re.findall(r"^## (.*)$", text, re.MULTILINE)
    assert versions[0] == "[Unreleased]"
    wrong = [name for name in versions[1:] if not re.fullmatch(r"\[\d+\.\d+\.\d+\] - \d{4}-\d\d-\d\d", name)]
    sections = ["Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"]
    for version in re.split(r"^## .*$", text, flags=re.MULTILINE)[1:]:
        found = re.findall(r"^### (.*)$", version, re.MULTILINE)
        wrong += [name for name in found if name not in sections]
        assert found == sorted(found, key=sections.index), "each section once, in this order"
        assert len(found) == len(set(found))
    assert not wrong


@pytest.mark.parametrize("path", DOCUMENTS, ids=name_of)
def test_a_document_can_be_followed(path: Path) -> None:
    wrong = []
    for target, anchor in LINK.findall(FENCED.sub("", path.read_text())):
        to = (path.parent / target).resolve() if target else path
        if not to.exists() or (anchor and anchor not in anchors(to)):
            wrong.append(f"leads nowhere: {target}#{anchor}")
    for code in CODE.findall(prose(path)):
        if FILE.fullmatch(code) and not is_there(code):
            wrong.append(f"is not there: {code}")
        if reported := complaint(code, whole=False):
            wrong.append(f"{code}: {reported}")
    numbers = set(DECISION.findall(path.read_text())) - DECISIONS
    wrong += [f"there is no decision {number}" for number in sorted(numbers)]
    for line in block_lines(path):
        wrong += [
            f"{part}: {reported}"
            for part in SEVERAL.split(line)
            if (reported := complaint(part.strip(), whole=True))
        ]
    assert not wrong, "\n".join(wrong)
