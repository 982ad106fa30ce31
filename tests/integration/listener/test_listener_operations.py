"""What operators ask with Kafka's own tools, by kafka-python's admin client: who may do what, folders, elections,
reassignments, the quorum, features."""

from contextlib import contextmanager

from kafka import KafkaAdminClient, KafkaProducer, TopicPartition
from kafka.structs import TopicPartitionReplica
from tests.integration.listener.embedded_log import against_oncelog

UNKNOWN_TOPIC_OR_PARTITION, ELECTION_NOT_NEEDED = 3, 84
ORDERS = TopicPartition("orders", 0)


@contextmanager
def admin_of(bootstrap):
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    try:
        yield admin
    finally:
        admin.close()


def with_orders(tmp_path, check):
    """`check(admin, bootstrap)` against a fresh oncelog with a topic of two partitions, one record in the first."""

    def client(bootstrap):
        with admin_of(bootstrap) as admin:
            admin.create_topics({"orders": {"num_partitions": 2, "replication_factor": 1}})
            producer = KafkaProducer(bootstrap_servers=bootstrap)
            producer.send("orders", b"one", partition=0).get(10)
            producer.close()
            check(admin, bootstrap)

    against_oncelog(tmp_path, client)


def test_everything_is_authorized_where_a_client_asks(tmp_path):
    def check(admin, _):
        (topic,) = admin.describe_topics(["orders"])
        assert {"READ", "WRITE", "ALTER_CONFIGS"} <= names(topic["authorized_operations"])
        cluster = admin.describe_cluster()
        assert {"CLUSTER_ACTION", "IDEMPOTENT_WRITE"} <= names(cluster["authorized_operations"])

    with_orders(tmp_path, check)


def names(operations):
    return {getattr(one, "name", one) for one in operations}


def test_each_partition_stands_in_one_folder_of_all_brokers(tmp_path):
    def check(admin, _):
        sizes, folders = {}, []
        for broker in admin.describe_log_dirs():
            for folder in broker["log_dirs"] if "log_dirs" in broker else broker["results"]:
                folders.append(folder["log_dir"])
                for topic in folder["topics"]:
                    for one in topic["partitions"]:
                        key = (topic.get("name") or topic["topic"], one["partition_index"])
                        assert key not in sizes
                        sizes[key] = one["partition_size"]
        assert folders == [f"storage-1:{tmp_path / 'logs'}"]
        assert sizes["orders", 0] > 60
        assert sizes["orders", 1] == 0
        assert ("__transaction_state", 49) in sizes

    with_orders(tmp_path, check)


def test_a_replica_stays_in_the_one_folder_of_its_node(tmp_path):
    def check(admin, _):
        here = TopicPartitionReplica("orders", 0, 1)
        absent = TopicPartitionReplica("no", 0, 1)
        folder = f"storage-1:{tmp_path / 'logs'}"
        assert codes_of(admin.alter_replica_log_dirs({here: folder, absent: folder})) == [0, 3]
        assert codes_of(admin.alter_replica_log_dirs({here: "/elsewhere"})) == [57]

    with_orders(tmp_path, check)


def codes_of(answers):
    return [error.errno for error in answers.values()]


def test_elections_and_reassignments_are_about_storage_nodes(tmp_path):
    def check(admin, _):
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

    with_orders(tmp_path, check)


def test_the_active_controller_is_the_quorum(tmp_path):
    def check(admin, _):
        quorum = admin.describe_metadata_quorum()
        (topic,) = quorum["topics"]
        (log,) = topic["partitions"]
        assert (topic["topic_name"], log["partition_index"]) == ("__cluster_metadata", 0)
        assert log["leader_id"] == 1
        assert log["leader_epoch"] >= 1
        assert [one["replica_id"] for one in log["current_voters"]] == [1]
        assert log["current_voters"][0]["log_end_offset"] == log["high_watermark"]

    with_orders(tmp_path, check)


def test_features_go_up_and_down_as_kafka_lets_them(tmp_path):
    def check(admin, bootstrap):
        def level():
            with admin_of(bootstrap) as fresh:
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

    with_orders(tmp_path, check)


def admin_error(admin, updates):
    try:
        return admin.update_features(updates)
    except Exception as error:
        return repr(error)
