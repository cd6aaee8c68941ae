"""Texts for unreadable bytes, as observed from RabbitMQ 3.10.8."""

from __future__ import annotations

import pytest

from mirrormq.wire.frame_errors import cut_reply_text, unreadable_frame

SEEN = [
    (b"", "all octets = <<>>"),
    (b"hello", 'all octets = <<"hello">>'),
    (b"\x00\x32\x00", "all octets = <<0,50,0>>"),
    (b"\x07\x00", "all octets = <<7,0>>"),
    (b'a"b\\\n\t\x1b\x7f', "all octets = <<97,34,98,92,10,9,27,127>>"),
    (b'a"b\\\n\t\x1b\r\x08\x0b\x0c', 'all octets = <<"a\\"b\\\\\\n\\t\\e\\r\\b\\v\\f">>'),
    (b"\xff" * 20, 'first 16 octets = <<"' + "\udcff" * 16 + '">>'),
    (bytes(range(1, 30)), "first 16 octets = <<1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16>>"),
    (b"\x80" * 16, "all octets = <<" + "128," * 14 + "\n" + " " * 23 + "128,128>>"),
    (
        b"\xc9\xc9\x80cc\xc9\x80cc\xc9\x80\xc9cc\xc9c",
        "all octets = <<201,201,128,99,99,201,128,99,99,201,128,201,99,99,201,99>>",
    ),
    (
        b"c\xc9\x80\x80c\x80\xc9\xc9\x80\x80cc\x80c\xc9\x80",
        "all octets = <<99,201,128,128,99,128,201,201,128,128,99,99,128,99,201,\n" + " " * 23 + "128>>",
    ),
    (
        b"hk\xc8\xc8\x1e\xc8\x93\xc8\x9c\xc8\x83\x02Q\x12.\xc8;",
        "first 16 octets = <<104,107,200,200,30,200,147,200,156,200,131,2,81,18,\n" + " " * 28 + "46,200>>",
    ),
]


@pytest.mark.parametrize(("payload", "shown"), SEEN)
def test_an_unreadable_frame_is_shown_as_erlang_shows_it(payload: bytes, shown: str) -> None:
    assert unreadable_frame(9, payload).text == f"FRAME_ERROR - type 9, {shown}: unknown_frame"


def test_the_reason_is_reported() -> None:
    error = unreadable_frame(1, b"hello", "{invalid_frame_end_marker,1}")
    assert error.text == 'FRAME_ERROR - type 1, all octets = <<"hello">>: {invalid_frame_end_marker,1}'


def test_a_reply_text_is_cut_to_a_short_string() -> None:
    assert cut_reply_text("x" * 255) == "x" * 255
    assert cut_reply_text("x" * 256) == "x" * 252 + "..."
    assert len(cut_reply_text("é" * 200).encode("utf-8", "surrogateescape")) == 255
