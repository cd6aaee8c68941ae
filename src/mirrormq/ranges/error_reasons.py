"""Reason codes of refused range requests: the header `reason` of an error reply.

Clients decide by these codes. The header `text` is for users and may change.
"""

from __future__ import annotations

NO_QUEUE = "no_queue"
"""No queue of that name exists in the vhost, or none with the `id` of the request."""

NO_LEASE = "no_lease"
"""The queue has no lease of that name: it never took a message, was released, or expired."""

LEASE_ENDED = "lease_ended"
"""The lease was released or expired while it held messages of these takes: they are in the queue again."""

LEASE_IN_USE = "lease_in_use"
"""Another client uses the lease."""

TRY_AGAIN = "try_again"
"""The queue has no reachable master at the moment. The same request succeeds after promotion."""

OTHER_MESSAGES = "other_messages"
"""The lease holds other messages under these take numbers than those of the client's digest."""

TAKE_SETTLED = "take_settled"
"""The take of that number was settled before."""

OLDER_BATCH = "older_batch"
"""The producer has published a later batch."""

TOO_MANY_CONTENTS = "too_many_contents"
"""The producer has announced the batch with too many different contents."""

OTHER_USER = "other_user"
"""The name belongs to another user."""

ACCESS_REFUSED = "access_refused"
PRECONDITION_FAILED = "precondition_failed"
INTERNAL_ERROR = "internal_error"

BY_CODE = {403: ACCESS_REFUSED, 404: NO_QUEUE, 406: PRECONDITION_FAILED}
"""Reason of an error that names none, by its AMQP reply code."""
