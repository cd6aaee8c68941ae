"""Logins, connection limits, and permissions that change while connected. Texts are RabbitMQ 3.10.8's."""

from __future__ import annotations

import base64
import hashlib
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mirrormq.wire import methods
from mirrormq.wire.frames import PROTOCOL_HEADER
from tests.brokers.mirrormq import MirrorMQ
from tests.hostile.raw import Ended, RawClient, publish_bytes, raw_client


@pytest.fixture
def user(node: MirrorMQ) -> Iterator[str]:
    node.control("add_user", "somebody", "secret")
    node.control("set_permissions", "somebody", ".*", ".*", ".*")
    yield "somebody"
    if "somebody" in node.control("list_users"):
        node.control("delete_user", "somebody")


def log_in(node: MirrorMQ, user: str = "somebody", password: str = "secret") -> RawClient:
    return RawClient(node.amqp_port).log_in(user=user, password=password)


def refusal(node: MirrorMQ, **login: Any) -> str:
    """Return the error of a login that must fail."""
    with raw_client(node.amqp_port) as client, pytest.raises(AssertionError) as refused:
        client.log_in(**login)
    return str(refused.value)


def test_a_wrong_password_is_reported_to_clients_with_the_capability(node: MirrorMQ, user: str) -> None:
    expected = "Login was refused using authentication mechanism PLAIN. For details see the broker logfile."
    for name, password in ((user, "wrong"), (user, ""), ("nobody", "secret"), ("", "")):
        assert f"403, reply_text='ACCESS_REFUSED - {expected}'" in refusal(node, user=name, password=password)


def test_the_others_wait_and_are_dropped(node: MirrorMQ, user: str) -> None:
    """After three seconds, or when the handshake has taken too long: guessing is slow."""
    with raw_client(node.amqp_port) as client:
        started = time.monotonic()
        with pytest.raises(Ended):
            client.log_in(user=user, password="wrong", capabilities={"something.else": True})
        assert 1.5 < time.monotonic() - started < 10


def test_guesses_do_not_delay_a_correct_password(node: MirrorMQ, user: str) -> None:
    """Forty wrong guesses at once are checked beside the loop; everybody else goes on."""
    from tests.hostile.bystander import beside

    with beside(node):
        guessers = [RawClient(node.amqp_port) for _ in range(40)]
        login = methods.encode_connection_start_ok({}, "PLAIN", b"\0somebody\0guess", "en_US")
        for guesser in guessers:
            guesser.send(PROTOCOL_HEADER)
            guesser.expect("ConnectionStart")
            guesser.method(0, login)
        for guesser in guessers:
            guesser.until_closed()
            guesser.close()
        log_in(node).close()


HASHES: dict[str, Callable[[bytes], bytes]] = {
    "rabbit_password_hashing_sha256": lambda data: hashlib.sha256(data).digest(),
    "rabbit_password_hashing_sha512": lambda data: hashlib.sha512(data).digest(),
    "rabbit_password_hashing_md5": lambda data: hashlib.md5(data).digest(),
}


@pytest.mark.parametrize("algorithm", HASHES)
def test_users_of_rabbitmq_log_in_with_their_old_hashes(
    node: MirrorMQ, tmp_path: Path, algorithm: str
) -> None:
    salt = b"\x90\x8d\xc6\x0a"
    stored = base64.b64encode(salt + HASHES[algorithm](salt + "geheim ü".encode())).decode()
    record = {"name": "imported", "password_hash": stored, "hashing_algorithm": algorithm, "tags": ""}
    rights = {"user": "imported", "vhost": "/", "configure": ".*", "write": ".*", "read": ".*"}
    (tmp_path / "definitions.json").write_text(json.dumps({"users": [record], "permissions": [rights]}))
    node.control("import_definitions", str(tmp_path / "definitions.json"))
    log_in(node, "imported", "geheim ü").close()
    assert "ACCESS_REFUSED" in refusal(node, user="imported", password="geheim u")
    node.control("delete_user", "imported")


