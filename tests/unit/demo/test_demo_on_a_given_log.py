"""The demo on a log that runs already: which log, how it logs in, and what is refused before anything starts."""

import pytest

from oncelog.errors import OncelogError
from oncelog_server.cli.client_config import login_properties, spark_options
from oncelog_server.demo.given_log import GivenLog

CONFIG = (
    "bootstrap.servers=127.0.0.1:1\nsecurity.protocol=SASL_SSL\nsasl.mechanism=PLAIN\n"
    "sasl.username=alice\nsasl.password=hidden\n"
)


@pytest.fixture
def config(tmp_path):
    path = tmp_path / "client.properties"
    path.write_text(CONFIG)
    return path


def test_the_file_says_where_the_log_is_and_who_comes(config):
    log = GivenLog(config)
    assert log.bootstrap == "127.0.0.1:1"
    assert login_properties(log.bootstrap)["sasl.password"] == "hidden"
    assert spark_options(log.client_config)["kafka.sasl.username"] == "alice"
    assert not any("bootstrap" in name for name in spark_options(log.client_config))
    assert GivenLog(config).sink_name != log.sink_name


def test_an_address_without_a_login_stays_plain():
    assert login_properties("127.0.0.1:1") == {}
    assert spark_options("") == {}


def test_a_file_without_an_address_is_refused(config):
    config.write_text("security.protocol=SSL\n")
    with pytest.raises(OncelogError, match=r"names no log; add a line bootstrap\.servers"):
        GivenLog(config)
