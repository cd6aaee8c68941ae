"""Msgpack encoding of metadata in which names may be any bytes.

Names come off the wire decoded with `surrogateescape`, so a name that is not UTF-8 holds lone surrogates,
and msgpack strings must be UTF-8. Such names are rare, but the log must keep them. An entry that holds one
is written in a second form: a leading octet that msgpack never uses, and every string as the Latin-1
reading of its bytes. That reading is always encodable and converts back without loss.
"""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

T = TypeVar("T")

ESCAPED = b"\xc1"
"""First octet of the second form: the one octet the msgpack format reserves as never used."""

_encoder = msgspec.msgpack.Encoder(order="deterministic")


def encode(value: object) -> bytes:
    """Encode a record, a command or a container of them."""
    try:
        return _encoder.encode(value)
    except UnicodeEncodeError:
        plain = msgspec.to_builtins(value, builtin_types=(bytes,))
        return ESCAPED + _encoder.encode(_respell(plain, escape=True))


def decode(raw: bytes, decoder: msgspec.msgpack.Decoder[T], kind: Any) -> T:
    """Decode the result of `encode`; `decoder` must decode `kind`."""
    if raw[:1] != ESCAPED:
        return decoder.decode(raw)
    plain = _respell(msgspec.msgpack.decode(raw[1:]), escape=False)
    result: T = msgspec.convert(plain, kind)
    return result


def _respell(value: Any, *, escape: bool) -> Any:
    if isinstance(value, str):
        if escape:
            return value.encode("utf-8", "surrogateescape").decode("latin-1")
        return value.encode("latin-1").decode("utf-8", "surrogateescape")
    if isinstance(value, list | tuple):
        return [_respell(item, escape=escape) for item in value]
    if isinstance(value, dict):
        return {_respell(key, escape=escape): _respell(item, escape=escape) for key, item in value.items()}
    return value
