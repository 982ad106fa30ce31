"""With ONCELOG_TEST_LOGIN=1 every client of this suite logs in: the same tests, on listeners with TLS, SCRAM and ACLs.

The tests build their clients as any application does. What an application would write into its configuration besides,
`log_in` adds at the constructors of the libraries, from the `client.properties` of the cluster.
"""

import asyncio
from pathlib import Path

import aiokafka
import confluent_kafka
import confluent_kafka.admin
import kafka
from tests.secure_clients import password_in, properties_in
from tests.targets import is_login_asked, login_file
from tests.worlds.listener.wire_client import WireClient

from oncelog.client.core.login import ClientLogin, login_of
from oncelog.client.login import login_exchange, tls_context


def of_librdkafka():
    properties = properties_in(login_file())
    return {
        "security.protocol": properties["security.protocol"],
        "ssl.ca.location": properties["ssl.truststore.location"],
        "sasl.mechanism": properties["sasl.mechanism"],
        "sasl.username": "admin",
        "sasl.password": password_in(properties),
    }


def _of_python_clients():
    properties = properties_in(login_file())
    return properties, {
        "security_protocol": properties["security.protocol"],
        "sasl_mechanism": properties["sasl.mechanism"],
        "sasl_plain_username": "admin",
        "sasl_plain_password": password_in(properties),
    }


def of_kafka_python():
    properties, login = _of_python_clients()
    return login | {"ssl_cafile": properties["ssl.truststore.location"]}


def asked_login():
    """What clients of this project's own are told; None where nobody logs in."""
    return login_of(_login_properties()) if is_login_asked() else None


def _login_properties():
    properties = properties_in(login_file())
    del properties["bootstrap.servers"]
    return properties


def of_java(prefix=""):
    """Lines of a properties file; none where nobody logs in."""
    if not is_login_asked():
        return ""
    return "".join(f"{prefix}{name}={value}\n" for name, value in _login_properties().items())


def of_aiokafka():
    return _of_python_clients()[1] | {"ssl_context": tls_of_clients()}


def tls_of_clients():
    return tls_context(
        ClientLogin("SSL", ca=properties_in(login_file())["ssl.truststore.location"])
    )


def listener_files():
    """Certificate and key of the cluster's listeners."""
    folder = Path(properties_in(login_file())["ssl.truststore.location"]).parent
    return folder / "listener.pem", folder / "listener.key"


async def wire_client(port):
    """A connection whose frames a test writes itself, logged in where clients of this suite are."""
    login = asked_login()
    if login is None:
        return await WireClient.connect(port)
    streams = await asyncio.open_connection("127.0.0.1", port, ssl=tls_of_clients())
    client = WireClient(*streams)
    exchange = login_exchange(f"127.0.0.1:{port}", login)
    answer = None
    try:
        while True:
            schema, request = exchange.send(answer)
            answer = await client.call(schema.api_key, schema.version, request=request)
    except StopIteration:
        return client


def log_in():
    """Before a test module takes a class from a library."""
    for name in ("Producer", "Consumer"):
        setattr(confluent_kafka, name, _subclass(getattr(confluent_kafka, name)))
    _add_config(confluent_kafka.admin.AdminClient)
    for kind in (aiokafka.AIOKafkaProducer, aiokafka.AIOKafkaConsumer):
        _add_keywords(kind, of_aiokafka)
    for kind in (kafka.KafkaProducer, kafka.KafkaConsumer, kafka.KafkaAdminClient):
        _add_keywords(kind, of_kafka_python)


def _subclass(kind):
    """Of a class in C, which cannot be changed."""

    class LoggedIn(kind):
        def __init__(self, config, *more, **keywords):
            super().__init__(of_librdkafka() | config, *more, **keywords)

    return LoggedIn


def _add_config(kind):
    make = kind.__init__

    def __init__(self, config, *more, **keywords):  # noqa: N807
        make(self, of_librdkafka() | config, *more, **keywords)

    kind.__init__ = __init__


def _add_keywords(kind, login):
    make = kind.__init__

    def __init__(self, *more, **keywords):  # noqa: N807
        make(self, *more, **(login() | keywords))

    kind.__init__ = __init__
