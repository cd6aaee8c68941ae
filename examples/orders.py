"""Orders → queue → Spark → queue → consumer, each order counted once.

python examples/orders.py [URI,URI]

With several URIs Spark continues on another node when one is lost.
"""

from __future__ import annotations

import json
import os
import random
import tempfile

import pika
from place import broker
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from mirrormq.spark import register, start_session
from mirrormq.spark.decode import json_body
from mirrormq.spark.spark_session import SHORT_WORK

ORDERS, TOTALS = "orders", "totals"
COUNT = 300
PRODUCTS = ("bread", "cheese", "wine")


def publish_orders(channel: pika.adapters.blocking_connection.BlockingChannel) -> int:
    """Publish orders with confirms; return their total value."""
    channel.queue_declare(ORDERS, durable=True)
    channel.queue_declare(TOTALS, durable=True)
    channel.confirm_delivery()
    worth = 0
    for _ in range(COUNT):
        order = {"product": random.choice(PRODUCTS), "cents": random.randint(100, 5000)}
        worth += order["cents"]
        channel.basic_publish("", ORDERS, json.dumps(order).encode(), pika.BasicProperties(delivery_mode=2))
    return worth


def count_orders(uri: str, checkpoint: str) -> None:
    """Consume the orders and publish totals by product. A restarted job continues where it stopped."""
    spark = start_session("orders", "local[2]")
    register(spark)
    messages = spark.readStream.format("mirrormq").options(uri=uri, queue=ORDERS).load()
    orders = json_body(messages, "product string, cents long").select("value.*")

    def publish_totals(batch: DataFrame, number: int) -> None:
        totals = batch.groupBy("product").agg(f.count("*").alias("orders"), f.sum("cents").alias("cents"))
        rows = totals.select(f.to_json(f.struct("product", "orders", "cents")).alias("body"))
        # A repeated batch has the same name and the same order: the broker drops its duplicates.
        ordered = rows.coalesce(1).sortWithinPartitions("body")
        options = {"uri": uri, "routingKey": TOTALS, "writeId": f"{checkpoint} {number}"}
        ordered.write.format("mirrormq").mode("append").options(**options).save()

    query = orders.writeStream.foreachBatch(publish_totals).option("checkpointLocation", checkpoint)
    query.trigger(availableNow=True).start().awaitTermination()
    spark.stop()


def main(uri: str) -> None:
    """Publish the orders, count them, and check the totals."""
    connection = pika.BlockingConnection(pika.URLParameters(uri.split(",")[0]))
    channel = connection.channel()
    worth = publish_orders(channel)
    print(f"published {COUNT} orders worth {worth / 100:.2f}")
    with tempfile.TemporaryDirectory() as checkpoint:
        count_orders(uri, checkpoint)
    seen = 0
    for _method, _properties, body in channel.consume(TOTALS, auto_ack=True, inactivity_timeout=1):
        if body is None:
            break
        total = json.loads(body)
        seen += total["cents"]
        print(f"{total['product']}: {total['orders']} orders worth {total['cents'] / 100:.2f}")
    print(
        f"together {seen / 100:.2f}: {'every order was counted once' if seen == worth else 'that is wrong'}"
    )
    connection.close()


if __name__ == "__main__":
    # A short job ends before Java's optimised code is ready: compile quickly instead.
    os.environ.setdefault("SPARK_SUBMIT_OPTS", SHORT_WORK)
    with broker() as uri:
        main(uri)
