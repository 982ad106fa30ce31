"""The PySpark connector: `spark.read`, `spark.readStream` and `writeStream` with `format("oncelog")`.

`pyspark_oncelog` registers it with Spark by its name. `source.py` reads, `sink.py` writes exactly once; docs/spark.md
is the user's guide.
"""
