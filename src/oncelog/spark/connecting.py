"""The cluster that a query's options name, with their login."""

from oncelog.client.cluster import ClientSettings, Cluster
from oncelog.spark.options import SinkOptions, SourceOptions


def cluster_of(options: SourceOptions | SinkOptions) -> Cluster:
    return Cluster(options.bootstrap, ClientSettings(login=options.login))
