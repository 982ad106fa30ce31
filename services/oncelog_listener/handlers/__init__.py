"""Kafka requests to protobuf and back, one function an API; `oncelog_listener.routes` lists them."""
