"""AMQP URIs against RabbitMQ 3.10.8's own client: recorded results, and the same calls repeated."""

from __future__ import annotations

import re

import pytest

from mirrormq.client.amqp_uri import AmqpUri, ClientTls, UriError, parse_amqp_uri
from mirrormq.uri_passwords import masked_uri
from tests.brokers.rabbitmq import RabbitMQ
from tests.needs import need_rabbitmq

READ = {
    "amqp://": AmqpUri(""),
    "amqp:///v": AmqpUri("", vhost="v"),
    "amqp://u@/v": AmqpUri("", user="u", vhost="v"),
    "amqp://h": AmqpUri("h"),
    "AMQP://h": AmqpUri("h"),
    "amqp://h/": AmqpUri("h", vhost=""),
    "amqp://h#fragment": AmqpUri("h"),
    "amqp://@h": AmqpUri("h"),
    "amqp://:@h": AmqpUri("h", user="", password=""),
    "amqp://u:@h": AmqpUri("h", user="u", password=""),
    "amqp://a:b:c@h": AmqpUri("h", user="a", password="b"),
    "amqp://u%41:p%3a@h": AmqpUri("h", user="uA", password="p:"),
    "amqp://us er@h": AmqpUri("h", user="us er"),
    "amqp://[::1]:5/x": AmqpUri("::1", 5, vhost="x"),
    "amqp://h/%2f?heartbeat=5&connection_timeout=3&channel_max=4&frame_max=9000": AmqpUri(
        "h", vhost="/", heartbeat_s=5, connection_timeout_ms=3, channel_max=4, frame_max=9000
    ),
    "amqp://h?heartbeat=5&heartbeat=6": AmqpUri("h", heartbeat_s=5),
    "amqp://h?heartbeat=+5": AmqpUri("h", heartbeat_s=5),
    "amqp://h?heartbeat": AmqpUri("h"),
    "amqp://h?password=x": AmqpUri("h", password="x"),
    "amqp://h?unknown=x&verify=verify_none": AmqpUri("h"),
    "amqp://h?a=%zz": AmqpUri("h"),
}
REFUSED = {
    "not a uri": "{unable_to_parse_uri,no_scheme}",
    "": "{unable_to_parse_uri,no_scheme}",
    "http://x": '{unexpected_uri_scheme,"http"}',
    "amqp://h:99999": "{port_out_of_range,99999}",
    "amqp://h:0": "{port_out_of_range,0}",
    "amqp://:5672": "port_requires_host",
    "amqp://h/a/b": '{invalid_vhost,"a/b"}',
    "amqp://h/%zz": "{invalid_entitiy,['%',122,122]}",
    "amqp://h%zz": "{invalid_entitiy,['%',122,122]}",
    "amqp://u%zz@h": "{invalid_entitiy,['%',122,122]}",
    "amqp://h?heartbeat=x&a=b": '{invalid_amqp_params_parameter,heartbeat,"x",[{"heartbeat","x"},{"a","b"}],'
    '{not_an_integer,"x"}}',
    "amqp://h?heartbeat=": '{invalid_amqp_params_parameter,heartbeat,[],[{"heartbeat",[]}],'
    "{not_an_integer,[]}}",
    "amqps://h?depth=x&heartbeat=y": '{invalid_ssl_parameter,depth,"x",[{"depth","x"},{"heartbeat","y"}],'
    '{not_an_integer,"x"}}',
    "amqp://h?virtual_host=a": '{invalid_amqp_params_parameter,virtual_host,"a",[{"virtual_host","a"}],'
    '{parameter_unconfigurable_in_query,virtual_host,"a"}}',
}


@pytest.mark.parametrize("uri", READ)
def test_uris_are_read_as_rabbitmq_reads_them(uri: str) -> None:
    assert parse_amqp_uri(uri) == READ[uri]


@pytest.mark.parametrize("uri", REFUSED)
def test_uris_are_refused_with_rabbitmqs_reason(uri: str) -> None:
    with pytest.raises(UriError) as caught:
        parse_amqp_uri(uri)
    assert caught.value.reason == REFUSED[uri]


def test_rabbitmq_still_says_the_same() -> None:
    need_rabbitmq()
    listed = ",".join(f'"{uri}"' for uri in [*READ, *REFUSED])
    with RabbitMQ() as broker:
        printed = broker.control(
            "eval", f'[io:format("~0p~n", [catch amqp_uri:parse(U)]) || U <- [{listed}]], ok.'
        )
    answers = printed.splitlines()
    for (uri, expected), answer in zip(READ.items(), answers, strict=False):
        assert _rabbitmq_form(expected) == _fields(answer), uri
    for uri, answer in zip(REFUSED, answers[len(READ) :], strict=False):
        shown = f'"{uri}"' if uri else "[]"
        assert answer == f"{{error,{{{REFUSED[uri]},{shown}}}}}"


