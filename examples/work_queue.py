"""Work queue with retries: a failed job waits in a delay queue, and after three attempts it is set aside.

    jobs ──fails──> jobs.retry ──after its TTL, dead-lettered──> jobs
    jobs ──third failure──> jobs.failed

python examples/work_queue.py [URI]
"""

from __future__ import annotations

import pika
from pika.adapters.blocking_connection import BlockingChannel
from place import broker

DELAY_MS = 300
ATTEMPTS_MAX = 3
JOBS = {"invoice 1": 0, "invoice 2": 1, "invoice 3": 9}
"""Jobs, with the number of times each of them fails."""


def declare(channel: BlockingChannel) -> None:
    """Declare the queues. The delay queue has no consumer: messages leave it when their TTL expires."""
    channel.queue_declare("jobs", durable=True)
    channel.queue_declare("jobs.failed", durable=True)
    retry = {
        "x-message-ttl": DELAY_MS,
        "x-dead-letter-exchange": "",
        "x-dead-letter-routing-key": "jobs",
    }
    channel.queue_declare("jobs.retry", durable=True, arguments=retry)


def attempts_before(properties: pika.BasicProperties) -> int:
    """Read from the header x-death how often the message went through the delay queue."""
    deaths = (properties.headers or {}).get("x-death", [])
    return sum(death["count"] for death in deaths if death["queue"] == "jobs.retry")


def work(job: str, attempt: int) -> None:
    """Do the job, or fail as often as the table says."""
    if attempt <= JOBS[job]:
        raise RuntimeError("the printer is out of paper")


def main() -> None:
    with broker() as uri:
        connection = pika.BlockingConnection(pika.URLParameters(uri))
        channel = connection.channel()
        declare(channel)
        channel.confirm_delivery()
        persistent = pika.BasicProperties(delivery_mode=2)
        for job in JOBS:
            channel.basic_publish("", "jobs", job.encode(), persistent)
        channel.basic_qos(prefetch_count=1)
        finished = 0
        for method, properties, body in channel.consume("jobs"):
            job, attempt = body.decode(), attempts_before(properties) + 1
            try:
                work(job, attempt)
                print(f"{job}: done at attempt {attempt}")
                finished += 1
            except RuntimeError as error:
                again = attempt < ATTEMPTS_MAX
                print(f"{job}: attempt {attempt} failed, {error}; {'again later' if again else 'given up'}")
                # The next queue has confirmed the message before it is acknowledged in this one.
                channel.basic_publish("", "jobs.retry" if again else "jobs.failed", body, properties)
                finished += not again
            channel.basic_ack(method.delivery_tag)
            if finished == len(JOBS):
                break
        channel.cancel()
        failed = channel.queue_declare("jobs.failed", passive=True).method.message_count
        print(f"set aside in jobs.failed: {failed}")
        connection.close()


if __name__ == "__main__":
    main()
