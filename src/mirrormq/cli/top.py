"""Command `mirrormq top`: a live screen of nodes, queues, rings and rates, from any node's HTTP API."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import select
import shutil
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Annotated, Any
from urllib.parse import quote, unquote, urlsplit

import typer

from mirrormq.cli.top_screen import SORT_COLUMNS, SORTS, ClusterSnapshot, Line, screen

DEFAULT_URI = "http://guest:guest@127.0.0.1:15672"
TIMEOUT_S = 5.0
"""Timeout of one reply; a slower node counts as down."""
QUEUES_MAX = 200
"""Queues requested at a time, in the chosen order; more than a terminal has lines."""
QUEUE_COLUMNS = (
    "name,vhost,node,state,consumers,messages,messages_ready,messages_unacknowledged,message_stats,mirrormq"
)
STYLES = {"title": "1", "heading": "1;7", "good": "32", "bad": "1;31", "soft": "2", "plain": ""}
ENTER, LEAVE = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"
HOME, CLEAR_LINE, CLEAR_BELOW = "\x1b[H", "\x1b[K", "\x1b[J"
WIDTH_ONCE = 120
"""Width of the output without a terminal; enough for every column."""
KEYS = "  q quit   s order   space now"


class Unreachable(Exception):
    """Failure to get a snapshot: no node replies, or each refuses the login."""


class TopSource:
    """HTTP API of the first node that replies."""

    def __init__(self, uris: list[str]) -> None:
        self._uris = uris
        self._uri_index = 0

    def picture(self, sort: str) -> ClusterSnapshot:
        """Return a snapshot of the cluster. Try each node once; raise Unreachable if all fail."""
        problems: list[str] = []
        for _ in self._uris:
            uri = self._uris[self._uri_index]
            try:
                return self._fetch(uri, sort)
            except urllib.error.HTTPError as error:
                problems.append(f"{_place(uri)}: {_refusal(error)}")
            except (OSError, ValueError) as error:
                problems.append(f"{_place(uri)}: {getattr(error, 'reason', error)}")
            self._uri_index = (self._uri_index + 1) % len(self._uris)
        raise Unreachable("; ".join(problems))

    def _fetch(self, uri: str, sort: str) -> ClusterSnapshot:
        down = "false" if sort == "name" else "true"
        page = f"page=1&page_size={QUEUES_MAX}&sort={SORT_COLUMNS[sort]}&sort_reverse={down}"
        overview, nodes, queues = (
            _get(uri, path) for path in ("overview", "nodes", f"queues?{page}&columns={quote(QUEUE_COLUMNS)}")
        )
        return ClusterSnapshot(_place(uri), time.strftime("%H:%M:%S"), overview, nodes, queues)


def _place(uri: str) -> str:
    """Return host and port of the URI, without the password."""
    parts = urlsplit(uri)
    return f"{parts.hostname}:{parts.port}" if parts.port else str(parts.hostname)


def _refusal(error: urllib.error.HTTPError) -> str:
    if error.code == 401:
        return "the login is refused: it must be that of a user with the tag monitoring"
    return f"HTTP status {error.code}"


def _get(uri: str, path: str) -> Any:
    parts = urlsplit(uri)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("write it as http://user:password@host:port")
    name, password = unquote(parts.username or "guest"), unquote(parts.password or "guest")
    address = parts.netloc.rpartition("@")[2]
    request = urllib.request.Request(f"{parts.scheme}://{address}{parts.path.rstrip('/')}/api/{path}")
    secret = base64.b64encode(f"{name}:{password}".encode()).decode()
    request.add_header("authorization", f"Basic {secret}")
    with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:
        return json.loads(answer.read())


def top(
    uri: Annotated[
        list[str] | None,
        typer.Option(help="HTTP API of a node; may be repeated, nodes that are down are skipped."),
    ] = None,
    interval: Annotated[float, typer.Option(help="Seconds between two updates.", min=0.2)] = 2.0,
    sort: Annotated[str, typer.Option(help=f"Order of the queues: {', '.join(SORTS)}.")] = SORTS[0],
    once: Annotated[bool, typer.Option("--once", help="Print one snapshot and end, for scripts.")] = False,
) -> None:
    """Watch nodes, queues, rings and rates in a terminal.

    The key q quits; s changes the order of the queues.

    \b
    Example:
      mirrormq top --uri http://guest:guest@127.0.0.1:15672 --uri http://guest:guest@127.0.0.1:15673
      mirrormq top --once --sort in
    """
    if sort not in SORTS:
        _fail(f"'{sort}' is not a sort order; use one of {', '.join(SORTS)}")
    source = TopSource(uri or [DEFAULT_URI])
    if once or not (sys.stdin.isatty() and sys.stdout.isatty()):
        _print_once(source, sort)
    else:
        _watch(source, sort, interval)


def _fail(sentence: str) -> None:
    print(f"mirrormq top: {sentence}.", file=sys.stderr)
    raise typer.Exit(1)


def _print_once(source: TopSource, sort: str) -> None:
    try:
        picture = source.picture(sort)
    except Unreachable as problem:
        _fail(f"no node answers ({problem}); name one with --uri")
        return
    width = shutil.get_terminal_size().columns
    # A script gets every column, whatever the width of the terminal it was started from.
    for line in screen(picture, sort, width if sys.stdout.isatty() else max(width, WIDTH_ONCE), None):
        print("".join(text for text, _ in line).rstrip())


def _watch(source: TopSource, sort: str, interval: float) -> None:
    with _terminal() as keyboard, contextlib.suppress(KeyboardInterrupt):
        while True:
            _draw(_frame(source, sort))
            key = _key(keyboard, interval)
            if key in ("q", "Q", "\x03"):
                return
            if key == "s":
                sort = SORTS[(SORTS.index(sort) + 1) % len(SORTS)]


def _frame(source: TopSource, sort: str) -> list[Line]:
    width, height = shutil.get_terminal_size()
    try:
        lines = screen(source.picture(sort), sort, width, height - 1)
    except Unreachable as problem:
        lines = [[("mirrormq top", "title")], [(f"! no node answers: {problem}"[:width], "bad")]]
    return [*lines, [(KEYS[:width], "soft")]]


def _draw(lines: list[Line]) -> None:
    plain = "NO_COLOR" in os.environ
    shown = ["".join(_styled(text, "" if plain else STYLES[style]) for text, style in line) for line in lines]
    sys.stdout.write(HOME + f"{CLEAR_LINE}\r\n".join(shown) + CLEAR_LINE + CLEAR_BELOW)
    sys.stdout.flush()


def _styled(text: str, style: str) -> str:
    return f"\x1b[{style}m{text}\x1b[0m" if style else text


def _key(keyboard: int, interval: float) -> str:
    """Return the key typed before the next update is due, else an empty text."""
    ready, _, _ = select.select([keyboard], [], [], interval)
    return os.read(keyboard, 32).decode("utf-8", "replace")[:1] if ready else ""


@contextlib.contextmanager
def _terminal() -> Iterator[int]:
    """Switch the terminal to single keys and an alternate screen; restore it at the end."""
    import termios
    import tty

    keyboard = sys.stdin.fileno()
    before = termios.tcgetattr(keyboard)
    try:
        tty.setcbreak(keyboard)
        sys.stdout.write(ENTER)
        yield keyboard
    finally:
        sys.stdout.write(LEAVE)
        sys.stdout.flush()
        termios.tcsetattr(keyboard, termios.TCSADRAIN, before)
