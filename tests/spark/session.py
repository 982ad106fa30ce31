"""The Spark session of the tests: two threads, two tries a task, no UI, loopback only."""

JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""A session lives for a minute: with the second compiler and the threads of G1 it takes twice the CPU."""


def spark_session(name, jars=(), master="local[2,2]", settings=None):
    from pyspark.sql import SparkSession

    spark = (
        SparkSession.builder.master(master)
        .appName(name)
        .config(map=settings or {})
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.memory", "1g")
        .config("spark.driver.extraJavaOptions", JVM)
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.python.filterPushdown.enabled", "true")
        .config("spark.jars", ",".join(map(str, jars)))
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    return spark
