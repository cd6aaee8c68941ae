"""`mirrormqctl`: rabbitmqctl's verbs, flags, output and exit codes for a MirrorMQ node.

Flags may stand anywhere, as in rabbitmqctl; that, and exit codes that scripts depend on, is why the
words are read here and not by a command-line library. Only the control socket is needed, so it works
whatever state the node's listeners are in.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

from mirrormq.cli import completion, diagnostics, formatting, health, local
from mirrormq.cli.asking import check_app, columns_of, perform
from mirrormq.cli.line import GENERAL, Line, UsageError, parse
from mirrormq.cli.refused import REFUSED
from mirrormq.cli.verb import Verb
from mirrormq.cli.verbs import VERBS, usage_of
from mirrormq.control.protocol import EXIT_UNAVAILABLE, EXIT_USAGE, ControlError
from mirrormq.control.requirements import AT_THE_MACHINE, at_the_machine
from mirrormq.control.suggesting import suggestion
from mirrormq.errors import ConfigurationError

PROGRAM_USAGE = (
    "mirrormqctl [--node <node>] [--timeout <timeout>] [--longnames] [--quiet] <command> [<command options>]"
)


def main(arguments: list[str] | None = None) -> None:
    """The console script."""
    try:
        sys.exit(run(sys.argv[1:] if arguments is None else arguments))
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)


def run(arguments: list[str]) -> int:
    """Do what the words say; returns the exit code."""
    if arguments[:1] == ["autocomplete"]:
        print("\n".join(completion.of_ctl(arguments[1:])))
        return 0
    line = parse(arguments)
    if not line.words or line.words[0] == "help" or (line.options.get("help")):
        return _help(line)
    name, line.words = line.words[0], line.words[1:]
    verb = VERBS.get(name)
    if name == "version":
        return _version()
    if verb is None:
        return _refused(name) if name in REFUSED else _unknown_verb(name)
    try:
        check(verb, line)
        check_app(verb, line)
        return local.PROGRAMS.get(name, perform)(verb, line)
    except UsageError as error:
        usage = f"Arguments given:\n\t{' '.join(arguments)}\n\nUsage\n\n{usage_of(verb)}"
        print(f"{error.heading}: {error}\n{usage}", file=sys.stderr)
        return error.exit_code
    except ControlError as error:
        prefix = "" if error.bare else "Error:\n"
        print(f"{prefix}{error.text}", file=sys.stderr)
        if error.hint:
            print(f"Hint: {error.hint}", file=sys.stderr)
        return error.exit_code
    except ConfigurationError as error:
        print(f"Error:\n{error}", file=sys.stderr)
        return EXIT_USAGE


def check(verb: Verb, line: Line) -> None:
    """Refuse what rabbitmqctl refuses before it asks a node."""
    least, most = verb.arguments
    foreign = [name for name in line.options if name not in GENERAL and name not in verb.options]
    if line.unknown or foreign:
        flags = line.unknown + [f"--{name} : " for name in foreign]
        raise UsageError("Invalid options for this command:\n" + "\n".join(flags))
    if len(line.words) < least:
        raise UsageError("not enough arguments.")
    if len(line.words) > most:
        raise UsageError("too many arguments.")
    wrong = (
        [column for column in columns_of(line) if column not in verb.all_columns] if verb.all_columns else []
    )
    if wrong:
        raise UsageError(f"Info key(s) {','.join(wrong)} are not supported")
    if line.options.get("formatter", "table") not in formatting.FORMATTERS:
        raise UsageError(f"the formatter must be one of {', '.join(formatting.FORMATTERS)}.")
    is_offline = verb.name == "forget_cluster_node" and "offline" in line.options
    if line.uri and (verb.name in AT_THE_MACHINE or is_offline):
        raise UsageError(at_the_machine(verb.name), heading="Error")
    local.check_values(verb, line.words)
    health.check_values(verb, line)
    diagnostics.check_values(verb, line)


def _help(line: Line) -> int:
    words = [word for word in line.words if word != "help"]
    verb = VERBS.get(words[0]) if words else None
    if words and words[0] in REFUSED:
        print(f"\n{words[0]}: {REFUSED[words[0]]}")
        return 0
    if words and verb is None:
        return _unknown_verb(words[0])
    if verb is None:
        print("\n".join(_all_verbs()))
        return 0
    print(f"\nUsage\n\n{usage_of(verb)}\n\n{verb.help}.")
    if verb.all_columns:
        print(f"\n<column> must be one of {', '.join(verb.all_columns)}")
    print(f"\nExample: mirrormqctl {verb.example or verb.name}")
    return 0


def _all_verbs() -> Iterator[str]:
    yield f"\nUsage\n\n{PROGRAM_USAGE}\n\nAvailable commands:"
    for group in dict.fromkeys(known.group for known in VERBS.values()):
        yield f"\n{group}:\n"
        for known in (known for known in VERBS.values() if known.group == group):
            yield f"   {known.name:<29} {known.help}"
    yield "\nUse 'mirrormqctl help <command>' to learn more about a specific command"
    yield "Example: mirrormqctl -n mirror1@localhost list_queues name messages"


def _unknown_verb(name: str) -> int:
    close = suggestion(name, VERBS)
    more = f"Did you mean '{close}'? \n" if close else "\n".join(_all_verbs())
    print(f"\nCommand '{name}' not found. \n{more}", file=sys.stderr)
    return EXIT_USAGE


def _refused(name: str) -> int:
    """A verb of RabbitMQ's that has nothing behind it here."""
    print(f"Error:\n{REFUSED[name]}", file=sys.stderr)
    return EXIT_UNAVAILABLE


def _version() -> int:
    from mirrormq import __version__

    print(__version__)
    return 0