def test_a_changed_password_counts_at_the_next_login(node: MirrorMQ, user: str) -> None:
    log_in(node).close()
    node.control("change_password", user, "new secret")
    assert "ACCESS_REFUSED" in refusal(node, user=user, password="secret")
    log_in(node, password="new secret").close()


def test_limits_of_a_user(node: MirrorMQ, user: str) -> None:
    node.control("set_user_limits", user, '{"max-connections": 2, "max-channels": 3}')
    first, second = log_in(node), log_in(node)
    expected = "NOT_ALLOWED - connection refused for user 'somebody': user connection limit (2) is reached"
    assert expected in refusal(node, user=user, password="secret")
    first.open_channel(1).open_channel(2)
    second.open_channel(1)
    second.method(2, methods.encode_channel_open())
    closed = second.expect("ConnectionClose")
    text = "number of channels opened for user 'somebody' has reached the maximum allowed user limit of (3)"
    assert (closed.reply_code, closed.reply_text) == (530, f"NOT_ALLOWED - {text}")
    second.method(0, methods.encode_connection_close_ok())
    second.until_closed()
    log_in(node).close()
    first.close()


def test_limits_of_a_vhost(node: MirrorMQ, user: str) -> None:
    node.control("add_vhost", "small")
    node.control("set_permissions", "-p", "small", user, ".*", ".*", ".*")
    node.control("set_vhost_limits", "-p", "small", '{"max-connections": 1, "max-queues": 2}')
    client = RawClient(node.amqp_port).log_in(user=user, password="secret", vhost="small").open_channel()
    text = "access to vhost 'small' refused for user 'somebody': connection limit (1) is reached"
    assert f"NOT_ALLOWED - {text}" in refusal(node, user=user, password="secret", vhost="small")
    client.declare("a").declare("b").declare("a")
    client.method(1, methods.encode_queue_declare("c"))
    closed = client.expect("ChannelClose")
    text = "cannot declare queue 'c': queue limit in vhost 'small' (2) is reached"
    assert (closed.reply_code, closed.reply_text) == (406, f"PRECONDITION_FAILED - {text}")
    node.control("delete_vhost", "small")
    assert client.expect("ConnectionClose").reply_code == 320
    client.close()


def test_rights_that_are_taken_away_are_gone_on_open_channels(node: MirrorMQ, user: str) -> None:
    """At once; RabbitMQ's channels remember for a while what they were last allowed."""
    client = log_in(node).open_channel().declare("mine")
    client.send(publish_bytes("mine", b"allowed"))
    client.declare("mine")
    node.control("set_permissions", user, ".*", "^$", ".*")
    client.send(publish_bytes("mine", b"not allowed"))
    closed = client.expect("ChannelClose")
    assert closed.reply_code == 403
    assert closed.reply_text.endswith(
        "access to exchange 'amq.default' in vhost '/' refused for user 'somebody'"
    )
    client.method(1, methods.encode_channel_close_ok())
    client.open_channel()
    node.control("set_permissions", user, ".*", ".*", ".*")
    client.send(publish_bytes("mine", b"allowed again"))
    client.method(1, methods.encode_queue_delete("mine"))
    assert client.expect("QueueDeleteOk").message_count == 2
    client.close()


def test_the_connections_of_a_deleted_user_are_closed(node: MirrorMQ, user: str) -> None:
    client = log_in(node).open_channel()
    node.control("delete_user", user)
    closed = client.expect("ConnectionClose")
    assert (closed.reply_code, closed.reply_text) == (320, "CONNECTION_FORCED - user 'somebody' is deleted")
    client.close()
    assert "ACCESS_REFUSED" in refusal(node, user=user, password="secret")


def test_a_pattern_that_never_ends_delays_no_other_client(node: MirrorMQ, user: str) -> None:
    """A permission regex that takes exponential time on a hostile name is cut short, and refuses."""
    from tests.hostile.bystander import beside

    node.control("set_permissions", user, "^(a+)+$", ".*", ".*")
    with beside(node):
        client = log_in(node).open_channel()
        client.method(1, methods.encode_queue_declare("a" * 100 + "!"))
        assert client.expect("ChannelClose").reply_code == 403
        client.close()
