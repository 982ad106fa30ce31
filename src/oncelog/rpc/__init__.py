"""Calls between the roles of a cluster: direct ones within a process, over long-lived streams between processes."""

from oncelog.rpc.grpc_environment import prepare

prepare()
