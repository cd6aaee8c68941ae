"""What a peer is told whose bytes cannot be read, in RabbitMQ's words.

RabbitMQ prints the bytes it could not read as an Erlang term, and cuts a reply text to the 255 bytes
that a short string holds, so these texts do the same.
"""

from __future__ import annotations

from typing import Final

from mirrormq.errors import FrameError, NotImplemented_

REPLY_TEXT_BYTES_MAX = 255
"""A reply text is a short string."""

_CUT: Final = "..."
_RENDERED_BYTES_MAX = 128
"""A byte takes two characters or more, so no reply text has room for more bytes than this."""


def cut_reply_text(text: str) -> str:
    """The text, or as RabbitMQ does, its first 252 bytes and three dots."""
    encoded = text.encode("utf-8", "surrogateescape")
    if len(encoded) <= REPLY_TEXT_BYTES_MAX:
        return text
    return encoded[: REPLY_TEXT_BYTES_MAX - len(_CUT)].decode("utf-8", "surrogateescape") + _CUT


def erlang_binary(data: bytes) -> str:
    """The bytes as Erlang writes a binary: <<1,2,3>>."""
    shown = ",".join(map(str, data[:_RENDERED_BYTES_MAX]))
    return f"<<{shown}>>" if len(data) <= _RENDERED_BYTES_MAX else f"<<{shown},…"


def cannot_decode(payload: bytes) -> FrameError:
    """A known method's payload that is too short or too long."""
    prefix = f"{FrameError.name} - "
    text = cut_reply_text(f"{prefix}cannot decode {erlang_binary(payload[4:])}")
    return FrameError(text[len(prefix) :], class_id=_class_id(payload), method_id=_method_id(payload))


def unknown_method(payload: bytes) -> FrameError | NotImplemented_:
    """A method payload without a method in it, or with ids nobody knows.

    RabbitMQ has an answer to the first only; at an unknown id its reader crashes and the client sees
    the connection end. We close properly, with the code that the standard has for this.
    """
    if len(payload) < 4:
        return FrameError(f"type 1, all octets = {erlang_binary(payload)}: unknown_frame")
    class_id, method_id = _class_id(payload), _method_id(payload)
    explanation = f"unknown method {{{class_id},{method_id}}}"
    return NotImplemented_(explanation, class_id=class_id, method_id=method_id)


def _class_id(payload: bytes) -> int:
    return int.from_bytes(payload[0:2], "big")


def _method_id(payload: bytes) -> int:
    return int.from_bytes(payload[2:4], "big")
