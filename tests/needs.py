"""Programs that tests need and a machine may lack. The reason of a skip says how to install them."""

from __future__ import annotations

import pytest

from tests.brokers.rabbitmq import VERSION, RabbitMQ


def not_installed(program: str, package: str = "") -> str:
    """Return the reason to skip a test because a program is missing."""
    return f"{program} is not installed: apt-get install {package or program}"


OPENSSL = not_installed("openssl")
COMPILER = not_installed("a C compiler", "gcc")
RABBITMQ = not_installed(f"RabbitMQ {VERSION}", "rabbitmq-server") + " on Debian 12, which has this version"


def need_rabbitmq() -> None:
    """Skip the test if RabbitMQ is not installed."""
    if not RabbitMQ.available():
        pytest.skip(RABBITMQ)
