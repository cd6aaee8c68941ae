"""Error texts for unreadable frames and methods, in RabbitMQ's words.

RabbitMQ prints unreadable bytes as an Erlang term, in one of two formats. A method that it cannot decode
is printed as bare numbers. A frame that it cannot interpret is pretty-printed: as a quoted string if every
byte is printable Latin-1, otherwise as numbers, broken into lines that fit a terminal of eighty columns.
The texts are cut to the 255 bytes that a short string holds.
"""

from __future__ import annotations

from typing import Final

from mirrormq.errors import FrameError, UnknownMethod

REPLY_TEXT_BYTES_MAX: Final = 255
"""Maximum length of a reply text, which is a short string."""

_CUT: Final = "..."
_RENDERED_BYTES_MAX: Final = 128
"""Maximum bytes to render. A byte takes two characters or more, so no reply text has room for more."""

SNIPPET_BYTES: Final = 16
"""Bytes of an unreadable frame that RabbitMQ shows."""

_COLUMN_MAX: Final = 81
"""Column at which Erlang's pretty printer breaks a line, fitted to observed replies of RabbitMQ 3.10.8."""

_ESCAPES: Final = {
    0x22: b'\\"',
    0x5C: b"\\\\",
    0x08: b"\\b",
    0x09: b"\\t",
    0x0A: b"\\n",
    0x0B: b"\\v",
    0x0C: b"\\f",
    0x0D: b"\\r",
    0x1B: b"\\e",
}


def cut_reply_text(text: str) -> str:
    """Return the text, or its first 252 bytes and three dots, as RabbitMQ does."""
    encoded = text.encode("utf-8", "surrogateescape")
    if len(encoded) <= REPLY_TEXT_BYTES_MAX:
        return text
    return encoded[: REPLY_TEXT_BYTES_MAX - len(_CUT)].decode("utf-8", "surrogateescape") + _CUT


def erlang_binary(data: bytes) -> str:
    """Format bytes as an Erlang binary: <<1,2,3>>. Bytes beyond the room in a reply text are left out."""
    return f"<<{','.join(map(str, data[:_RENDERED_BYTES_MAX]))}>>"


def pretty_erlang_binary(data: bytes, column: int) -> str:
    """Format bytes as Erlang pretty-prints a binary that starts in `column` (from 0)."""
    if data and all(_is_printable(octet) for octet in data):
        quoted = b"".join(_ESCAPES.get(octet) or bytes((octet,)) for octet in data)
        return f'<<"{quoted.decode("utf-8", "surrogateescape")}">>'
    indent = column + 2
    text, position = "<<", indent
    for number, octet in enumerate(data):
        piece = str(octet) + ("," if number < len(data) - 1 else ">>")
        if position + len(piece) > _COLUMN_MAX:
            text, position = f"{text}\n{' ' * indent}", indent
        text, position = text + piece, position + len(piece)
    return text if data else "<<>>"


def _is_printable(octet: int) -> bool:
    return 0x20 <= octet <= 0x7E or octet >= 0xA0 or octet in _ESCAPES


def unreadable_frame(kind: int, payload: bytes, reason: str = "unknown_frame") -> FrameError:
    """Return the error for a frame of unknown type or format, or with a wrong end octet.

    Observed reasons: unknown_frame, {invalid_frame_end_marker,N}, {frame_too_large,SIZE,MAX}. For the last
    one RabbitMQ has not read the payload yet and shows it empty.
    """
    share = "all" if len(payload) <= SNIPPET_BYTES else f"first {SNIPPET_BYTES}"
    start = f"type {kind}, {share} octets = "
    described = f"{start}{pretty_erlang_binary(payload[:SNIPPET_BYTES], len(start))}: "
    column = len(described) - described.rfind("\n") - 1
    if reason.startswith("{") and column + len(reason) > _COLUMN_MAX:
        reason = reason.replace(",", ",\n" + " " * (column + 1))
    return FrameError(described + reason, class_id=0)


def text(octets: bytes) -> str:
    """Decode a short string of a method. RabbitMQ requires UTF-8 in all of them except those that
    publishers choose."""
    try:
        return octets.decode("utf-8")
    except UnicodeDecodeError:
        raise FrameError("Malformed UTF-8 in shortstr", class_id=0) from None


def any_text(octets: bytes) -> str:
    """Decode a short string that may hold any octets."""
    return octets.decode("utf-8", "surrogateescape")


def cannot_decode(payload: bytes) -> FrameError:
    """Return the error for a known method's payload that is too short or too long."""
    prefix = f"{FrameError.name} - "
    text = cut_reply_text(f"{prefix}cannot decode {erlang_binary(payload[4:])}")
    return FrameError(text[len(prefix) :], class_id=_class_id(payload), method_id=_method_id(payload))


def unknown_method(payload: bytes) -> FrameError | UnknownMethod:
    """Return the error for a method payload without a method in it, or with unknown ids.

    RabbitMQ replies to the first only; at an unknown id its reader crashes and the client sees the
    connection end. MirrorMQ closes properly, with the specification's reply code.
    """
    if len(payload) < 4:
        return unreadable_frame(1, payload)
    class_id, method_id = _class_id(payload), _method_id(payload)
    explanation = f"unknown method {{{class_id},{method_id}}}"
    return UnknownMethod(explanation, class_id=class_id, method_id=method_id)


def _class_id(payload: bytes) -> int:
    return int.from_bytes(payload[0:2], "big")


def _method_id(payload: bytes) -> int:
    return int.from_bytes(payload[2:4], "big")
