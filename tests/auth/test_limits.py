"""Limits: reached at the number, with RabbitMQ 3.10.8's words; negative means none."""

from __future__ import annotations

import pytest

from mirrormq.auth import limit_checks
from mirrormq.metadata.records import User, Vhost


@pytest.mark.parametrize("limit", [0, 1, 2])
def test_a_limit_is_reached_at_its_number(limit: int) -> None:
    vhost = Vhost("/", limits={"max-connections": limit, "max-queues": limit})
    user = User("u", limits={"max-connections": limit, "max-channels": limit})
    assert limit_checks.vhost_connection_refusal(vhost, "u", limit - 1) is None
    assert limit_checks.vhost_connection_refusal(vhost, "u", limit) == (
        f"access to vhost '/' refused for user 'u': connection limit ({limit}) is reached"
    )
    assert limit_checks.user_connection_refusal(user, limit - 1) is None
    assert limit_checks.user_connection_refusal(user, limit) == (
        f"connection refused for user 'u': user connection limit ({limit}) is reached"
    )
    assert limit_checks.user_channel_refusal(user, limit - 1) is None
    assert limit_checks.user_channel_refusal(user, limit) == (
        f"number of channels opened for user 'u' has reached the maximum allowed user limit of ({limit})"
    )
    assert limit_checks.queue_refusal(vhost, "q", limit - 1) is None
    assert limit_checks.queue_refusal(vhost, "q", limit) == (
        f"cannot declare queue 'q': queue limit in vhost '/' ({limit}) is reached"
    )


@pytest.mark.parametrize("given", [{}, {"max-connections": -1, "max-queues": -3, "max-channels": -1}])
def test_no_limit_and_a_negative_limit_refuse_nothing(given: dict[str, int]) -> None:
    vhost, user = Vhost("/", limits=given), User("u", limits=given)
    assert limit_checks.vhost_connection_refusal(vhost, "u", 10**6) is None
    assert limit_checks.queue_refusal(vhost, "q", 10**6) is None
    assert limit_checks.user_connection_refusal(user, 10**6) is None
    assert limit_checks.user_channel_refusal(user, 10**6) is None
