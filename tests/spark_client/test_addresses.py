"""URIs are read as every AMQP client reads them, and nothing that is printed shows a password."""

from __future__ import annotations

import pytest

from mirrormq.client.amqp_uri import ClientTls
from mirrormq.spark.client.node_address import parse_uri, parse_uris, preferring
from mirrormq.spark.data_source_options import source_options


def test_defaults_of_a_uri() -> None:
    address = parse_uri("amqp://")
    assert (address.host, address.port, address.vhost) == ("127.0.0.1", 5672, "/")
    assert (address.login, address.tls) == (("guest", "guest"), None)


def test_parts_of_a_uri() -> None:
    address = parse_uri("amqps://us%40er:p%2Fw@[::1]:1234/a%2Fb")
    assert (address.host, address.port, address.vhost) == ("::1", 1234, "a/b")
    assert (address.login, address.tls) == (("us@er", "p/w"), ClientTls())
    assert address.where == "[::1]:1234"


def test_several_uris_and_a_vhost_for_all() -> None:
    found = parse_uris("amqp://a/x, amqp://b:5673 ,", vhost="y")
    assert [(address.host, address.port, address.vhost) for address in found] == [
        ("a", 5672, "y"),
        ("b", 5673, "y"),
    ]
    assert [address.host for address in preferring(found, 3)] == ["b", "a"]


@pytest.mark.parametrize(
    ("uri", "said"),
    [
        ("http://u:secret@h", "must begin with amqp:// or amqps://"),
        ("amqp://u:secret@h:x/", "port must be a number"),
        ("amqp://u:secret@h:70000/", "port must be a number"),
        (" , ", "at least one URI"),
    ],
)
def test_the_fault_of_a_uri_is_reported_without_its_password(uri: str, said: str) -> None:
    with pytest.raises(ValueError, match=said) as caught:
        parse_uris(uri)
    assert "secret" not in str(caught.value)


def test_an_address_hides_its_credentials() -> None:
    shown = repr(parse_uri("amqp://mallory:secret@h"))
    assert "secret" not in shown
    assert "mallory" not in shown


def test_tls_parameters_of_a_uri_apply_unless_options_replace_them() -> None:
    uri = "amqps://h?cacertfile=/ca.pem&verify=verify_none"
    (of_uri,) = source_options({"uri": uri, "queue": "q"}, streaming=True).addresses
    assert of_uri.tls == ClientTls(ca_file="/ca.pem", verify=False)
    (of_options,) = source_options(
        {"uri": uri, "queue": "q", "tlsCaFile": "/b.pem"}, streaming=True
    ).addresses
    assert of_options.tls == ClientTls(ca_file="/b.pem")
