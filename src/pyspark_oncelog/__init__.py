"""Registers the data source `oncelog` with Spark, which imports every module named `pyspark_*` to look for one."""

from oncelog.spark.data_source import DefaultSource

__all__ = ["DefaultSource"]
