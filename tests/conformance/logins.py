"""With ONCELOG_TEST_LOGIN=1 every client of this suite logs in: the same tests, on listeners with TLS, SCRAM and ACLs.

The tests build their clients as any application does. What an application would write into its configuration besides,
`log_in` adds at the constructors of the libraries, from the `client.properties` of the cluster.
"""

import aiokafka
import confluent_kafka
import confluent_kafka.admin
import kafka
from tests.secure_clients import password_in, properties_in
from tests.targets import login_file

from oncelog.client.core.login import ClientLogin
from oncelog.client.login import tls_context


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


def of_aiokafka():
    properties, login = _of_python_clients()
    ca = properties["ssl.truststore.location"]
    return login | {"ssl_context": tls_context(ClientLogin("SSL", ca=ca))}


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
