"""Queues as Arrow data, for pyarrow, Polars and DuckDB, without Spark. The extra `[arrow]` installs pyarrow.

from mirrormq import arrow

uri = "amqp://guest:guest@127.0.0.1:5672/%2F"
table = arrow.read(uri, queue="orders").read_all()
arrow.write(uri, table.select(["body"]), routing_key="copies")
"""

from mirrormq.arrow.message_schema import HEADERS_TYPED, SCHEMA
from mirrormq.arrow.queue_reader import read
from mirrormq.arrow.queue_writer import write

__all__ = ["HEADERS_TYPED", "SCHEMA", "read", "write"]
