"""The function that makes the blocking client from a query's options: addresses, login and time-outs."""

from dataclasses import replace

from oncelog.client.cluster import ClientSettings, Cluster
from oncelog.client.core.log_places import READ_UNCOMMITTED
from oncelog.spark.options import SinkOptions, SourceOptions


def cluster_of(options: SourceOptions | SinkOptions) -> Cluster:
    calls = options.calls
    given = {
        name: getattr(calls, name) for name in calls.__slots__ if getattr(calls, name) is not None
    }
    settings = replace(ClientSettings(login=options.login), **given)
    if isinstance(options, SourceOptions) and options.read_uncommitted:
        settings = replace(settings, isolation_level=READ_UNCOMMITTED)
    return Cluster(options.bootstrap, settings)
