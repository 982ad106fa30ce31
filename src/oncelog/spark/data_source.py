"""The data source `oncelog`, which Spark calls: it makes readers and writers out of options."""

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from oncelog.errors import OncelogError
from oncelog.spark.message_first import message_first
from oncelog.spark.options import SinkOptions, parse_sink_options, parse_source_options

if TYPE_CHECKING:
    from oncelog.spark.sink import BatchWriter, StreamWriter
    from oncelog.spark.source import BatchReader, StreamReader


class DefaultSource(DataSource):
    """The class behind `format("oncelog")`: Spark asks it for readers and writers. It imports modules only when needed,
    because Spark loads it in many processes."""

    @classmethod
    def name(cls) -> str:
        return "oncelog"

    @message_first
    def schema(self) -> str:
        from oncelog.spark.columns import source_ddl

        return source_ddl(parse_source_options(self.options))

    @message_first
    def reader(self, schema: StructType) -> "BatchReader":
        from oncelog.spark.columns import check_source_columns
        from oncelog.spark.source import BatchReader, PruningBatchReader

        options = parse_source_options(self.options)
        check_source_columns(schema.names, options)
        if options.group_id is not None:
            raise OncelogError(
                "option kafka.group.id is for streams, which show in that group how far they have read; leave it out"
            )
        return PruningBatchReader(options) if options.pushdown else BatchReader(options)

    @message_first
    def streamReader(self, schema: StructType) -> "StreamReader":  # noqa: N802
        from oncelog.spark.columns import check_source_columns
        from oncelog.spark.source import StreamReader

        options = parse_source_options(self.options, is_stream=True)
        check_source_columns(schema.names, options)
        return StreamReader(options)

    @message_first
    def writer(self, schema: StructType, overwrite: bool) -> "BatchWriter":
        from oncelog.spark.sink import BatchWriter

        return BatchWriter(self._sink_options(schema, overwrite))

    @message_first
    def streamWriter(self, schema: StructType, overwrite: bool) -> "StreamWriter":  # noqa: N802
        from oncelog.spark.sink import StreamWriter

        options = self._sink_options(schema, overwrite)
        if options.job_id is not None or options.batch_id is not None:
            raise OncelogError(
                "options jobId and batchId are for batch writes: Spark numbers the batches of a stream itself, so "
                "leave them out"
            )
        return StreamWriter(options)

    def _sink_options(self, schema: StructType, overwrite: bool) -> SinkOptions:
        from oncelog.spark.columns import check_sink_columns

        if overwrite:
            raise OncelogError(
                'a log cannot be overwritten: use mode("append"), or outputMode("append") in a stream. For '
                'outputMode("update") or ("complete") write inside foreachBatch with the options transactionalId and '
                "batchId (docs/spark.md, Output modes)"
            )
        options = parse_sink_options(self.options)
        types = {field.name: field.dataType.simpleString() for field in schema.fields}
        check_sink_columns(types, options.topic is not None)
        return options
