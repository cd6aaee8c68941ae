"""Program `mirrormqctl`: rabbitmqctl's commands, options, output and exit codes for a MirrorMQ node.

Options may appear anywhere, as in rabbitmqctl. For that, and for exit codes that scripts depend on, the
command line is parsed here and not by a library. Only the control socket is needed, so the program works
in any state of the node's listeners.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

from mirrormq.cli import client_side, completion, diagnostic_output, formatting, health_checks
from mirrormq.cli.command_line import GENERAL, CommandLine, UsageError, parse
from mirrormq.cli.ctl_command import CtlCommand
from mirrormq.cli.ctl_commands import COMMANDS, usage_of
from mirrormq.cli.invoke import check_app, columns_of, perform
from mirrormq.cli.unsupported import REFUSED
from mirrormq.control import hints
from mirrormq.control.control_protocol import EXIT_UNAVAILABLE, EXIT_USAGE, ControlError
from mirrormq.control.hints import suggestion
from mirrormq.control.preconditions import LOCAL_ONLY, local_only_error
from mirrormq.errors import ConfigurationError

PROGRAM_USAGE = (
    "mirrormqctl [--node <node>] [--timeout <timeout>] [--longnames] [--quiet] <command> [<command options>]"
)


def main(arguments: list[str] | None = None) -> None:
    """Run the console script."""
    try:
        sys.exit(run(sys.argv[1:] if arguments is None else arguments))
    except BrokenPipeError:
        # Python flushes stdout at exit: redirect it, so that the closed pipe causes no second error.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)


def run(arguments: list[str]) -> int:
    """Run a command line and return the exit code."""
    if arguments[:1] == ["autocomplete"]:
        print("\n".join(completion.of_ctl(arguments[1:])))
        return 0
    line = parse(arguments)
    if not line.words or line.words[0] == "help" or (line.options.get("help")):
        return _help(line)
    name, line.words = line.words[0], line.words[1:]
    command = COMMANDS.get(name)
    if name == "version":
        return _version()
    if command is None:
        return _refused(name) if name in REFUSED else _unknown_command(name)
    try:
        check(command, line)
        check_app(command, line)
        return client_side.PROGRAMS.get(name, perform)(command, line)
    except UsageError as error:
        usage = f"Arguments given:\n\t{' '.join(arguments)}\n\nUsage\n\n{usage_of(command)}"
        print(f"{error.heading}: {error}\n{usage}", file=sys.stderr)
        if error.hint:
            print(f"Hint: {error.hint}", file=sys.stderr)
        return error.exit_code
    except ControlError as error:
        prefix = "" if error.released else "Error:\n"
        print(f"{prefix}{error.text}", file=sys.stderr)
        if error.hint:
            print(f"Hint: {error.hint}", file=sys.stderr)
        return error.exit_code
    except ConfigurationError as error:
        print(f"Error:\n{error}", file=sys.stderr)
        return EXIT_USAGE


def check(command: CtlCommand, line: CommandLine) -> None:
    """Refuse command lines that rabbitmqctl refuses before it contacts a node."""
    least, most = command.arguments
    foreign = [name for name in line.options if name not in GENERAL and name not in command.options]
    if line.unknown or foreign:
        flags = line.unknown + [f"--{name} : " for name in foreign]
        raise UsageError("Invalid options for this command:\n" + "\n".join(flags))
    if len(line.words) < least:
        raise UsageError("not enough arguments.")
    if len(line.words) > most:
        raise UsageError("too many arguments.")
    wrong = (
        [column for column in columns_of(line) if column not in command.all_columns]
        if command.all_columns
        else []
    )
    if wrong:
        hint = hints.no_such("column", wrong[0], command.all_columns, f"mirrormqctl help {command.name}")
        raise UsageError(f"Info key(s) {','.join(wrong)} are not supported", hint=hint)
    if line.options.get("formatter", "table") not in formatting.FORMATTERS:
        raise UsageError(f"the formatter must be one of {', '.join(formatting.FORMATTERS)}.")
    is_offline = command.name == "forget_cluster_node" and "offline" in line.options
    if line.uri and (command.name in LOCAL_ONLY or is_offline):
        raise UsageError(local_only_error(command.name), heading="Error")
    client_side.check_values(command, line.words)
    health_checks.check_values(command, line)
    diagnostic_output.check_values(command, line)


def _help(line: CommandLine) -> int:
    words = [word for word in line.words if word != "help"]
    command = COMMANDS.get(words[0]) if words else None
    if words and words[0] in REFUSED:
        print(f"\n{words[0]}: {REFUSED[words[0]]}")
        return 0
    if words and command is None:
        return _unknown_command(words[0])
    if command is None:
        print("\n".join(_all_commands()))
        return 0
    print(f"\nUsage\n\n{usage_of(command)}\n\n{command.help}.")
    if command.all_columns:
        print(f"\n<column> must be one of {', '.join(command.all_columns)}")
    print(f"\nExample: mirrormqctl {command.example or command.name}")
    return 0


def _all_commands() -> Iterator[str]:
    yield f"\nUsage\n\n{PROGRAM_USAGE}\n\nAvailable commands:"
    for group in dict.fromkeys(command.group for command in COMMANDS.values()):
        yield f"\n{group}:\n"
        for command in (command for command in COMMANDS.values() if command.group == group):
            yield f"   {command.name:<29} {command.help}"
    yield "\nUse 'mirrormqctl help <command>' to learn more about a specific command"
    yield "Example: mirrormqctl -n mirror1@localhost list_queues name messages"


def _unknown_command(name: str) -> int:
    close = suggestion(name, COMMANDS)
    more = f"Did you mean '{close}'? \n" if close else "\n".join(_all_commands())
    print(f"\nCommand '{name}' not found. \n{more}", file=sys.stderr)
    return EXIT_USAGE


def _refused(name: str) -> int:
    """Report a RabbitMQ command that MirrorMQ does not support."""
    print(f"Error:\n{REFUSED[name]}", file=sys.stderr)
    return EXIT_UNAVAILABLE


def _version() -> int:
    from mirrormq import __version__

    print(__version__)
    return 0
