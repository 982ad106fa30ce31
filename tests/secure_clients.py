"""What clients of a secured cluster are configured with, from its `client.properties`."""

import re


def properties_of(cluster):
    """Kafka's names and values, as they stand in the file."""
    return properties_in(cluster.security.client_properties)


def properties_in(file):
    lines = file.read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if not line.startswith("#"))


def password_of(cluster):
    return password_in(properties_of(cluster))


def password_in(properties):
    return re.search(r'password="([^"]+)"', properties["sasl.jaas.config"])[1]


def confluent_of(cluster, **more):
    """For confluent-kafka, logged in as the administrator; dots in names are written as underscores."""
    properties = properties_of(cluster)
    return {
        "bootstrap.servers": cluster.bootstrap,
        "security.protocol": properties["security.protocol"],
        "ssl.ca.location": properties["ssl.truststore.location"],
        "sasl.mechanism": properties["sasl.mechanism"],
        "sasl.username": "admin",
        "sasl.password": password_of(cluster),
        "log_level": 0,
    } | {name.replace("_", "."): value for name, value in more.items()}
