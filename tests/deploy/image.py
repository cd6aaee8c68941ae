"""Trial `image` of `make acceptance`: the steps of deploy/docker/Dockerfile in roots of Debian.

There is no Docker daemon and no registry here. mmdebstrap makes the root of the base image from Debian's
packages; each RUN runs in a chroot, each COPY copies what the ignore file lets through. The trial then checks
size, user and contents of the image, starts its entrypoint as its user, and keeps a message over a restart.
It needs root, mmdebstrap and the network.

    python -m tests.deploy.image [--target node] [--keep FOLDER]
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import pika

from tests.brokers.ports import free_ports
from tests.deploy.nodes import ROOT
from tests.waiting import until

DOCKERFILE = ROOT / "deploy" / "docker" / "Dockerfile"
IGNORED = DOCKERFILE.with_name("Dockerfile.dockerignore")
IMAGE_BYTES_MAX = {"node": 150_000_000, "spark": 1_200_000_000}
"""Bytes of all files. The node's limit is that of the product; the other one has room for Spark and Java."""

START_S = 60.0
RESOLVER = Path("/etc/resolv.conf")
CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
SLIM = ("usr/share/doc/*", "usr/share/man/*", "usr/share/info/*", "usr/share/locale/*", "usr/share/lintian/*")
"""Paths that the slim variant of Debian's image leaves out."""

NO_CACHE = ('Dir::Cache::pkgcache ""', 'Dir::Cache::srcpkgcache ""')
"""Settings of apt in Debian's images: without them an index of 60 MB stays behind each installation."""

CONTEXT_FOLDERS = ("src", "requirements", "deploy")
"""Folders that the ignore file lets through, in part."""

COUNTS_ROWS = "from mirrormq.spark import start_session as s; print('rows', s('trial').range(7).count())"

METADATA = {"VOLUME", "EXPOSE", "STOPSIGNAL", "HEALTHCHECK", "ENTRYPOINT", "CMD"}
FROM = re.compile(r"(?P<base>\S+) AS (?P<name>\S+)")
PINNED = re.compile(r"debian:(?P<suite>[a-z]+)-\d{8}-slim@sha256:[0-9a-f]{64}")


@dataclass
class Stage:
    """One FROM with its instructions, in order."""

    name: str
    base: str
    steps: list[tuple[str, str]] = field(default_factory=list)

    def value(self, instruction: str) -> str:
        """Return the argument of the last such instruction, empty if there is none."""
        return next((text for word, text in reversed(self.steps) if word == instruction), "")


def read_stages(text: str) -> dict[str, Stage]:
    """Read a Dockerfile whose stages all have names."""
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    stages: dict[str, Stage] = {}
    current = None
    for line in re.sub(r"\\\n\s*", " ", "\n".join(lines)).splitlines():
        word, _, rest = line.partition(" ")
        if word == "FROM":
            found = FROM.fullmatch(rest)
            assert found is not None, f"a stage without a name: {line}"
            current = stages[found["name"]] = Stage(found["name"], found["base"])
        else:
            assert current is not None
            current.steps.append((word, rest))
    return stages


def shown_to_build(name: str, patterns: list[str]) -> bool:
    """Return whether the ignore file lets a path through; the last pattern that matches decides."""
    parents = [name, *(str(parent) for parent in Path(name).parents if str(parent) != ".")]
    shown = True
    for pattern in patterns:
        wanted = pattern.removeprefix("!")
        globs = [wanted, wanted.removeprefix("**/")]
        if any(fnmatch.fnmatch(part, glob) for part in parents for glob in globs):
            shown = pattern.startswith("!")
    return shown


def context() -> list[str]:
    """Return the files of the working tree that a build sees."""
    lines = [line for line in IGNORED.read_text().splitlines() if line and not line.startswith("#")]
    inner = [path for folder in CONTEXT_FOLDERS for path in files_in(ROOT / folder)]
    outer = [path for path in ROOT.iterdir() if path.is_file()]
    names = (path.relative_to(ROOT).as_posix() for path in [*inner, *outer])
    return sorted(name for name in names if shown_to_build(name, lines))


def files_in(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()]


def size_of(root: Path) -> int:
    """Bytes of the files of a root, each file with several names once."""
    seen = {(stat.st_ino, stat.st_size) for path in files_in(root) if (stat := path.stat())}
    return sum(size for _, size in seen)


