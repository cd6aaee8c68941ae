"""Entry point of the program `mirrormq`.

A node runs for months and needs no help pages, so `mirrormq server` is started without them: typer and the
modules of all other commands take 12 MB and a quarter of a second. Everything else, and every command line of
`server` that is not plainly correct, goes to the whole program, which explains it.
"""

from __future__ import annotations

import sys

from mirrormq.cli import program_exit
from mirrormq.cli.server import plain_options, serve
from mirrormq.errors import ConfigurationError, StartError


def main(arguments: list[str] | None = None) -> None:
    """Run the console script."""
    words = sys.argv[1:] if arguments is None else arguments
    options = plain_options(words[1:]) if words[:1] == ["server"] else None
    try:
        if options is not None:
            sys.exit(serve(**options))
        from mirrormq.cli.program import run  # Imported here, so that a node does not load it.

        run(words)
    except StartError as error:
        print(f"mirrormq: {error}", file=sys.stderr)
        settings = isinstance(error, ConfigurationError)
        sys.exit(program_exit.CONFIGURATION if settings else program_exit.UNAVAILABLE)
    except KeyboardInterrupt:
        sys.exit(program_exit.INTERRUPTED)


if __name__ == "__main__":
    main()
