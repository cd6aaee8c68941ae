"""SASL responses: what RabbitMQ 3.10.8 lets in, and what it drops."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrormq.auth import sasl
from mirrormq.auth.sasl import AMQPLAIN, EXTERNAL, PLAIN, Credentials
from mirrormq.errors import CommandInvalid, FrameSyntaxError

LOGIN = b"\x05LOGIN"
PASSWORD = b"\x08PASSWORD"
GUEST = b"S\x00\x00\x00\x05guest"


def test_plain() -> None:
    assert sasl.parse(PLAIN, b"\0guest\0pass") == Credentials(PLAIN, "guest", b"pass")
    assert sasl.parse(PLAIN, b"\0\xff\0\xfe") == Credentials(PLAIN, "\udcff", b"\xfe")
    assert sasl.parse(PLAIN, b"\0\0") == Credentials(PLAIN, "", b"")


@pytest.mark.parametrize(
    "response", [b"", b"guest", b"\0guest", b"guest\0guest", b"zzz\0guest\0guest", b"\0guest\0gu\0est"]
)
def test_malformed_plain(response: bytes) -> None:
    with pytest.raises(FrameSyntaxError) as refusal:
        sasl.parse(PLAIN, response)
    assert "guest" not in refusal.value.text


def test_amqplain() -> None:
    response = LOGIN + GUEST + PASSWORD + GUEST
    assert sasl.parse(AMQPLAIN, response) == Credentials(AMQPLAIN, "guest", b"guest")
    extra = response + b"\x01xI\0\0\0\1"
    assert sasl.parse(AMQPLAIN, extra) == Credentials(AMQPLAIN, "guest", b"guest")


@pytest.mark.parametrize(
    "response",
    [
        b"",
        b"junk",
        LOGIN + GUEST,
        LOGIN + b"I\0\0\0\1" + PASSWORD + GUEST,
        b"\0\0\0\x22" + LOGIN + GUEST + PASSWORD + GUEST,
    ],
)
def test_malformed_amqplain(response: bytes) -> None:
    with pytest.raises(FrameSyntaxError):
        sasl.parse(AMQPLAIN, response)


def test_external_takes_the_certificates_name_and_nothing_the_client_says() -> None:
    found = sasl.parse(EXTERNAL, b"root", certificate_user="alice", offered=(EXTERNAL,))
    assert found == Credentials(EXTERNAL, "alice", None)


def test_external_without_a_certificate_is_refused() -> None:
    with pytest.raises(sasl.LoginRefused):
        sasl.parse(EXTERNAL, b"root", offered=(EXTERNAL,))


@pytest.mark.parametrize(
    ("mechanism", "text"),
    [
        ("FOO", "COMMAND_INVALID - unknown authentication mechanism 'FOO'"),
        (EXTERNAL, "COMMAND_INVALID - invalid authentication mechanism 'EXTERNAL'"),
    ],
)
def test_a_mechanism_that_is_not_offered(mechanism: str, text: str) -> None:
    with pytest.raises(CommandInvalid) as refusal:
        sasl.parse(mechanism, b"")
    assert refusal.value.text == text


@given(st.sampled_from([PLAIN, AMQPLAIN]), st.binary(max_size=60))
def test_no_response_does_anything_else(mechanism: str, response: bytes) -> None:
    try:
        found = sasl.parse(mechanism, response)
    except FrameSyntaxError:
        return
    assert isinstance(found.password, bytes)


def test_the_refusal_names_the_mechanism() -> None:
    assert sasl.LoginRefused(PLAIN).text == (
        "ACCESS_REFUSED - Login was refused using authentication mechanism PLAIN. "
        "For details see the broker logfile."
    )
