"""Invalid ports of `mirrormq cluster up` are refused."""

from __future__ import annotations

import pytest

from mirrormq.cli.local_ports import fault


@pytest.mark.parametrize(
    ("ports", "sentence"),
    [
        ({"--amqp-port": [1, 2], "--management-port": [3, 4]}, None),
        (
            {"--amqp-port": [5672, 5673], "--management-port": [5673, 5674]},
            "Port 5673 would be used twice: choose another --amqp-port or --management-port.",
        ),
        (
            {"--amqp-port": [65535, 65536]},
            "--amqp-port 65535 leads to port 65536, and ports go from 1 to 65535.",
        ),
        ({"--cluster-port": [-1]}, "--cluster-port -1 leads to port -1, and ports go from 1 to 65535."),
    ],
)
def test_ports_beyond_the_last_and_ports_used_twice_are_refused(
    ports: dict[str, list[int]], sentence: str | None
) -> None:
    assert fault(ports) == sentence
