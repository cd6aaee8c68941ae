"""Tables of a declarative pipeline: orders from a queue, and the revenue of each city.

    export MIRRORMQ_URI=amqp://guest:guest@127.0.0.1:5672/%2F
    spark-pipelines run --spec examples/spark_pipeline/spark-pipeline.yml

Each run consumes the messages that are ready, appends each to the table `orders` once, and computes
`revenue`.
"""

import os

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

spark = SparkSession.active()


@dp.table
def orders() -> DataFrame:
    """Orders as they arrive; messages that are no orders are left out."""
    uri = os.environ["MIRRORMQ_URI"]
    messages = spark.readStream.format("mirrormq").options(uri=uri, queue="pipeline.orders").load()
    order = f.from_json(f.col("body").cast("string"), "city string, amount long").alias("order")
    read = messages.select("queue", "sequence", order)
    return read.where("order.city is not null").select("queue", "sequence", "order.*")


@dp.materialized_view
def revenue() -> DataFrame:
    """Revenue of each city over all orders."""
    totals = [f.count("*").alias("orders"), f.sum("amount").alias("revenue")]
    return spark.read.table("orders").groupBy("city").agg(*totals)
