"""Sink batches: batches that producers announce before they publish them, so that repetitions are
recognised.

The record is metadata (`metadata.producer_commands`), so every node gives the same reply, also after a
failover.
"""

from __future__ import annotations

from mirrormq import limits
from mirrormq.errors import AccessRefused, PreconditionFailed
from mirrormq.leases.lease_host import LeaseHost, RequestChannel
from mirrormq.metadata import commands, records
from mirrormq.ranges import error_reasons, range_limits, range_protocol
from mirrormq.ranges.range_request import Answered, Refused, RequestValues, reply


class SinkBatches:
    """Announced batches on one node."""

    def __init__(self, broker: LeaseHost) -> None:
        self._broker = broker

    def begin(
        self, channel: RequestChannel, values: RequestValues, answered: Answered, refused: Refused
    ) -> None:
        """Record the batch in the metadata, then reply with the producer name for its messages."""
        begun = records.Producer(
            channel.vhost.name,
            _sized(values, "producer", range_limits.BATCH_NAME_BYTES_MAX),
            channel.user.name,
            _sized(values, "generation", range_limits.GENERATION_BYTES_MAX),
            values.number("batch"),
            (_sized(values, "digest", range_limits.DIGEST_BYTES_MAX),),
            self._broker.clock.now_ms,
        )
        before = self._broker.metadata.state.producers.get(begun.key)
        if before is not None:
            _check(before, begun)

        def recorded() -> None:
            producer = self._broker.metadata.state.producers.get(begun.key)
            if producer is None or begun.digests[0] not in producer.digests or producer.batch != begun.batch:
                refused(_refusal(producer, begun))
                return
            epoch = producer.digests.index(begun.digests[0])
            name = f"{producer.name}/{producer.generation}" + (f".{epoch}" if epoch else "")
            answered(reply(range_protocol.batch_answer(name, epoch)))

        self._broker.write(commands.BeginBatch(begun), begun.user, recorded)

    def end(self, channel: RequestChannel, values: RequestValues, answered: Answered) -> None:
        """Let the producers of a complete write make room for others, then reply."""
        write = _sized(values, "write", range_limits.BATCH_NAME_BYTES_MAX)
        user = channel.user.name
        self._broker.write(
            commands.EndWrite(channel.vhost.name, write, user), user, lambda: answered(reply({}))
        )


def _refusal(producer: records.Producer | None, begun: records.Producer) -> PreconditionFailed:
    """Return the error for a batch that the metadata did not record."""
    if producer is None:
        idle_days = limits.PRODUCER_IDLE_MS // 86_400_000
        return PreconditionFailed(
            f"vhost '{begun.vhost}' has the maximum of {range_limits.PRODUCERS_PER_VHOST_MAX} producers, and"
            f" none was idle for {idle_days} days: publish in fewer partitions, or as an earlier write"
        )
    if producer.batch == begun.batch:
        return PreconditionFailed(
            f"batch {begun.batch} of producer '{begun.name}' was announced with"
            f" {range_limits.PRODUCER_EPOCHS_MAX} different contents, the maximum: repeat one of them,"
            " or publish under another name",
            reason=error_reasons.TOO_MANY_CONTENTS,
        )
    # Another task was faster and began a later batch.
    return PreconditionFailed(
        f"batch {begun.batch} of producer '{begun.name}' was overtaken; repeat the request",
        reason=error_reasons.OLDER_BATCH,
    )


def _check(before: records.Producer, begun: records.Producer) -> None:
    if before.user != begun.user:
        raise AccessRefused(
            f"producer '{begun.name}' in vhost '{begun.vhost}' belongs to another user",
            reason=error_reasons.OTHER_USER,
        )
    if begun.batch < before.batch:
        raise PreconditionFailed(
            f"producer '{begun.name}' has published batch {before.batch}, batch {begun.batch} is older",
            reason=error_reasons.OLDER_BATCH,
        )


def _sized(values: RequestValues, header: str, bytes_max: int) -> str:
    text = values.text(header)
    if not 1 <= len(text.encode("utf-8", "surrogateescape")) <= bytes_max:
        raise PreconditionFailed(f"the header '{header}' has 1 to {bytes_max} bytes")
    return text
