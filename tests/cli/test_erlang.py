"""Erlang terms are formatted and broken into lines as Erlang does."""

from __future__ import annotations

import io
import json
from contextlib import redirect_stdout
from pathlib import Path

import pytest

from mirrormq.cli import ctl
from mirrormq.cli.erlang_format import Atom, Pid, written
from tests.cli.support import NODE_NAME, served

LONG = "日本語のとても長い名前の待ち行列でございます"
NAME, MESSAGES, A = Atom("name"), Atom("messages"), Atom("a")


@pytest.mark.parametrize(
    ("term", "text"),
    [
        ("", "<<>>"),
        ('a"b\\c\nd\te', r'<<"a\"b\\c\nd\te">>'),
        ("é", '<<"Ã©">>'),
        ("日本", "<<230,151,165,230,156,172>>"),
        (Atom("running"), "running"),
        (Atom("apply-to"), "'apply-to'"),
        (Atom("Upper"), "'Upper'"),
        (Atom("a_b@c"), "a_b@c"),
        (Atom("receive"), "'receive'"),
        (Atom(""), "''"),
        (Pid("<1.2.3>"), "<1.2.3>"),
        (True, "true"),
        (7, "7"),
        (1.0, "1.0"),
        (0.1, "0.1"),
        (3.5e-6, "3.5e-6"),
        (100000.0, "1.0e5"),
        (1e22, "1.0e22"),
        ((), "{}"),
        ([[]], "[[]]"),
        ([(A, [])], "[{a,[]}]"),
    ],
)
def test_a_short_term(term: object, text: str) -> None:
    assert written(term) == text


def test_numbers_share_lines() -> None:
    assert written(list(range(1000, 1017))) == (
        "[1000,1001,1002,1003,1004,1005,1006,1007,1008,1009,1010,1011,1012,1013,1014,\n 1015,1016]"
    )


def test_bytes_that_are_no_text_go_on_below_the_first() -> None:
    assert written([(NAME, LONG), (MESSAGES, 1)]) == (
        "[{name,<<230,151,165,230,156,172,232,170,158,227,129,174,227,129,168,227,129,\n"
        "         166,227,130,130,233,149,183,227,129,132,229,144,141,229,137,141,227,\n"
        "         129,174,229,190,133,227,129,161,232,161,140,229,136,151,227,129,167,\n"
        "         227,129,148,227,129,150,227,129,132,227,129,190,227,129,153>>},\n"
        " {messages,1}]"
    )


def test_nested_values_are_printed_beside_their_name() -> None:
    inner = ("inner", Atom("array"), [(Atom("longstr"), "a" * 37), (Atom("signedint"), 3)])
    deep = ("deep", Atom("table"), [inner, ("t", Atom("timestamp"), 17000)])
    assert written([[(NAME, "x"), (Atom("arguments"), [deep]), (Atom("z"), 1)]]) == (
        '[[{name,<<"x">>},\n'
        '  {arguments,[{<<"deep">>,table,\n'
        '               [{<<"inner">>,array,\n'
        '                 [{longstr,<<"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa">>},\n'
        "                  {signedint,3}]},\n"
        '                {<<"t">>,timestamp,17000}]}]},\n'
        "  {z,1}]]"
    )


def test_beyond_the_middle_of_the_line_it_stands_below_its_name() -> None:
    first = (Atom("a_very_long_tag_that_is_long_enough_to_be_beyond_half"), [(Atom("x"), "1234567890" * 4)])
    second = (Atom("b"), [(Atom("very_long_name_of_something_inside"), list(range(1, 31)))])
    assert written([first, second]) == (
        "[{a_very_long_tag_that_is_long_enough_to_be_beyond_half,\n"
        '     [{x,<<"1234567890123456789012345678901234567890">>}]},\n'
        " {b,[{very_long_name_of_something_inside,\n"
        "         [1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,\n"
        "          26,27,28,29,30]}]}]"
    )


def test_the_middle_of_the_line_is_where_erlang_has_it() -> None:
    numbers = [3.5e-6, 0.1, 8704665635, 526160]
    inner = (Atom("very_long_tag_of_a_tuple"), (MESSAGES, 7575258), numbers)
    last = (Atom("running"), ("x" * 25,))
    below = (
        "{'apply-to',\n"
        "    [{very_long_tag_of_a_tuple,\n"
        "         {messages,7575258},\n"
        "         [3.5e-6,0.1,8704665635,526160]},\n"
        '     {running,{<<"xxxxxxxxxxxxxxxxxxxxxxxxx">>}}]}'
    )
    assert written((Atom("apply-to"), [inner, last])) == below


def test_true_and_false_are_atoms_as_well() -> None:
    assert written((False, "x" * 57, (Atom("running"), True))) == (
        '{false,<<"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx">>,\n       {running,true}}'
    )


@pytest.mark.parametrize("verb", ["status", "environment"])
def test_the_description_of_a_node_is_a_list_of_pairs(
    verb: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MIRRORMQ_RUNTIME_DIR", str(tmp_path / "run"))
    monkeypatch.setenv("MIRRORMQ_NODE", NODE_NAME)

    def reported(formatter: str) -> str:
        out = io.StringIO()
        with redirect_stdout(out):
            assert ctl.run(["-q", verb, "--formatter", formatter]) == 0
        return out.getvalue()

    with served(tmp_path / "run"):
        names = list(json.loads(reported("json")))
        text = reported("erlang")
    assert text.startswith("[{") and text.endswith("]\n")
    assert all(f"{{{written(Atom(name))}," in text for name in names)
