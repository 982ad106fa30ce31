"""The handlers turn Kafka requests into protobuf and back, one function an API; `oncelog_listener.routes` lists
them."""
