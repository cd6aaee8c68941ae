"""Distribution build: pure by default, with the compiled message core if MIRRORMQ_COMPILE=1."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from setuptools import Distribution, setup
from setuptools.command.build_py import build_py

COMPILES = os.environ.get("MIRRORMQ_COMPILE") == "1"


PINS = Path("requirements", "compile.txt")
PINNED = re.compile(r"^(?:mypy|msgspec)==[^\s;\\]+", re.MULTILINE)
"""The compiler, and the package whose types the core sees."""


class BuildWithCore(build_py):
    """Copy the sources, then compile the message core beside the copies."""

    def run(self) -> None:
        """Build; an editable install compiles into the checkout."""
        super().run()
        if COMPILES:
            root = Path("src") if self.editable_mode else Path(self.build_lib)
            folder = root / "mirrormq" / "_compiled"
            command = [sys.executable, "compile_core.py", "--required", "--into", str(folder)]
            subprocess.run(command, check=True)


class PlatformDistribution(Distribution):
    """Distribution whose wheel fits one platform only if it has compiled modules."""

    def has_ext_modules(self) -> bool:
        """Return whether the wheel must be tagged for this platform."""
        return COMPILES


setup(
    distclass=PlatformDistribution,
    cmdclass={"build_py": BuildWithCore},
    setup_requires=PINNED.findall(PINS.read_text()) if COMPILES else [],
)
