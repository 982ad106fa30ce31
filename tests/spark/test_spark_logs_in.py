"""A stream that reads and writes over SASL_SSL as a user with ACLs, and shows its password to nobody."""

import pytest
from confluent_kafka.admin import AclOperation, ResourceType
from tests.certificates import Authority
from tests.integration.listener.secured_log import PASSWORD, secured_log, tls

ROWS = [f"row-{number:03}" for number in range(40)]


@pytest.fixture
def authority(tmp_path):
    return Authority(tmp_path / "ca")


@pytest.fixture
def secured(tmp_path, authority):
    with secured_log(tmp_path, **tls(authority, "SASL_SSL")) as found:
        yield found


@pytest.fixture
def options_of(secured, authority):
    """A user's options, as for Spark's own Kafka source."""
    return lambda user: {
        "kafka.bootstrap.servers": secured.outside,
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": "SCRAM-SHA-512",
        "kafka.sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required "
        f'username="{user}" password="{PASSWORD}";',
        "kafka.ssl.truststore.type": "PEM",
        "kafka.ssl.truststore.location": str(authority.pem),
    }


def test_a_stream_copies_over_sasl_ssl_and_shows_no_password(
    spark, secured, options_of, tmp_path, caplog
):
    caplog.set_level("INFO")
    secured.add_user("etl")
    for name in ("in", "out"):
        secured.create_topic(name)
    for topic, operation in (("in", "READ"), ("in", "WRITE"), ("out", "WRITE"), ("out", "READ")):
        secured.allow("etl", ResourceType.TOPIC, topic, AclOperation[operation])
    for sink in ("fill", "copy"):
        secured.allow("etl", ResourceType.TRANSACTIONAL_ID, sink, AclOperation.WRITE)
    options = options_of("etl")
    frame = spark.createDataFrame([(row,) for row in ROWS], "value string")
    fill = frame.write.format("oncelog").mode("append").options(**options)
    fill.option("topic", "in").option("transactionalId", "fill").save()

    stream = spark.readStream.format("oncelog").options(**options).option("subscribe", "in")
    stream = stream.option("startingOffsets", "earliest").load().select("value")
    writer = stream.writeStream.format("oncelog").options(**options).option("topic", "out")
    writer = writer.option("transactionalId", "copy")
    checkpoint = tmp_path / "checkpoint"
    query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    assert query.awaitTermination(240)

    batch = spark.read.format("oncelog").options(**options).option("subscribe", "out").load()
    assert sorted(bytes(row.value).decode() for row in batch.collect()) == ROWS
    shown = [batch._jdf.queryExecution().toString(), str(query.lastProgress), repr(query)]
    shown += [file.read_text(errors="replace") for file in checkpoint.rglob("*") if file.is_file()]
    assert not [text for text in shown if PASSWORD in text]
    assert PASSWORD not in caplog.text


def test_a_query_without_the_right_acl_or_password_is_told_so(spark, secured, options_of):
    secured.add_user("etl")
    secured.create_topic("in")
    reader = spark.read.format("oncelog").option("subscribe", "in")
    with pytest.raises(Exception, match=r"TOPIC_AUTHORIZATION_FAILED|does not exist") as refused:
        reader.options(**options_of("etl")).load().collect()
    assert PASSWORD not in str(refused.value)
    with pytest.raises(Exception, match="refused the login of user 'nobody'") as refused:
        reader.options(**options_of("nobody")).load().collect()
    assert PASSWORD not in str(refused.value)
