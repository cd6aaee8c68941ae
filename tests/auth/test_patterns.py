"""Patterns: Erlang's reading of them, and no pattern that takes the node with it."""

from __future__ import annotations

import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mirrormq.auth import patterns
from mirrormq.auth.patterns import MATCH_TIMEOUT_S, PatternInvalid, check, matches, permits

PATIENCE_S = 1.0
"""Far above the limit of one match, far below what the patterns would take without it."""


@pytest.mark.parametrize(
    ("pattern", "name", "expected"),
    [
        ("", "anything", True),
        ("b", "abc", True),
        ("^b", "abc", False),
        ("^amq\\.", "amq.gen", True),
        ("^n.$", "né", False),  # é is two octets
        ("^n..$", "né", True),
        ("^line$", "line\n", True),
        ("^line\\z", "line\n", False),
        ("^line\\Z", "line\n", True),
        ("\\h", "tab\tx", True),
        ("[\\h]", "tab\tx", True),
        ("a{b", "a{b", True),
        ("^{client_id}$", "{client_id}", True),
        ("^a{e}$", "a", False),  # no fuzzy matching
        ("^a{e}$", "a{e}", True),
        ("^a{2,3}$", "aaa", True),
        ("^[{]e}$", "{e}", True),
        ("^\\Qa.b\\E$", "a.b", True),
        ("^\\Qa.b\\E$", "axb", False),
        ("^\\x{41}$", "A", True),
        ("^[[:alpha:]]+$", "abc", True),
        ("^[]a]$", "]", True),
        ("^[^]a]$", "]", False),
        ("(?i)ABC", "xabcx", True),
        ("^(?!amq\\.)", "amq.x", False),
        ("^\\p{Lu}$", "A", True),
        ("^a\udcff", "a\udcffb", True),
        ("(", "(", False),
    ],
)
def test_a_pattern_matches_as_in_rabbitmq(pattern: str, name: str, expected: bool) -> None:
    assert matches(pattern, name) is expected


def test_for_permissions_the_empty_pattern_matches_the_empty_name_only() -> None:
    assert not permits("", "q")
    assert permits("", "")
    assert permits(".*", "")


@pytest.mark.parametrize(
    ("pattern", "text", "position"),
    [
        ("(", "missing )", 1),
        ("[a", "missing terminating ] for character class", 2),
        ("a**", "nothing to repeat", 2),
        ("*", "nothing to repeat", 0),
        ("a)", "unmatched parentheses", 1),
    ],
)
def test_an_invalid_pattern_is_named_in_the_words_of_pcre(pattern: str, text: str, position: int) -> None:
    with pytest.raises(PatternInvalid) as refusal:
        check(pattern)
    assert (refusal.value.text, refusal.value.position) == (text, position)


CATASTROPHES = [
    ("^(a|a)*$", "a" * 60 + "b"),
    ("^(a|aa)+$", "a" * 100 + "b"),
    ("(x+x+)+y", "x" * 200),
    ("^(([a-z])+.)+[A-Z]([a-z])+$", "a" * 200),
    ("^(a?){200}a{200}$", "a" * 199 + "b"),
]


@pytest.mark.parametrize(("pattern", "name"), CATASTROPHES)
def test_a_catastrophic_pattern_gives_up_in_time(pattern: str, name: str) -> None:
    began = time.process_time()
    assert matches(pattern, name) is False
    assert time.process_time() - began < PATIENCE_S


def test_a_pattern_that_keeps_running_wild_gets_less_time_but_still_matches() -> None:
    pattern, name = CATASTROPHES[0]
    compiled = patterns._compile(pattern)
    before = compiled.timeouts
    began = time.process_time()
    for number in range(200):
        assert not matches(pattern, f"{name}{number}")
    assert time.process_time() - began < 200 * MATCH_TIMEOUT_S / 2
    assert compiled.timeouts == before + 200, "each of these needs the limit"
    assert matches(pattern, "aaa")


@given(st.text(max_size=30), st.text(max_size=10))
@example("\\", "")
@example("[\\", "")
@example("\\Q", "\\Q")
def test_no_pattern_does_anything_but_match_or_not(pattern: str, name: str) -> None:
    try:
        check(pattern)
    except PatternInvalid:
        assert not matches(pattern, name)
    else:
        assert matches(pattern, name) in (True, False)
