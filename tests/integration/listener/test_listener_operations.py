"""What operators ask with Kafka's own tools, by kafka-python's admin client: who may do what, folders, elections,
reassignments, the quorum, features."""

from contextlib import closing

import pytest
from kafka import KafkaAdminClient, KafkaProducer, TopicPartition
from kafka.structs import TopicPartitionReplica
from tests.integration.listener.secured_log import running_log

UNKNOWN_TOPIC_OR_PARTITION, ELECTION_NOT_NEEDED = 3, 84
ORDERS = TopicPartition("orders", 0)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return tmp_path_factory.mktemp("operations")


@pytest.fixture(scope="module")
def bootstrap(data):
    with running_log(data) as found:
        yield found


@pytest.fixture(scope="module")
def admin(bootstrap):
    """Of a topic of two partitions, with one record in the first."""
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    admin.create_topics({"orders": {"num_partitions": 2, "replication_factor": 1}})
    producer = KafkaProducer(bootstrap_servers=bootstrap)
    producer.send("orders", b"one", partition=0).get(10)
    producer.close()
    yield admin
    admin.close()


def test_everything_is_authorized_where_a_client_asks(admin):
    (topic,) = admin.describe_topics(["orders"])
    assert {"READ", "WRITE", "ALTER_CONFIGS"} <= names(topic["authorized_operations"])
    cluster = admin.describe_cluster()
    assert {"CLUSTER_ACTION", "IDEMPOTENT_WRITE"} <= names(cluster["authorized_operations"])


def names(operations):
    return {getattr(one, "name", one) for one in operations}


def test_each_partition_stands_in_one_folder_of_all_brokers(admin, data):
    sizes, folders = {}, []
    for broker in admin.describe_log_dirs():
        for folder in broker["log_dirs"] if "log_dirs" in broker else broker["results"]:
            folders.append(folder["log_dir"])
            for topic in folder["topics"]:
                for one in topic["partitions"]:
                    key = (topic.get("name") or topic["topic"], one["partition_index"])
                    assert key not in sizes
                    sizes[key] = one["partition_size"]
    assert folders == [f"storage-1:{data / 'logs'}"]
    assert sizes["orders", 0] > 60
    assert sizes["orders", 1] == 0
    assert ("__transaction_state", 49) in sizes


def test_a_replica_stays_in_the_one_folder_of_its_node(admin, data):
    here = TopicPartitionReplica("orders", 0, 1)
    absent = TopicPartitionReplica("no", 0, 1)
    folder = f"storage-1:{data / 'logs'}"
    assert codes_of(admin.alter_replica_log_dirs({here: folder, absent: folder})) == [0, 3]
    assert codes_of(admin.alter_replica_log_dirs({here: "/elsewhere"})) == [57]


def codes_of(answers):
    return [error.errno for error in answers.values()]


def test_elections_and_reassignments_are_about_storage_nodes(admin):
    wanted = {"orders": [0], "no": [0]}
    elected = admin.elect_leaders(0, wanted, raise_errors=False).replica_election_results
    codes = {one.topic: one.partition_result[0].error_code for one in elected}
    assert codes == {"orders": ELECTION_NOT_NEEDED, "no": UNKNOWN_TOPIC_OR_PARTITION}
    # One node has every role here, so the replica stays where it is.
    answers = admin.alter_partition_reassignments({ORDERS: [1], TopicPartition("no", 0): [1]})
    assert answers[ORDERS] is None
    assert answers[TopicPartition("no", 0)].errno == 3
    assert admin.alter_partition_reassignments({ORDERS: [7]})[ORDERS].errno == 39
    assert admin.alter_partition_reassignments({ORDERS: None})[ORDERS].errno == 85
    assert admin.list_partition_reassignments() == {}


def test_the_active_controller_is_the_quorum(admin):
    quorum = admin.describe_metadata_quorum()
    (topic,) = quorum["topics"]
    (log,) = topic["partitions"]
    assert (topic["topic_name"], log["partition_index"]) == ("__cluster_metadata", 0)
    assert log["leader_id"] == 1
    assert log["leader_epoch"] >= 1
    assert [one["replica_id"] for one in log["current_voters"]] == [1]
    assert log["current_voters"][0]["log_end_offset"] == log["high_watermark"]


def test_features_go_up_and_down_as_kafka_lets_them(admin, bootstrap):
    def level():
        with closing(KafkaAdminClient(bootstrap_servers=bootstrap)) as fresh:
            found = fresh.describe_features()
        return found["transaction.version"]["finalized"][1]

    assert level() == 2
    refused = str(admin_error(admin, {"transaction.version": 1}))
    assert "InvalidUpdateVersion" in refused
    assert "InvalidUpdateVersion" in str(admin_error(admin, {"metadata.version": 5}))
    admin.update_features({"transaction.version": (2, 1)}, validate_only=True)
    assert level() == 2
    admin.update_features({"transaction.version": (2, 1)})
    assert level() == 1
    admin.update_features({"transaction.version": 2})
    assert level() == 2


def admin_error(admin, updates):
    try:
        return admin.update_features(updates)
    except Exception as error:
        return repr(error)
