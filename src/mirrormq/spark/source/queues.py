"""The driver's view of the queues: which there are, what they hold."""

from __future__ import annotations

from mirrormq.ranges import questions
from mirrormq.ranges.questions import Extent
from mirrormq.spark.client.asking import Asker
from mirrormq.spark.client.errors import Refused
from mirrormq.spark.client.nodes import Nodes
from mirrormq.spark.options import SourceOptions

NOT_FOUND = 404


class Queues:
    """Asks over one connection, which is made when it is first needed."""

    def __init__(self, options: SourceOptions) -> None:
        self.asker = Asker(Nodes(options.addresses))
        self._options = options

    def names(self) -> list[str]:
        """The queues to read, in order; with a pattern, those that match it now."""
        if self._options.pattern is None:
            return list(self._options.queues)
        return self._matching(self._options.pattern)

    def _matching(self, pattern: str) -> list[str]:
        raise NotImplementedError(pattern)

    def extent(self, queue: str) -> Extent | None:
        """What a queue holds; None if there is no such queue."""
        try:
            return questions.read_extent(self.asker.ask(questions.extent(queue)).headers)
        except Refused as error:
            if error.code == NOT_FOUND:
                return None
            raise

    def extents(self) -> dict[str, Extent]:
        """Of all queues to read that are there."""
        found = {name: self.extent(name) for name in self.names()}
        return {name: extent for name, extent in found.items() if extent is not None}

    def close(self) -> None:
        self.asker.close()
