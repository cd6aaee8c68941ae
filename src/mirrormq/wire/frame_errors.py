"""What a peer is told whose bytes cannot be read, in RabbitMQ's words.

RabbitMQ prints the bytes it could not read as an Erlang term, in one of two manners. A method that it
cannot decode is printed as bare numbers. A frame that it cannot make sense of is pretty-printed: as a
quoted string if every byte is printable Latin-1, else as numbers, and those are broken into lines
that fit a terminal of eighty columns. The texts are cut to the 255 bytes that a short string holds.
"""

from __future__ import annotations

from typing import Final

from mirrormq.errors import FrameError, UnknownMethod

REPLY_TEXT_BYTES_MAX: Final = 255
"""A reply text is a short string."""

_CUT: Final = "..."
_RENDERED_BYTES_MAX: Final = 128
"""A byte takes two characters or more, so no reply text has room for more bytes than this."""

SNIPPET_BYTES: Final = 16
"""How much of an unreadable frame RabbitMQ shows."""

_COLUMN_MAX: Final = 81
"""Where Erlang's pretty printer breaks a line, fitted to what RabbitMQ 3.10.8 was seen to answer."""

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
    """The text, or as RabbitMQ does, its first 252 bytes and three dots."""
    encoded = text.encode("utf-8", "surrogateescape")
    if len(encoded) <= REPLY_TEXT_BYTES_MAX:
        return text
    return encoded[: REPLY_TEXT_BYTES_MAX - len(_CUT)].decode("utf-8", "surrogateescape") + _CUT


def erlang_binary(data: bytes) -> str:
    """The bytes as Erlang writes a binary: <<1,2,3>>. Longer ones than a reply text has room for are cut."""
    return f"<<{','.join(map(str, data[:_RENDERED_BYTES_MAX]))}>>"


def pretty_erlang_binary(data: bytes, column: int) -> str:
    """The bytes as Erlang pretty-prints a binary that starts in `column` (from 0)."""
    if data and all(_is_printable(octet) for octet in data):
        quoted = b"".join(_ESCAPES.get(octet) or bytes((octet,)) for octet in data)
        return f'<<"{quoted.decode("utf-8", "surrogateescape")}">>'
    indent = column + 2
    text, at = "<<", indent
    for number, octet in enumerate(data):
        piece = str(octet) + ("," if number < len(data) - 1 else ">>")
        if at + len(piece) > _COLUMN_MAX:
            text, at = f"{text}\n{' ' * indent}", indent
        text, at = text + piece, at + len(piece)
    return text if data else "<<>>"


def _is_printable(octet: int) -> bool:
    return 0x20 <= octet <= 0x7E or octet >= 0xA0 or octet in _ESCAPES


def unreadable_frame(kind: int, payload: bytes, reason: str = "unknown_frame") -> FrameError:
    """A frame of unknown type or shape, or with a wrong end.

    Reasons seen: unknown_frame, {invalid_frame_end_marker,N}, {frame_too_large,SIZE,MAX} (for this
    last one RabbitMQ has not read the payload yet and shows it empty).
    """
    share = "all" if len(payload) <= SNIPPET_BYTES else f"first {SNIPPET_BYTES}"
    start = f"type {kind}, {share} octets = "
    described = f"{start}{pretty_erlang_binary(payload[:SNIPPET_BYTES], len(start))}: "
    column = len(described) - described.rfind("\n") - 1
    if reason.startswith("{") and column + len(reason) > _COLUMN_MAX:
        reason = reason.replace(",", ",\n" + " " * (column + 1))
    return FrameError(described + reason, class_id=0)


def text(octets: bytes) -> str:
    """A short string of a method. RabbitMQ wants UTF-8 in all of them but those that publishers choose."""
    try:
        return octets.decode("utf-8")
    except UnicodeDecodeError:
        raise FrameError("Malformed UTF-8 in shortstr", class_id=0) from None


def any_text(octets: bytes) -> str:
    """A short string that may hold any octets."""
    return octets.decode("utf-8", "surrogateescape")


def cannot_decode(payload: bytes) -> FrameError:
    """A known method's payload that is too short or too long."""
    prefix = f"{FrameError.name} - "
    text = cut_reply_text(f"{prefix}cannot decode {erlang_binary(payload[4:])}")
    return FrameError(text[len(prefix) :], class_id=_class_id(payload), method_id=_method_id(payload))


def unknown_method(payload: bytes) -> FrameError | UnknownMethod:
    """A method payload without a method in it, or with ids nobody knows.

    RabbitMQ has an answer to the first only; at an unknown id its reader crashes and the client sees
    the connection end. We close properly, with the code that the standard has for this.
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
