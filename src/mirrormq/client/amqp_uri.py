"""AMQP URIs as RabbitMQ's own client reads them, query parameters included.

    amqp://user:password@host:port/vhost?heartbeat=10&connection_timeout=60000&auth_mechanism=plain
    amqps://host?cacertfile=/ca.pem&certfile=/c.pem&keyfile=/k.pem&verify=verify_peer&server_name_indication=h

RabbitMQ gives two forms a meaning that other clients do not: `amqp://` without a host is a connection inside
the node, and `amqp://host/` names the vhost with the empty name. `AmqpUri` distinguishes both; `for_socket`
fills in the defaults of the command line tools.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from urllib.parse import unquote

from mirrormq.uri_passwords import MASK

PORTS = {"amqp": 5672, "amqps": 5671}
URI_FORM = "amqp://user:password@host:port/vhost"

DEFAULT_USER = "guest"
DEFAULT_VHOST = "/"
LOCAL_HOST = "127.0.0.1"

HEARTBEAT_S = 10
CHANNEL_MAX = 2047
CONNECTION_TIMEOUT_MS = 60_000
"""Defaults of RabbitMQ's own client."""

MECHANISMS = ("PLAIN", "AMQPLAIN")
"""Default order of preference; EXTERNAL must be requested, because it ignores user and password."""

PORT_MAX = 65_535

UNCONFIGURABLE = (
    "username",
    "virtual_host",
    "host",
    "port",
    "ssl_options",
    "client_properties",
    "socket_options",
)
"""Fields that RabbitMQ refuses as query parameters: most have their own part of the URI."""

# The last @ ends the login: a password may contain others, and no part of it may pass for a host.
_AUTHORITY = re.compile(r"(?:(?P<login>.*)@)?(?P<host>\[[^\]]*\]|[^:]*)(?::(?P<port>.*))?")
_INTEGER = re.compile(r"[+-]?\d+")
_BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")

Pairs = list[tuple[str, str]]


class UriError(ValueError):
    """URI that cannot be used. `reason` is RabbitMQ's Erlang term; the text never shows credentials."""

    def __init__(self, reason: str, text: str) -> None:
        super().__init__(text)
        self.reason = reason


@dataclass(frozen=True)
class ClientTls:
    """TLS options of a client connection; paths of PEM files."""

    ca_file: str | None = None
    certificate_file: str | None = None
    key_file: str | None = None
    key_password: str | None = field(default=None, repr=False)
    verify: bool = True
    """Verify the broker's certificate. RabbitMQ's own client does not by default."""
    server_name: str | None = None
    """Name that the certificate must match, sent as SNI; None: the host of the URI."""
    send_server_name: bool = True


