"""Language of the tree as a test: first words of docstrings, forbidden words, unique file names, lengths.

The rules are those of CONTRIBUTING.md. Every limit may only shrink.
"""

from __future__ import annotations

import ast
import re
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from tests.test_tidy import ROOT, name_of, parsed, source_files

FIRST_WORDS = re.compile(
    r"(what|who|whom|whose|whoever|whatever|where|which|how|so|it|the same|these|those"
    r"|nobody|somebody|everybody)\b",
    re.IGNORECASE,
)
"""A docstring begins with a technical noun or an imperative verb, never with one of these."""

FORBIDDEN = (
    "steward", "household", "tenure", "heir", "knock", "orphanage", "reunion", "surrender", "putting_back",
    "surroundings", "remark", "inquiry", "inquiries", "burying", "buried", "stir", "hurry", "lending",
    "doors", "glance", "mishap", "whoever", "nought", "hearsay", "impostor", "fates",
)  # fmt: skip
"""Words that no RabbitMQ, Raft or Kafka engineer would search for, in names and prose."""

DIRECTORY_OF_ORPHANS = '"orphanage"'
"""Directory name on disk that data of version 0.1 has."""

SHARED_NAMES = {
    "__init__.py", "__main__.py", "cluster.py", "definitions.py", "health.py", "leases.py",
    "parameters.py", "permissions.py", "policies.py", "queues.py", "users.py", "vhosts.py",
}  # fmt: skip
"""Base names that several files have: a command file and an HTTP resource are named after the same object."""

DOCSTRING_WORDS_MAX = 120
"""Words of a docstring of a class or function; a longer story belongs to the module's essay."""

NAMED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def other_files() -> list[Path]:
    """Python files beside the source: tests, benchmarks, examples."""
    folders = ("tests", "benchmarks", "examples")
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))


def docstrings(path: Path) -> Iterator[tuple[str, str]]:
    """Place and text of every docstring of a file."""
    for node in ast.walk(parsed(path)):
        if isinstance(node, NAMED) and (text := ast.get_docstring(node)):
            yield f"{name_of(path)}:{getattr(node, 'name', 'module')}", text


def test_docstrings_begin_with_a_noun_or_a_verb() -> None:
    wrong = [
        f"{place}: {text.splitlines()[0]}"
        for path in (*source_files(), *other_files())
        for place, text in docstrings(path)
        if FIRST_WORDS.match(text)
    ]
    assert not wrong, "\n".join(wrong)


def test_names_of_tests_begin_with_their_subject() -> None:
    wrong = [
        f"{name_of(path)}:{node.name}"
        for path in other_files()
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_")
        if FIRST_WORDS.match(node.name.removeprefix("test_").replace("_", " "))
    ]
    assert not wrong, "\n".join(wrong)


def test_forbidden_words_are_absent() -> None:
    pattern = re.compile(rf"(?<![a-z])({'|'.join(FORBIDDEN)})s?(?![a-z])", re.IGNORECASE)
    wrong = [
        f"{name_of(path)}:{number} {found[0]}"
        for path in (*source_files(), *other_files())
        if path != Path(__file__)
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if (found := pattern.search(line.replace(DIRECTORY_OF_ORPHANS, "")))
    ]
    assert not wrong, "\n".join(wrong)


def test_base_names_of_source_files_are_unique() -> None:
    count = Counter(path.name for path in source_files())
    shared = {name for name, files in count.items() if files > 1}
    assert shared <= SHARED_NAMES, f"choose a name that says which one: {sorted(shared - SHARED_NAMES)}"
    assert shared >= SHARED_NAMES, f"unique by now, remove from the list: {sorted(SHARED_NAMES - shared)}"


def test_docstrings_are_short() -> None:
    wrong = [
        f"{place}: {len(text.split())} words"
        for path in source_files()
        for place, text in docstrings(path)
        if not place.endswith(":module") and len(text.split()) > DOCSTRING_WORDS_MAX
    ]
    assert not wrong, "\n".join(wrong)


def test_explanatory_comments_stand_at_hard_branches() -> None:
    """At least four comments per 1,000 lines that are neither rulers nor pragmas."""
    pragma = re.compile(r"#\s*(type:|noqa|fmt:|pragma|-{2,}|={2,})")
    lines = comments = 0
    for path in source_files():
        with tokenize.open(path) as file:
            comments += sum(
                token.type == tokenize.COMMENT and not pragma.match(token.string)
                for token in tokenize.generate_tokens(file.readline)
            )
        lines += path.read_text().count("\n")
    assert comments * 1000 >= lines * 4, f"{comments} comments in {lines} lines"


GLOSSARY_ENTRIES_MAX = 60
"""Words of our own that a reader has to learn."""


def test_the_glossary_stays_short() -> None:
    rows = [line for line in (ROOT / "docs/GLOSSARY.md").read_text().splitlines() if line.startswith("| ")]
    assert len([row for row in rows if not row.startswith("| term |")]) <= GLOSSARY_ENTRIES_MAX


def test_guarantees_are_cited_by_name() -> None:
    headings = re.findall(r"^## (G\d) ([\w-]+)$", (ROOT / "docs/guarantees.md").read_text(), re.MULTILINE)
    assert len(headings) == 9
    wrong = [
        f"{name_of(path)}: {number} without the name {name}"
        for path in source_files()
        for text in (path.read_text(),)
        for number, name in headings
        for found in re.finditer(rf"\b{number}\b", text)
        if name not in text[max(0, found.start() - 60) : found.end() + 60].lower()
    ]
    assert not wrong, "\n".join(wrong)
