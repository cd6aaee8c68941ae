"""Node of the oldest protocol version, made of this source: it lacks the commands of later versions.

`python -m tests.upgrade.older_program server …` stands for an older release where its source is not at hand.
"""

from __future__ import annotations

import functools
import operator
import typing

import msgspec

from mirrormq import protocol_version


def downgrade() -> None:
    """Turn this process into an older node. Must run before the other modules are imported."""
    protocol_version.PROTOCOL_VERSION = protocol_version.PROTOCOL_VERSION_OLDEST
    from mirrormq.metadata import command_versions, commands

    known = [kind for kind in typing.get_args(commands.Command) if kind not in command_versions.INTRODUCED]
    commands.Command = functools.reduce(operator.or_, known)
    commands._decoder = msgspec.msgpack.Decoder(commands.Command)


if __name__ == "__main__":
    downgrade()
    from mirrormq.cli.main import main

    main()
