"""Request and output shared by all `mirrormqctl` commands: send the request, print the reply."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

from mirrormq.cli import erlang_format, erlang_rows, formatting
from mirrormq.cli.command_line import GENERAL, CommandLine, UsageError, full_name
from mirrormq.cli.ctl_command import CtlCommand
from mirrormq.control import control_client, http_client
from mirrormq.control.control_protocol import EXIT_DATA, ControlError, Request
from mirrormq.control.preconditions import IN_ANY_STATE, objection

AT_ONCE = ("list_policies", "list_operator_policies", "list_topic_permissions", "list_parameters")
"""Listings that rabbitmqctl collects before it prints them: an empty one is printed on one line."""
PASSWORD_VERBS = ("add_user", "change_password", "authenticate_user")


def perform(command: CtlCommand, line: CommandLine) -> int:
    """Send the request and print the reply."""
    fill_in_password(command, line.words)
    show_banner(command, line)
    words, more = line.words, {}
    if command.all_columns:
        words, more = [], {"columns": columns_of(line) or list(command.columns)}
    result = ask(line, command.name, words, more)
    if command.columns:
        show_rows(command, line, result)
    elif isinstance(result, str) and not line.options.get("silent"):
        print_sentence(line, result)
    elif isinstance(result, dict) and "warning" in result:
        print(f"Warning: {result['warning']}", file=sys.stderr)
    return 0


def check_app(command: CtlCommand, line: CommandLine) -> None:
    """Refuse commands that rabbitmqctl refuses in the current state of the application."""
    if command.name in IN_ANY_STATE and not line.uri:
        return
    reply = _first_reply(command, line)
    if line.uri:
        line.answering = reply["name"]
    refusal = objection(command.name, reply["app"])
    if refusal is not None:
        raise UsageError(refusal, heading="Error")


def _first_reply(command: CtlCommand, line: CommandLine) -> dict[str, str]:
    """Return the name and state of the node that replies. Commands that wait for a node or force its start
    accept an unreachable node."""
    try:
        reply: dict[str, str] = ask(line, "ping", [])
        return reply
    except control_client.NodeUnreachable:
        if command.name not in ("await_startup", "force_boot"):
            raise
        return {"name": http_client.host_and_port(line.uri) if line.uri else line.node, "app": ""}


def ask(line: CommandLine, command: str, words: list[str], more: dict[str, Any] | None = None) -> Any:
    """Send one request to the node that the command line names."""
    options = {name: value for name, value in line.options.items() if name not in GENERAL or name == "vhost"}
    options |= more or {}
    request = Request(command, words, options)
    if line.uri:
        named = full_name(str(line.options["node"])) if "node" in line.options else ""
        return http_client.call(line.uri, named, request, line.timeout_s)
    return control_client.call(line.runtime_directory, line.node, request, line.timeout_s)


def show_banner(command: CtlCommand, line: CommandLine) -> None:
    """Print the line that announces the operation."""
    if command.banner and not line.is_quiet:
        print(command.banner.format(*line.words, **banner_words(command, line)), flush=True)


def is_erlang(line: CommandLine) -> bool:
    """Report whether the output is Erlang terms."""
    return bool(line.options.get("formatter") == "erlang")


def print_sentence(line: CommandLine, sentence: str) -> None:
    """Print a sentence, as a term in Erlang format."""
    if not is_erlang(line):
        print(sentence)
    elif sentence:
        print(erlang_format.written(sentence))


def show_facts(line: CommandLine, found: Any) -> None:
    """Print a node's facts as Erlang terms."""
    print(erlang_format.written(erlang_rows.facts(found)))


def show_rows(command: CtlCommand, line: CommandLine, rows: list[dict[str, Any]]) -> None:
    """Print a table in the requested format."""
    columns: Iterable[str] = (columns_of(line) if command.all_columns else []) or command.columns
    wanted = line.options.get("formatter", "table")
    has_headers = command.headers or wanted == "csv"
    headers = has_headers and not line.options.get("no-table-headers") and not line.options.get("silent")
    if is_erlang(line):
        print(erlang_rows.listing(command.name, shaped(command, line, rows), list(columns)))
        return
    if wanted == "json" and not rows and command.name in AT_ONCE:
        print("[]")
        return
    renderer = formatting.RENDERERS[wanted]
    for text in renderer(shaped(command, line, rows), list(columns), headers):
        print(text)


def columns_of(line: CommandLine) -> list[str]:
    """Return the named columns: `name,messages`, `name, messages` and `name messages` are equivalent."""
    return [column for word in line.words for column in word.split(",") if column]


def fill_in_password(command: CtlCommand, words: list[str]) -> None:
    """Read a missing password from stdin, so that `ps` never shows it."""
    if command.name in PASSWORD_VERBS and len(words) == 1:
        password = "" if sys.stdin.isatty() else sys.stdin.readline().rstrip("\n")
        if not password:
            raise ControlError("Password is not provided via argument or stdin", EXIT_DATA)
        words.append(password)


def banner_words(command: CtlCommand, line: CommandLine) -> dict[str, str]:
    """Return the values of the names in a banner."""
    words, options = line.words, line.options
    conditions = [text for text in ("empty", "unused") if options.get(f"if-{text}")]
    seconds = line.timeout_s or 0.0
    return {
        **command.banner_options,
        **{name: str(value) for name, value in options.items()},
        "vhost": str(options.get("vhost", "/")),
        "node": line.node,
        "which_links": "which are down " if options.get("only-down") else "",
        "timeout": str(seconds),
        "timeout_ms": str(int(seconds * 1000)),
        "rest": ", ".join(words[1:]),
        "on": f'on "{words[1]}" ' if len(words) > 1 else "",
        "which": "all limits" if words[1:] == ["all"] else f'"{"".join(words[1:])}" limit',
        "whom": "all users" if options.get("global") else f'user "{options.get("user", "guest")}"',
        "where": "all vhosts" if options.get("global") else f'vhost "{options.get("vhost", "/")}"',
        "conditions": f"if queue is {' and if queue is '.join(conditions)} " if conditions else "",
        "flag": "all feature flags" if words == ["all"] else f'feature flag "{"".join(words)}"',
        "for_how_long": f"for {options['duration']} seconds " if "duration" in options else "",
        "address_family": str(options.get("address-family", "IPv4")),
        "threshold": _threshold(command, words),
        "levelled": _levelled(words),
    }


def _levelled(words: list[str]) -> str:
    """Describe the new log level in rabbitmqctl's words."""
    category = f'for category "{words[0]}" ' if len(words) == 2 else ""
    return f'{category}to "{words[-1]}"' if words else ""


def _threshold(command: CtlCommand, words: list[str]) -> str:
    if words[:1] == ["mem_relative"]:
        return f"{words[-1]} times the total RAM"
    is_size = words[:1] == ["absolute"] or command.name == "set_disk_free_limit"
    return f"{words[-1]} bytes" if is_size else "".join(words[:1])


def shaped(command: CtlCommand, line: CommandLine, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows with parameter values as JSON text, as in every format of rabbitmqctl."""
    if command.name not in ("list_parameters", "list_global_parameters"):
        return rows
    return [{**row, "value": formatting.compact_json(row["value"])} for row in rows]