@dataclass(frozen=True)
class AmqpUri:
    """One parsed URI."""

    host: str
    """Empty: the URI names no host, which RabbitMQ reads as a connection inside the node."""
    port: int = PORTS["amqp"]
    user: str | None = field(default=None, repr=False)
    password: str | None = field(default=None, repr=False)
    vhost: str | None = None
    """None: the URI has no path."""
    tls: ClientTls | None = None
    mechanisms: tuple[str, ...] = MECHANISMS
    heartbeat_s: int | None = None
    """None: not in the URI; each program has its own default."""
    connection_timeout_ms: int = CONNECTION_TIMEOUT_MS
    channel_max: int = CHANNEL_MAX
    frame_max: int = 0
    """0: no preference."""

    @property
    def where(self) -> str:
        """Host and port, for messages."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def login(self) -> tuple[str, str]:
        """User and password; guest where the URI leaves one out."""
        user = DEFAULT_USER if self.user is None else self.user
        return user, DEFAULT_USER if self.password is None else self.password

    def for_socket(self) -> AmqpUri:
        """Fill in the defaults of the command line tools: this machine, and vhost / for an empty path."""
        return replace(self, host=self.host or LOCAL_HOST, vhost=self.vhost or DEFAULT_VHOST)


def parse_amqp_uri(uri: str) -> AmqpUri:
    """Parse a URI; raises UriError."""
    scheme, found, rest = uri.partition("://")
    scheme = scheme.lower()
    if not found:
        raise UriError("{unable_to_parse_uri,no_scheme}", f"a URI must begin with a scheme, as in {URI_FORM}")
    if scheme not in PORTS:
        text = f"a URI must begin with amqp:// or amqps://, as in {URI_FORM}"
        raise UriError(f"{{unexpected_uri_scheme,{_erlang(scheme)}}}", text)
    rest, _, query = rest.partition("#")[0].partition("?")
    authority, slash, path = rest.partition("/")
    parts = _AUTHORITY.fullmatch(authority)
    if parts is None:
        raise UriError("{unable_to_parse_uri,malformed_uri}", f"write the URI as {URI_FORM}")
    login, host, port = parts["login"], parts["host"].removeprefix("[").removesuffix("]"), parts["port"]
    if port is not None and not host:
        raise UriError("port_requires_host", "a URI with a port must name a host, too")
    user, colon, password = (login or "").partition(":")
    pairs = _query_pairs(query)
    read = AmqpUri(
        host=_unescape(host),
        port=PORTS[scheme] if port is None else _port(port),
        user=_unescape(user) if login else None,
        password=_unescape(password.partition(":")[0]) if colon else None,
        vhost=_vhost(path) if slash else None,
        tls=_tls(pairs) if scheme == "amqps" else None,
    )
    return _with_parameters(read, pairs)


def _erlang(text: str) -> str:
    """Write a string as Erlang does."""
    return f'"{text}"' if text else "[]"


def _port(text: str) -> int:
    if not text.isdecimal():
        why = f"a URI's port must be a number, as in {URI_FORM}"
        raise UriError("{unable_to_parse_uri,malformed_uri}", why)
    port = int(text)
    if not 1 <= port <= PORT_MAX:
        raise UriError(f"{{port_out_of_range,{port}}}", "a URI's port must be a number from 1 to 65535")
    return port


def _vhost(path: str) -> str:
    if "/" in path:
        raise UriError(f"{{invalid_vhost,{_erlang(path)}}}", "write a slash in the name of a vhost as %2F")
    return _unescape(path)


def _unescape(text: str) -> str:
    if (wrong := _BAD_ESCAPE.search(text)) is not None:
        following = "".join(f",{ord(character)}" for character in text[wrong.end() : wrong.end() + 2])
        # RabbitMQ's own spelling.
        raise UriError(f"{{invalid_entitiy,['%'{following}]}}", "a % in a URI must begin an escape like %2F")
    return unquote(text, errors="surrogateescape")


def _query_pairs(query: str) -> Pairs:
    """Names and values in order; a name without = is ignored, and a bad escape stays as it is."""
    found = [part.partition("=") for part in query.split("&")]
    return [(unquote(name), unquote(value)) for name, equals, value in found if equals]


def _first(pairs: Pairs, wanted: str) -> str | None:
    return next((value for name, value in pairs if name == wanted), None)


def _with_parameters(uri: AmqpUri, pairs: Pairs) -> AmqpUri:
    kind = "invalid_amqp_params_parameter"
    for name in UNCONFIGURABLE:
        if (value := _first(pairs, name)) is not None:
            cause = f"{{parameter_unconfigurable_in_query,{name},{_erlang(value)}}}"
            raise _bad_parameter(kind, name, value, pairs, cause, f"write {URI_FORM}")
    mechanisms = tuple(value.upper() for name, value in pairs if name == "auth_mechanism")
    heartbeat_s = _integer(kind, pairs, "heartbeat")
    timeout_ms = _integer(kind, pairs, "connection_timeout")
    channel_max = _integer(kind, pairs, "channel_max")
    # RabbitMQ's client takes one parameter for two secrets: the user's and the key file's.
    password = _first(pairs, "password")
    return replace(
        uri,
        password=uri.password if password is None else password,
        mechanisms=mechanisms or uri.mechanisms,
        heartbeat_s=heartbeat_s,
        connection_timeout_ms=uri.connection_timeout_ms if timeout_ms is None else timeout_ms,
        channel_max=uri.channel_max if channel_max is None else channel_max,
        frame_max=_integer(kind, pairs, "frame_max") or 0,
    )


def _tls(pairs: Pairs) -> ClientTls:
    kind = "invalid_ssl_parameter"
    _integer(kind, pairs, "depth")
    verify = _first(pairs, "verify")
    if verify not in (None, "verify_peer", "verify_none"):
        raise _bad_parameter(kind, "verify", verify or "", pairs, "bad", "it is verify_peer or verify_none")
    server_name = _first(pairs, "server_name_indication")
    return ClientTls(
        ca_file=_first(pairs, "cacertfile"),
        certificate_file=_first(pairs, "certfile"),
        key_file=_first(pairs, "keyfile"),
        key_password=_first(pairs, "password"),
        verify=verify != "verify_none",
        server_name=None if server_name == "disable" else server_name,
        send_server_name=server_name != "disable",
    )


def _integer(kind: str, pairs: Pairs, name: str) -> int | None:
    text = _first(pairs, name)
    if text is None:
        return None
    # RabbitMQ's client takes a negative number and fails when it connects.
    if not _INTEGER.fullmatch(text) or int(text) < 0:
        cause = f"{{not_an_integer,{_erlang(text)}}}"
        raise _bad_parameter(kind, name, text, pairs, cause, "it must be a number")
    return int(text)


def _bad_parameter(kind: str, name: str, value: str, pairs: Pairs, cause: str, advice: str) -> UriError:
    shown = [(key, MASK if key == "password" else each) for key, each in pairs]
    listed = ",".join(f"{{{_erlang(key)},{_erlang(each)}}}" for key, each in shown)
    reason = f"{{{kind},{name},{_erlang(value)},[{listed}],{cause}}}"
    return UriError(reason, f"the URI's parameter {name} cannot be used: {advice}")