class Builder:
    """Roots of the stages under one folder, built on demand."""

    def __init__(self, stages: dict[str, Stage], folder: Path) -> None:
        self._stages = stages
        self._folder = folder
        self._environments: dict[str, dict[str, str]] = {}
        self._directories: dict[str, str] = {}
        """Working directory at the end of each stage; a stage on top of it begins there."""

    def root(self, name: str) -> Path:
        """Return the root of a stage, which is built first if it is not there yet."""
        root = self._folder / name
        if name not in self._environments:
            stage = self._stages[name]
            if stage.base in self._stages:
                base = self.root(stage.base)
                subprocess.run(["cp", "-a", str(base), str(root)], check=True)
                environment = dict(self._environments[stage.base])
            else:
                bootstrap(stage.base, root)
                environment = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
            self._environments[name] = environment
            self._run(stage, root, environment)
        return root

    def adopt(self, name: str, environment: dict[str, str]) -> None:
        """Take an empty root as a stage that is built already."""
        (self._folder / name).mkdir(parents=True)
        self._environments[name] = environment

    def environment(self, name: str) -> dict[str, str]:
        """Return the variables that a program of a built stage sees."""
        return self._environments[name]

    def _run(self, stage: Stage, root: Path, environment: dict[str, str]) -> None:
        directory = self._directories.get(stage.base, "/")
        for word, text in stage.steps:
            print(f"-- {stage.name}: {word} {text[:100]}", flush=True)
            if word == "RUN":
                run_inside(root, environment, f"cd {directory} && {text}")
            elif word == "COPY":
                self._copy(root, directory, shlex.split(text))
            elif word == "ENV":
                for pair in shlex.split(text):
                    key, _, value = pair.partition("=")
                    environment[key] = value.replace("$PATH", environment["PATH"])
            elif word == "WORKDIR":
                directory = text
                inside(root, text).mkdir(parents=True, exist_ok=True)
            else:
                assert word == "USER" or word in METADATA, f"unknown instruction {word}"
        self._directories[stage.name] = directory

    def _copy(self, root: Path, directory: str, words: list[str]) -> None:
        options = dict(word.removeprefix("--").split("=", 1) for word in words if word.startswith("--"))
        *sources, target = [word for word in words if not word.startswith("--")]
        into = inside(root, os.path.join(directory, target))
        if "from" in options:
            (source,) = sources
            shutil.copytree(inside(self.root(options["from"]), source), into, symlinks=True)
            return
        for source in sources:
            for name in context():
                if name != source and not name.startswith(f"{source}/"):
                    continue
                if name == source:
                    to = into / Path(name).name if target.endswith("/") else into
                else:
                    to = into / name.removeprefix(f"{source}/")
                to.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, to)
                to.chmod(int(options["chmod"], 8) if "chmod" in options else to.stat().st_mode)


def inside(root: Path, path: str) -> Path:
    """Return where a path of the image is on this machine."""
    return root / os.path.normpath(path).lstrip("/")


def bootstrap(image: str, root: Path) -> None:
    """Make the root of the base image from Debian's packages."""
    pinned = PINNED.fullmatch(image)
    assert pinned is not None, f"not a pinned image of Debian: {image}"
    left_out = [f"--dpkgopt=path-exclude=/{path}" for path in SLIM]
    settings = [f"--aptopt={setting}" for setting in NO_CACHE]
    command = ["mmdebstrap", "--quiet", "--variant=minbase", *left_out, *settings, pinned["suite"], str(root)]
    subprocess.run(command, check=True)


def run_inside(root: Path, environment: dict[str, str], command: str) -> None:
    """Run a step as root, with this machine's name service and certificates for its downloads."""
    lent = {RESOLVER: inside(root, str(RESOLVER)), CERTIFICATES: root / "run" / "certificates.crt"}
    for source, target in lent.items():
        shutil.copyfile(source, target)
    variables = environment | {"PIP_CERT": "/run/certificates.crt", "DEBIAN_FRONTEND": "noninteractive"}
    words = ["unshare", "--mount", "--pid", "--fork", "chroot", str(root)]
    words += ["/bin/sh", "-c", f"mount -t proc proc /proc; {command}"]
    subprocess.run(words, env=variables, check=True, stdin=subprocess.DEVNULL)
    for target in lent.values():
        target.unlink(missing_ok=True)


def check_contents(root: Path, stage: Stage) -> int:
    """Check size and contents of an image; returns its bytes."""
    size = size_of(root)
    assert size < IMAGE_BYTES_MAX[stage.name], f"{size / 1e6:.1f} MB"
    for name in ("usr/bin/gcc", "usr/bin/pip", "usr/bin/pip3", "build", "opt/build"):
        assert not (root / name).exists(), name
    assert not list((root / "opt" / "mirrormq").rglob("pip")), "pip is in the image"
    words = [*as_user(root, stage), "find", "/", "-xdev", "-type", "d", "-writable"]
    writable = subprocess.run(words, check=False, capture_output=True, text=True).stdout.split()
    ours = ("/var/lib/mirrormq", "/run/mirrormq", "/tmp", "/var/tmp", "/run/lock", "/dev/shm", "/dev/mqueue")
    assert not [path for path in writable if not path.startswith(ours)], writable
    return size


