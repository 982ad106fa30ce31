"""Calls between roles: direct in one process, over sessions between processes."""

from oncelog.rpc.grpc_environment import prepare

prepare()
