"""Dockerfile as data: pinned base, users, copied files; and the trial that runs its steps.

The trial itself takes minutes and the network: `make acceptance ARGS="--only image"`.
"""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from mirrormq import builds
from tests.deploy.image import DOCKERFILE, PINNED, Builder, Stage, context, read_stages, shown_to_build
from tests.deploy.nodes import ROOT

STAGES = read_stages(DOCKERFILE.read_text())
TARGETS = ("node", "spark")


def copied(stage: Stage) -> list[str]:
    """Sources of the build context that a stage copies."""
    lines = [shlex.split(text) for word, text in stage.steps if word == "COPY" and "--from" not in text]
    return [word for words in lines for word in words[:-1] if not word.startswith("--")]


def test_every_image_begins_with_one_pinned_base() -> None:
    bases = {stage.base for stage in STAGES.values() if stage.base not in STAGES}
    assert len(bases) == 1
    assert all(PINNED.fullmatch(base) for base in bases)


def test_the_last_stage_is_the_node() -> None:
    assert list(STAGES)[-1] == "node"


@pytest.mark.parametrize("target", TARGETS)
def test_an_image_runs_as_a_user_without_rights(target: str) -> None:
    assert STAGES[target].value("USER") == "999"
    created = next(text for word, text in STAGES["base"].steps if word == "RUN")
    assert "useradd --system --uid 999" in created


@pytest.mark.parametrize("target", TARGETS)
def test_an_image_gets_nothing_but_the_environment_of_its_build(target: str) -> None:
    froms = [text.split() for word, text in STAGES[target].steps if word == "COPY" and "--from" in text]
    assert froms == [[f"--from=build-{target}", "/opt/mirrormq", "/opt/mirrormq"]]
    assert "--without-pip /opt/mirrormq" in DOCKERFILE.read_text()


@pytest.mark.parametrize("stage", STAGES.values(), ids=STAGES)
def test_files_that_a_stage_copies_exist_in_the_build_context(stage: Stage) -> None:
    seen = context()
    for source in copied(stage):
        assert any(name == source or name.startswith(f"{source}/") for name in seen), source


def test_a_build_sees_no_compiled_core_and_no_secrets() -> None:
    seen = context()
    assert "src/mirrormq/__init__.py" in seen
    assert not [name for name in seen if builds.COMPILED.name in name or name.endswith(".pyc")]
    assert not [name for name in seen if name.startswith((".git", ".venv", "var/", "tests/"))]


def test_the_last_pattern_of_an_ignore_file_decides() -> None:
    patterns = ["*", "!src", "src/a/_compiled", "**/__pycache__"]
    assert shown_to_build("src/a/b.py", patterns)
    assert not shown_to_build("src/a/_compiled/b.so", patterns)
    assert not shown_to_build("src/a/__pycache__/b.pyc", patterns)
    assert not shown_to_build("README.md", patterns)


def test_requirements_of_an_image_are_pinned_with_hashes() -> None:
    commands = [text for stage in STAGES.values() for word, text in stage.steps if word == "RUN"]
    for command in commands:
        for line in re.findall(r"pip (?:--python \S+ )?install[^&]*", command):
            assert "--require-hashes" in line or ("--no-deps" in line and "wheels/*.whl" in line), line
        if "pip wheel" in command:
            assert "--no-build-isolation" in command


def test_the_trial_runs_steps_in_order_and_copies_between_stages(tmp_path: Path) -> None:
    """Steps that need no chroot, on an empty base that stands for Debian's."""
    text = """\
FROM start AS one
WORKDIR /build
COPY LICENSE README.md ./
COPY requirements/runtime.txt requirements/
FROM one AS nested
COPY LICENSE again
FROM start AS two
ENV PATH=/opt/bin:$PATH KEPT=yes
COPY --from=one /build/requirements /opt/requirements
COPY --chmod=0755 deploy/docker/entrypoint /usr/bin/entrypoint
USER 999
CMD ["server"]
"""
    stages = read_stages("FROM empty AS start\n" + text)
    builder = Builder(stages, tmp_path)
    builder.adopt("start", {"PATH": "/bin"})
    root = builder.root("two")
    assert (tmp_path / "one" / "build" / "README.md").read_text() == (ROOT / "README.md").read_text()
    assert (root / "opt" / "requirements" / "runtime.txt").is_file() and not (root / "build").exists()
    assert (root / "usr" / "bin" / "entrypoint").stat().st_mode & 0o777 == 0o755
    assert builder.environment("two") == {"PATH": "/opt/bin:/bin", "KEPT": "yes"}
    assert (builder.root("nested") / "build" / "again").is_file()
    assert json.loads(stages["two"].value("CMD")) == ["server"]
