"""Data source `format("mirrormq")`: the interface that Spark calls."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
)
from pyspark.sql.types import StructType

from mirrormq.spark.data_source_options import (
    BROWSE,
    RABBITMQ,
    sink_options,
    source_columns,
    source_options,
)
from mirrormq.spark.option_reader import OptionError
from mirrormq.spark.source.pushed_filters import SETTING, offers_filters
from mirrormq.spark.workers import prepare_workers

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class MirrorMQ(DataSource):
    """Data source that reads queues and publishes to exchanges."""

    @classmethod
    def name(cls) -> str:
        return "mirrormq"

    def schema(self) -> StructType:
        from mirrormq.spark.source.row_schema import columns

        return columns(source_columns(self.options))

    def _given(self) -> Mapping[str, str]:
        """Return the options. For a table in its catalogue Spark keeps none, and passes at most a path."""
        if not {key.lower() for key in self.options} - {"path"}:
            raise OptionError(
                "no options were given: a table made with CREATE TABLE … USING mirrormq loses its options in"
                ' Spark; use CREATE TEMPORARY VIEW … USING mirrormq OPTIONS (…) or format("mirrormq")'
            )
        return self.options

    def reader(self, schema: StructType) -> DataSourceReader:
        from mirrormq.spark.source.browse import BatchReader, FilteringReader

        kind = FilteringReader if offers_filters() else BatchReader
        return kind(source_options(self._given(), streaming=False))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        options = source_options(self._given(), streaming=True)
        if options.broker == RABBITMQ:
            from mirrormq.spark.source.rabbitmq import RabbitReader

            return RabbitReader(options)
        if options.mode == BROWSE:
            from mirrormq.spark.source.browse import BrowseReader

            return BrowseReader(options)
        from mirrormq.spark.source.consume import ConsumeReader

        return ConsumeReader(options)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        from mirrormq.spark.sink.writers import BatchWriter

        return BatchWriter(sink_options(self._given()), schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:  # noqa: N802
        from mirrormq.spark.sink.writers import StreamWriter

        return StreamWriter(sink_options(self._given()), schema, overwrite)


HIDDEN_OPTIONS = "spark.sql.redaction.options.regex"
URI = "(?i)uri"


def register(spark: SparkSession) -> None:
    """Register `format("mirrormq")` with a session, hide the option `uri` in its plans, and let Spark offer
    filters to the reader."""
    prepare_workers(spark)
    hidden = spark.conf.get(HIDDEN_OPTIONS) or ""
    if URI not in hidden.split("|"):
        spark.conf.set(HIDDEN_OPTIONS, f"{hidden}|{URI}" if hidden else URI)
    spark.conf.set(SETTING, "true")
    spark.dataSource.register(MirrorMQ)
