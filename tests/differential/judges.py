"""Launch of both brokers for the scripts, with equal settings, so that only behaviour can differ."""

from __future__ import annotations

from tests.brokers.admin import Admin, MirrorAdmin, RabbitAdmin
from tests.brokers.mirrormq import MirrorMQ
from tests.brokers.rabbitmq import RabbitMQ
from tests.differential.runner import Script, run

CONFIGURATION = """\
consumer_timeout = 6000
max_message_size = 1048576
"""
"""A delivery may stay unacknowledged for six seconds: longer than any script but the one that tests it. A
message may have one mebibyte, so that one octet more is cheap to send."""


def run_on_rabbitmq(scripts: list[Script]) -> dict[str, str]:
    with RabbitMQ(configuration=CONFIGURATION) as broker:
        return run(scripts, broker, RabbitAdmin(broker))


def run_on_mirrormq(scripts: list[Script]) -> dict[str, str]:
    with MirrorMQ(configuration=CONFIGURATION) as broker:
        admin: Admin = MirrorAdmin(broker)
        return run(scripts, broker, admin)
