"""A stream that reads and writes over SASL_SSL as a user with ACLs, and shows its password to nobody."""

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from tests.certificates import Authority
from tests.integration.listener.secured_log import free_port
from tests.spark.oncelog_process import OncelogProcess

PASSWORD = "a-password-that-nobody-shows"
ROWS = [f"row-{number:03}" for number in range(40)]
TIMEOUT_S = 20


class SecuredLog:
    """An oncelog with one door for its administrator, and one for those who log in over TLS."""

    def __init__(self, folder):
        authority = Authority(folder / "ca")
        files = authority.issue("listener")
        self.ca = str(authority.pem)
        self.outside = f"127.0.0.1:{free_port()}"
        inside = f"127.0.0.1:{free_port()}"
        settings = {
            "LISTENERS": f"PLAINTEXT://{inside},SASL_SSL://{self.outside}",
            "SSL_CERTIFICATE_FILE": str(files.certificate_chain),
            "SSL_KEY_FILE": str(files.key),
            "AUTHORIZER": "acl",
            "SUPER_USERS": "User:ANONYMOUS",
        }
        environment = {f"ONCELOG_LISTENER_{name}": value for name, value in settings.items()}
        self.process = OncelogProcess(folder, environment=environment)
        self.process.start()
        self._admin = AdminClient({"bootstrap.servers": inside})

    def add_user(self, user):
        change = UserScramCredentialUpsertion(
            user, ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096), PASSWORD.encode()
        )
        self._admin.alter_user_scram_credentials([change])[user].result(TIMEOUT_S)

    def allow(self, user, kind, name, operation):
        acl = AclBinding(
            kind, name, ResourcePatternType.LITERAL, f"User:{user}", "*", operation,
            AclPermissionType.ALLOW,
        )  # fmt: skip
        self._admin.create_acls([acl])[acl].result(TIMEOUT_S)

    def create(self, topic):
        self._admin.create_topics([NewTopic(topic, 1)])[topic].result(TIMEOUT_S)

    def options(self, user):
        """As for Spark's own Kafka source."""
        return {
            "kafka.bootstrap.servers": self.outside,
            "kafka.security.protocol": "SASL_SSL",
            "kafka.sasl.mechanism": "SCRAM-SHA-512",
            "kafka.sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required "
            f'username="{user}" password="{PASSWORD}";',
            "kafka.ssl.truststore.type": "PEM",
            "kafka.ssl.truststore.location": self.ca,
        }


@pytest.fixture
def log(tmp_path):
    log = SecuredLog(tmp_path)
    yield log
    log.process.stop()


def test_a_stream_copies_over_sasl_ssl_and_shows_no_password(spark, log, tmp_path):
    log.add_user("etl")
    for topic in ("in", "out"):
        log.create(topic)
    for topic, operation in (("in", "READ"), ("in", "WRITE"), ("out", "WRITE"), ("out", "READ")):
        log.allow("etl", ResourceType.TOPIC, topic, AclOperation[operation])
    for sink in ("fill", "copy"):
        log.allow("etl", ResourceType.TRANSACTIONAL_ID, sink, AclOperation.WRITE)
    options = log.options("etl")
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
    assert PASSWORD not in (tmp_path / "oncelog.log").read_text()


def test_a_query_without_the_right_acl_or_password_is_told_so(spark, log):
    log.add_user("etl")
    log.create("in")
    reader = spark.read.format("oncelog").option("subscribe", "in")
    with pytest.raises(Exception, match=r"TOPIC_AUTHORIZATION_FAILED|does not exist") as refused:
        reader.options(**log.options("etl")).load().collect()
    assert PASSWORD not in str(refused.value)
    with pytest.raises(Exception, match="refused the login of user 'nobody'") as refused:
        reader.options(**log.options("nobody")).load().collect()
    assert PASSWORD not in str(refused.value)