def run_node(root: Path, environment: dict[str, str], stage: Stage) -> None:
    """Run the entrypoint as the image's user: probes, compiled core, a message that outlives a restart."""
    amqp, management, cluster = free_ports(3)
    variables = environment | {
        "MIRRORMQ_NAME": "image@localhost", "MIRRORMQ_COOKIE": "a long secret for the trial",
        "HOME": "/var/lib/mirrormq",
        "MIRRORMQ_LISTENERS__TCP__DEFAULT": f"127.0.0.1:{amqp}",
        "MIRRORMQ_MANAGEMENT__ADDRESS": f"127.0.0.1:{management}",
        "MIRRORMQ_CLUSTER__LISTENER": f"127.0.0.1:{cluster}",
    }  # fmt: skip
    prefix = [*as_user(root, stage), *json.loads(stage.value("ENTRYPOINT"))]

    def ask(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([*prefix, *words], env=variables, capture_output=True, text=True, check=False)

    for first in (True, False):
        command = [*prefix, *json.loads(stage.value("CMD"))]
        node = subprocess.Popen(command, env=variables, stdin=subprocess.DEVNULL)
        try:
            until(lambda: ask("healthy").returncode == 0, "the node is healthy", START_S)
            status = ask("mirrormqctl", "-q", "status").stdout
            assert "compiled" in status, status
            password = (root / "var/lib/mirrormq/admin-password").read_text().strip()
            publish_or_get(amqp, password, publishes=first)
            node.send_signal(signal.SIGTERM)
            assert node.wait(START_S) == 0
        finally:
            if node.poll() is None:
                node.kill()
                node.wait()


def publish_or_get(port: int, password: str, *, publishes: bool) -> None:
    """Publish a persistent message, or get the one of the run before."""
    login = pika.PlainCredentials("admin", password)
    connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", port, credentials=login))
    channel = connection.channel()
    channel.queue_declare("orders", durable=True)
    channel.confirm_delivery()
    if publishes:
        channel.basic_publish("", "orders", b"kept", pika.BasicProperties(delivery_mode=2))
    else:
        assert channel.basic_get("orders", auto_ack=True)[2] == b"kept"
    connection.close()


def as_user(root: Path, stage: Stage) -> list[str]:
    """Return the words in front of a command that runs inside an image as its user."""
    user = stage.value("USER")
    return ["chroot", f"--userspec={user}:{user}", str(root)]


def run_pipeline(root: Path, environment: dict[str, str], stage: Stage) -> None:
    """Run the program of the Spark image: its help, and a Spark session on its Java."""
    program = as_user(root, stage)
    words = [*program, *json.loads(stage.value("ENTRYPOINT")), *json.loads(stage.value("CMD"))]
    assert b"archive" in subprocess.run(words, env=environment, check=True, capture_output=True).stdout
    script = shlex.join([*program, "python3", "-c", COUNTS_ROWS])
    mounted = f"mount --bind /dev {root}/dev; mount -t proc proc {root}/proc; exec {script}"
    words = ["unshare", "--mount", "sh", "-c", mounted]
    done = subprocess.run(words, env=environment, check=True, capture_output=True)
    assert b"rows 7" in done.stdout, done.stdout


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    targets = ["node", "spark"]
    parser.add_argument("--target", action="append", default=[], choices=targets, help="both if none")
    parser.add_argument("--keep", type=Path, help="folder that keeps the roots")
    options = parser.parse_args()
    if os.geteuid() != 0 or shutil.which("mmdebstrap") is None:
        sys.exit("The trial of the image needs root and mmdebstrap (Debian: apt install mmdebstrap).")
    folder = options.keep or Path(tempfile.mkdtemp(prefix="mirrormq-image-"))
    folder.mkdir(parents=True, exist_ok=True)
    try:
        stages = read_stages(DOCKERFILE.read_text())
        builder = Builder(stages, folder)
        for target in options.target or targets:
            root, stage = builder.root(target), stages[target]
            size = check_contents(root, stage)
            run = run_node if target == "node" else run_pipeline
            run(root, builder.environment(target), stage)
            print(f"== image {target}: {size / 1e6:.1f} MB", flush=True)
    finally:
        if options.keep is None:
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
