"""What tests need that a machine may lack; the reason of a skip says what to do about it."""

from __future__ import annotations

import pytest

from tests.brokers.rabbitmq import VERSION, RabbitMQ


def not_installed(program: str, package: str = "") -> str:
    """The reason to skip where a program is not there."""
    return f"{program} is not installed: apt-get install {package or program}"


OPENSSL = not_installed("openssl")
COMPILER = not_installed("a C compiler", "gcc")
RABBITMQ = not_installed(f"RabbitMQ {VERSION}", "rabbitmq-server") + " on Debian 12, which has this version"


def need_rabbitmq() -> None:
    """Go on only where the real broker can be asked."""
    if not RabbitMQ.available():
        pytest.skip(RABBITMQ)
