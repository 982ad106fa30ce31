"""Kafka's own Admin client, and the command-line tools that are built on it."""

import pytest
from tests.conformance.clients.confluent import Confluent
from tests.targets import is_login_asked, login_file

TOOLS = "org.apache.kafka.tools."
CONFIG = {"ClusterTool": "--config"}
"""Names of the option for a file of settings, where it is not `--command-config`."""


def logged_in_by(tool):
    """Further words of a command."""
    return f" {CONFIG.get(tool, '--command-config')} {login_file()}" if is_login_asked() else ""


@pytest.fixture
def open_transaction(topic, transactional_id, make_producer):
    """A committed transaction of two records in the topic, and an open one behind it."""
    producer = make_producer(Confluent(), transactional_id)
    for number in range(2):
        producer.begin()
        for value in (b"one", b"two"):
            producer.send(topic, value)
        if number == 0:
            producer.commit()
    return transactional_id


def test_every_admin_call_that_tools_make_is_answered(driver, server, topic, open_transaction):
    group = f"g-{topic}"
    answers = driver.ask("admin", server.bootstrap, topic, group)
    exact = {
        "listTopics": "true",
        "describeTopics by id": topic,
        "createTopics": "1000",
        "createPartitions": "null",
        "deleteTopics": "null",
        "incrementalAlterConfigs": "null",
        "describeConfigs": "123456789",
        "describeConfigs of a broker": "1",
        "listOffsets earliest": "0",
        "listOffsets latest": "5",
        "listOffsets a time": "0",
        "deleteRecords": "1",
        "listOffsets after deleteRecords": "1",
        "describeProducers": "true",
        "abortTransaction": "null",
        "fenceProducers": "null",
        "alterConsumerGroupOffsets": "null",
        "listGroups": "true",
        "listConsumerGroups": "true",
        "describeConsumerGroups": "Empty",
        "listConsumerGroupOffsets": "2",
        "deleteConsumerGroupOffsets": "null",
        "deleteConsumerGroups": "null",
    }
    assert {name: answers[name] for name in exact} == exact
    contained = {
        "describeCluster nodes": "127.0.0.1",
        "describeFeatures": "transaction.version",
        "describeTopics": f"name={topic}, internal=false",
        "listTransactions": f"{open_transaction} Ongoing",
        "describeTransactions": "[",
        "describeTopics of none": "failed: org.apache.kafka.common.errors.UnknownTopicOrPartition",
        "describeTransactions of none": "failed: org.apache.kafka.common.errors.Transactional",
        "describeConsumerGroups of none": "failed: org.apache.kafka.common.errors.GroupIdNotFound",
    }
    assert {name: text for name, text in contained.items() if text not in answers[name]} == {}
    rest = answers.keys() - exact.keys() - contained.keys()
    assert {name: answers[name] for name in rest if answers[name].startswith("failed")} == {}


@pytest.mark.parametrize(
    ("tool", "words", "printed"),
    [
        ("TopicCommand", "--bootstrap-server {server} --describe --topic {topic}", "Leader: "),
        ("TopicCommand", "--bootstrap-server {server} --list", "{topic}\n"),
        ("GetOffsetShell", "--bootstrap-server {server} --topic {topic}", "{topic}:0:5\n"),
        ("TransactionsCommand", "--bootstrap-server {server} list", "{transaction}"),
        (
            "TransactionsCommand",
            "--bootstrap-server {server} describe --transactional-id {transaction}",
            "{topic}-0",
        ),
        (
            "TransactionsCommand",
            "--bootstrap-server {server} describe-producers --topic {topic} --partition 0",
            "CurrentTransactionStartOffset",
        ),
        (
            "TransactionsCommand",
            "--bootstrap-server {server} find-hanging --topic {topic} --max-transaction-timeout 1",
            "Topic",
        ),
        (
            "consumer.group.ConsumerGroupCommand",
            "--bootstrap-server {server} --group g-{topic} --reset-offsets --to-earliest --topic {topic} --execute",
            "{topic}",
        ),
        (
            "consumer.group.ConsumerGroupCommand",
            "--bootstrap-server {server} --describe --all-groups",
            "CURRENT-OFFSET",
        ),
        ("consumer.group.ConsumerGroupCommand", "--bootstrap-server {server} --list", "g-{topic}"),
        ("GroupsCommand", "--bootstrap-server {server} --list", "g-{topic}"),
        (
            "BrokerApiVersionsCommand",
            "--bootstrap-server {server}",
            "DescribeTopicPartitions(75): 0",
        ),
        ("ClusterTool", "cluster-id --bootstrap-server {server}", "Cluster ID: "),
        ("FeatureCommand", "--bootstrap-server {server} describe", "transaction.version"),
        (
            "kafka.admin.ConfigCommand",
            "--bootstrap-server {server} --describe --all --topic {topic}",
            "retention.ms=",
        ),
    ],
    ids=lambda value: None if "{" in value else value.rpartition(".")[2],
)
def test_a_command_line_tool_prints_what_it_prints_of_kafka(
    driver, server, topic, open_transaction, tool, words, printed
):
    names = {
        "server": server.bootstrap + logged_in_by(tool),
        "topic": topic,
        "transaction": open_transaction,
    }
    driver.ask("commit", server.bootstrap, topic, f"g-{topic}")
    main_class = tool if tool.startswith("kafka.") else TOOLS + tool
    answer = driver.ask("tool", main_class, *words.format(**names).split())
    assert answer["exit"] == 0, answer["printed"]
    assert printed.format(**names) in answer["printed"]
    assert "Exception" not in answer["printed"]
