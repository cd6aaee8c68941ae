"""Random conversations: a seed chooses what is said on up to six channels; both brokers must answer alike.

Random walks (`random_walks.py`) go far with few verbs. These use all verbs, rightly and wrongly, because
nobody thinks of every way in which mistakes, modes and ends can meet. `pending_replies/` says how they are
made and spoken; `python -m tests.differential.hunt` speaks thousands more of them.
"""

from __future__ import annotations

from tests.differential.context import Context
from tests.differential.conversations.making import pending_reply
from tests.differential.conversations.playing import Player
from tests.differential.runner import script

SEEDS = range(30)
PAUSE_S = 0.01
"""Twice what a quiet machine needs."""

for _seed in SEEDS:

    @script(name=f"random_conversation_{_seed:02d}")
    def _converse(c: Context, seed: int = _seed) -> None:
        """See the top of this file."""
        Player(c, pending_reply(seed), PAUSE_S).play()
