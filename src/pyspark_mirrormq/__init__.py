"""Data source of MirrorMQ under the name that Spark looks for: packages that begin with `pyspark_`.

Spark 4 and newer finds `format("mirrormq")` through `DefaultSource` without `register`, from SQL, Scala and
Connect too.
"""

from mirrormq.spark.datasource import MirrorMQ as DefaultSource

__all__ = ["DefaultSource"]
