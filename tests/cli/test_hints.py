"""Hints after errors that RabbitMQ words as Erlang terms, and warnings about overridden policies."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mirrormq.testing import Cluster
from tests.cli.support import run_ctl

POLICY = ("set_policy", "p", ".*")


@pytest.fixture(scope="module", autouse=True)
def node() -> Iterator[Cluster]:
    with Cluster(nodes=1) as running:
        running.ctl("add_user", "anna", "secret")
        yield running


@pytest.mark.parametrize(
    ("words", "first", "hint"),
    [
        (
            (*POLICY, '{"max-lenght": 5}'),
            "Error:\nValidation failed\n\n[{<<\"max-lenght\">>,5}] are not recognised policy settings\n",
            "There is no policy setting 'max-lenght'; the nearest is 'max-length'.",
        ),
        (
            (*POLICY, '{"ha-mode": "al"}'),
            "<<\"al\">> is not a valid ha-mode value",
            "'ha-mode' takes 'all', 'exactly' or 'nodes'.",
        ),
        (
            (*POLICY, '{"max-length": "5"}'),
            "<<\"5\">> is not a valid maximum length",
            "'max-length' takes a whole number of at least 0.",
        ),
        (
            (*POLICY, '{"queue-mode": "lasy"}'),
            "<<\"lasy\">> is not a valid queue-mode value",
            "'queue-mode' takes 'default' or 'lazy'.",
        ),
        (
            (*POLICY, '{"max-length": 5,}'),
            "Error:\nJSON decoding error. Reason: badarg\n",
            "This is not JSON: ",
        ),
        (
            (*POLICY, "{max-length: 5}"),
            "Error:\nJSON decoding error. Reason: badarg\n",
            "at character 2, found 'm'. In a shell, put single quotes around JSON.",
        ),
        (
            ("set_vhost_limits", '{"max-conections": 5}'),
            "Unrecognised terms [{<<\"max-conections\">>,5}] in limits",
            "There is no limit 'max-conections'; the nearest is 'max-connections'.",
        ),
        (
            ("set_user_limits", "anna", '{"max-chanels": 5}'),
            "Unrecognised terms [{<<\"max-chanels\">>,5}] in user-limits",
            "There is no limit 'max-chanels'; the nearest is 'max-channels'.",
        ),
        (
            ("list_user_permissions", "ana"),
            'Error:\n{:no_such_user, "ana"}\n',
            "There is no user 'ana'; the nearest is 'anna'.",
        ),
        (
            ("list_user_permissions", "zzz"),
            'Error:\n{:no_such_user, "zzz"}\n',
            "There is no user 'zzz'; there is 'anna' or 'guest'.",
        ),
        (
            ("set_permissions", "anna", "(", ".*", ".*"),
            "{:invalid_regexp, '(',",
            "The regular expression '(' cannot be read at character 2: ",
        ),
        (
            ("set_policy", "p", "x(", '{"max-length": 5}'),
            'pattern should be regular expression but is invalid: {"missing )",2}',
            "The pattern 'x(' cannot be read at character 3: missing ).",
        ),
        (
            ("set_parameter", "shovels", "x", "1"),
            "component shovels not found",
            "There is no component 'shovels'; the nearest is 'shovel'.",
        ),
        (
            ("set_parameter", "shovel", "s", '{"src-uri": "amqp://", "src-queue": "q", "dest-urii": "amqp://"}'),
            'Unrecognised terms [{<<"dest-urii">>,<<"amqp://">>}] in s\nKey "dest-uri" not found in s\n',
            "There is no key 'dest-urii'; the nearest is 'dest-uri'.",
        ),
        (
            ("set_parameter", "federation-upstream", "u", '{"uri": "amqp://", "expire": 5}'),
            'Unrecognised terms [{<<"expire">>,5}] in u\n',
            "There is no key 'expire'; the nearest is 'expires'.",
        ),
        (
            ("set_parameter", "federation-upstream-set", "s", '[{"upstream": "u", "max-hop": 5}]'),
            'Unrecognised terms [{<<"max-hop">>,5}] in s\n',
            "There is no key 'max-hop'; the nearest is 'max-hops'.",
        ),
        (
            ("list_queues", "nam"),
            "Info key(s) nam are not supported",
            "There is no column 'nam'; the nearest is 'name'.",
        ),
        (
            ("set_vm_memory_high_watermark", "half"),
            "Bad argument.",
            "The argument must be a number, such as 0.4.",
        ),
        (
            ("set_disk_free_limit", "much"),
            "Bad argument.",
            "The argument must be a size in bytes, or with a unit, such as 500MB or 2GiB.",
        ),
        (
            ("close_connection", "7", "why"),
            "{:invalid_pid_syntax, \"7\"}",
            "A pid is written as 'mirrormqctl list_connections pid' shows it, with its < and >.",
        ),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)  # fmt: skip
def test_a_hint_stands_under_rabbitmqs_words(words: tuple[str, ...], first: str, hint: str) -> None:
    code, _, error = run_ctl("-q", *words)
    assert code in (64, 65, 69)
    assert first in error
    last = error.rstrip("\n").rpartition("\n")[2]
    assert last.startswith("Hint: ")
    assert hint in last
    assert error.index(first) < error.index(last)


def test_a_refusal_that_is_in_words_has_no_hint() -> None:
    assert run_ctl("-q", "delete_user", "zzz")[2] == 'Error:\nUser "zzz" does not exist\n'


def test_a_policy_that_another_hides_says_so(node: Cluster) -> None:
    node.ctl("set_policy", "ha-all", ".*", '{"ha-mode": "all"}', "--priority", "10", "--apply-to", "queues")
    node.ctl("set_policy", "none-yet", "^orders", '{"max-length": 5}')
    assert run_ctl("-q", "set_policy", "short", "^orders", '{"max-length": 5}') == (0, "", "")
    for name in ("orders.eu", "orders.us", "stock"):
        node.ctl("add_queue", name)
    code, out, error = run_ctl("-q", "set_policy", "short", "^orders", '{"max-length": 5}')
    assert (code, out) == (0, "")
    assert error == (
        "Warning: Policy 'short' has no effect on 2 queues, such as 'orders.eu': policy 'ha-all' has "
        "priority 10, "
        "and 'short' has 0. One policy applies to a queue: set 'short' again with a higher --priority, "
        "or join the two.\n"
    )
    assert run_ctl("-q", "set_policy", "short", "^orders", '{"max-length": 5}', "--priority", "11")[2] == ""
    assert run_ctl("-q", "set_policy", "short", "^or", '{"expires": 5}', "--apply-to", "exchanges")[2] == ""
    error = run_ctl("-q", "set_policy", "zz", "^stock", '{"max-length": 5}', "--priority", "10")[2]
    assert "on queue 'stock': policy 'ha-all' has the same priority 10 and comes first by name" in error


def test_tags_that_give_no_rights_are_named(node: Cluster) -> None:
    assert run_ctl("-q", "set_user_tags", "anna", "monitoring", "billing") == (0, "", "")
    code, out, error = run_ctl("-q", "set_user_tags", "anna", "admin")
    assert (code, out) == (0, "")
    assert error == "Warning: Tag 'admin' gives no rights; the nearest that does is 'administrator'.\n"
    try:
        error = run_ctl("-q", "set_user_tags", "guest")[2]
        assert error.startswith(
            "Warning: No user has the tag 'administrator': the page and the HTTP API cannot"
        )
    finally:
        assert run_ctl("-q", "set_user_tags", "guest", "administrator") == (0, "", "")
