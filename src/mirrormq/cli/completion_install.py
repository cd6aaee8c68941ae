"""Commands `mirrormq completion` and `mirrormq alias`: shell completion and RabbitMQ's program names."""

from __future__ import annotations

import sys
import sysconfig
from pathlib import Path
from typing import Annotated

import typer

PROGRAMS = ("mirrormq", "mirrormqctl")
ALIASES = ("rabbitmqctl", "rabbitmq-diagnostics", "rabbitmq-queues", "rabbitmq-upgrade", "rabbitmq-plugins")
"""RabbitMQ's programs whose commands mirrormqctl provides."""

ANY_WORDS = {"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": []}

BASH = """\
_{function}() {{
    local IFS=$'\\n'
    COMPREPLY=($({program} autocomplete -- "${{COMP_WORDS[@]:1:COMP_CWORD}}" 2>/dev/null))
}}
complete -o default -F _{function} {program}
"""

ZSH = """\
_{function}() {{
    local -a found
    found=("${{(@f)$({program} autocomplete -- "${{(@)words[2,CURRENT]}}" 2>/dev/null)}}")
    if [[ -n "$found[1]" ]]; then compadd -a found; else _files; fi
}}
compdef _{function} {program}
"""

FISH = """\
complete -c {program} -f -a \\
    '({program} autocomplete -- (commandline -opc)[2..] (commandline -ct) 2>/dev/null)'
"""

SCRIPTS = {"bash": BASH, "zsh": ZSH, "fish": FISH}


def completion(shell: Annotated[str, typer.Argument(help="bash, zsh or fish.")]) -> None:
    """Print the shell completion script for mirrormq and mirrormqctl.

    \b
    Example, for this shell and for every later shell:
      source <(mirrormq completion bash)
      mirrormq completion bash > ~/.local/share/bash-completion/completions/mirrormqctl
    """
    if shell not in SCRIPTS:
        print(
            f"mirrormq completion: unknown shell {shell!r}: name one of {', '.join(SCRIPTS)}.",
            file=sys.stderr,
        )
        raise typer.Exit(2)
    for program in (*PROGRAMS, *(name for name in ALIASES if _is_ours(_directory() / name))):
        print(SCRIPTS[shell].format(program=program, function=f"complete_{program.replace('-', '_')}"))


def autocomplete(context: typer.Context) -> None:
    """Print the candidates for the last word; completion scripts call this command."""
    from mirrormq.cli.program import app  # Imported here because it imports this module.

    words = context.args[1:] if context.args[:1] == ["--"] else context.args
    *before, unfinished = words or [""]
    command: object = typer.main.get_command(app)
    for word in before:
        command = getattr(command, "commands", {}).get(word, command)
    names = list(getattr(command, "commands", {}))
    if unfinished.startswith("-"):
        names = [flag for parameter in getattr(command, "params", ()) for flag in parameter.opts]
    print("\n".join(sorted(name for name in names if name.startswith(unfinished))))


def alias(
    directory: Annotated[Path | None, typer.Option(help="Directory for the links.")] = None,
    remove: Annotated[bool, typer.Option("--remove", help="Remove the links.")] = False,
) -> None:
    """Install mirrormqctl under the names of RabbitMQ's programs, such as rabbitmqctl.

    The other names are rabbitmq-diagnostics, rabbitmq-queues, rabbitmq-upgrade and rabbitmq-plugins.

    An existing program that is not a link to mirrormqctl is never replaced.

    \b
    Example:
      mirrormq alias --directory ~/.local/bin
    """
    where = directory or _directory()
    try:
        for name in ALIASES:
            _remove(where / name) if remove else _install(where / name)
    except OSError as error:
        print(f"mirrormq alias: {error.filename or where}: {error.strerror}.", file=sys.stderr)
        raise typer.Exit(1) from None


def _install(path: Path) -> None:
    if _is_ours(path):
        return
    if path.is_symlink() or path.exists():
        print(
            f"mirrormq alias: {path} is another program and was kept: name another --directory.",
            file=sys.stderr,
        )
        raise typer.Exit(1)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(_directory() / PROGRAMS[1])
    print(path)


def _remove(path: Path) -> None:
    if _is_ours(path):
        path.unlink()
        print(path)


def _directory() -> Path:
    """Return the directory of this installation's programs."""
    beside = Path(sys.argv[0]).resolve().parent
    return beside if (beside / PROGRAMS[1]).exists() else Path(sysconfig.get_path("scripts"))


def _is_ours(path: Path) -> bool:
    return path.is_symlink() and path.resolve() == (_directory() / PROGRAMS[1]).resolve()