def _fields(answer: str) -> list[str]:
    """User, password, vhost and, of a network connection, host, port and limits, as Erlang prints them."""
    direct = re.match(r"\{ok,\{amqp_params_direct,(.*?),(.*?),(.*?),", answer)
    if direct:
        return list(direct.groups())
    found = re.match(
        r"\{ok,\{amqp_params_network,(.*?),(.*?),(.*?),(.*?),(.*?),(.*?),(.*?),(.*?),(.*?),", answer
    )
    assert found is not None, answer
    fields = list(found.groups())
    fields[1] = fields[1] if fields[1].startswith("<<") else f"<<{fields[1]}>>"
    return fields


def _rabbitmq_form(uri: AmqpUri) -> list[str]:
    def binary(text: str | None, default: str) -> str:
        text = default if text is None else text
        return "<<>>" if not text else f'<<"{text}">>'

    if not uri.host:
        users = ["none" if text is None else binary(text, "") for text in (uri.user, uri.password)]
        return [*users, binary(uri.vhost, "/")]
    limits = [uri.channel_max, uri.frame_max, 10 if uri.heartbeat_s is None else uri.heartbeat_s]
    return [
        binary(uri.user, "guest"),
        binary(uri.password, "guest"),
        binary(uri.vhost, "/"),
        f'"{uri.host}"',
        "undefined" if uri.port == 5672 else str(uri.port),
        *map(str, limits),
        str(uri.connection_timeout_ms),
    ]


def test_tls_parameters() -> None:
    query = "cacertfile=/a&certfile=/b&keyfile=/c&password=x&verify=verify_none&server_name_indication=n"
    uri = parse_amqp_uri(f"amqps://h?{query}")
    assert uri.port == 5671
    assert uri.tls == ClientTls("/a", "/b", "/c", "x", verify=False, server_name="n")
    assert uri.login == ("guest", "x")
    assert parse_amqp_uri("amqps://h?server_name_indication=disable").tls == ClientTls(send_server_name=False)
    assert parse_amqp_uri("amqps://h").tls == ClientTls(verify=True)
    with pytest.raises(UriError):
        parse_amqp_uri("amqps://h?verify=perhaps")


def test_mechanisms_are_tried_in_the_order_of_the_uri() -> None:
    uri = parse_amqp_uri("amqp://h?auth_mechanism=external&auth_mechanism=plain")
    assert uri.mechanisms == ("EXTERNAL", "PLAIN")


def test_the_last_at_sign_ends_the_login() -> None:
    assert parse_amqp_uri("amqp://u:p@ss@h:1") == AmqpUri("h", 1, user="u", password="p@ss")


@pytest.mark.parametrize(
    "uri",
    [
        "amqp://user:secret@h:x",
        "amqp://user:secret@h/a/b",
        "http://user:secret@h",
        "amqps://h?password=secret&verify=perhaps",
        "amqp://h?heartbeat=x&password=secret",
    ],
)
def test_no_error_shows_credentials(uri: str) -> None:
    with pytest.raises(UriError) as caught:
        parse_amqp_uri(uri)
    assert "secret" not in str(caught.value) and "secret" not in caught.value.reason
    assert "secret" not in repr(parse_amqp_uri("amqp://user:secret@h"))


@pytest.mark.parametrize(
    ("uri", "shown"),
    [
        ("amqp://user:secret@h:5672/v?heartbeat=5", "amqp://user:******@h:5672/v?heartbeat=5"),
        ("amqp://user:sec@r/et?@h", "amqp://user:******@h"),
        (
            "amqps://u:s@h?password=secret&verify=verify_none",
            "amqps://u:******@h?password=******&verify=verify_none",
        ),
        ("amqp://user@h:5672", "amqp://user@h:5672"),
        ("amqp:///v", "amqp:///v"),
        ("no uri: at@all", "no uri: at@all"),
        ("", ""),
    ],
)
def test_a_masked_uri_shows_no_password(uri: str, shown: str) -> None:
    assert masked_uri(uri) == shown


def test_the_command_line_tools_fill_in_this_machine() -> None:
    assert parse_amqp_uri("amqp://").for_socket() == AmqpUri("127.0.0.1", vhost="/")
    assert parse_amqp_uri("amqp://h/").for_socket() == AmqpUri("h", vhost="/")
    assert parse_amqp_uri("amqp://[::1]:5").where == "[::1]:5"
