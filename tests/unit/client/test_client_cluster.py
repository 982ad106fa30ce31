"""Finding brokers and leaders, versions, private calls, and what is said when that fails."""

import socket

import pytest
from kio.schema.errors import ErrorCode as KioError
from tests.unit.client.kafka_peer import NO_THROTTLE, Hangup, KafkaPeer

from oncelog.client.cluster import ClientSettings, Cluster
from oncelog.client.connection import Connection, Deadline
from oncelog.client.core.addresses import Address, parse_addresses
from oncelog.errors import ErrorCode, KafkaError, OncelogError
from oncelog.ids import Partition
from oncelog.protocol import versions
from oncelog.protocol.messages import schema_of
from oncelog.protocol.private_api import KEY_OF_METHOD, PRIVATE_CALLS

QUICK = ClientSettings(
    bootstrap_timeout_ms=500, request_timeout_ms=2_000, call_timeout_ms=1_000, backoff_min_ms=1
)


def describe_request(sink="s"):
    return PRIVATE_CALLS[KEY_OF_METHOD["DescribeSink"]].request(sink=sink)


@pytest.fixture
def peer():
    with KafkaPeer({"orders": 3}) as peer:
        yield peer


@pytest.fixture
def cluster(peer):
    with Cluster([peer.address], QUICK) as cluster:
        yield cluster


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("localhost:9092", [("localhost", 9092)]),
        (" a:1 , b:2,", [("a", 1), ("b", 2)]),
        ("[::1]:9092", [("::1", 9092)]),
    ],
)
def test_addresses_are_host_and_port(text, expected):
    assert list(parse_addresses(text)) == expected


@pytest.mark.parametrize(
    "text", ["", "localhost", "localhost:", ":9092", "a:0", "a:70000", "::1:9", "a:b"]
)
def test_bad_address_is_named(text):
    with pytest.raises(OncelogError, match=r"localhost:9092"):
        parse_addresses(text)


def test_ipv6_address_is_shown_in_brackets():
    assert str(Address("::1", 5)) == "[::1]:5"


def test_client_names_itself_so_that_private_calls_are_told(peer, cluster):
    assert cluster.partition_counts(["orders"]) == {"orders": 3}
    assert peer.client_names == {"oncelog"}


def test_missing_topic_is_named_with_the_way_out(cluster):
    with pytest.raises(OncelogError, match=r"topic 'nope' does not exist.*topics create nope"):
        cluster.partition_counts(["nope"])


def test_partition_that_does_not_exist_is_named(cluster):
    with pytest.raises(OncelogError, match=r"'orders' has 3 partitions; there is no partition 9"):
        cluster.leader_of(Partition("orders", 9))


def test_wrong_address_is_told_within_the_bootstrap_time():
    address = Address("127.0.0.1", free_port())
    with (
        Cluster([address], QUICK) as cluster,
        pytest.raises(
            OncelogError, match=rf"no broker answers .*{address.port}.*bootstrap.servers"
        ),
    ):
        cluster.partition_counts(["orders"])


def test_second_bootstrap_address_serves_when_the_first_is_down(peer):
    with Cluster([Address("127.0.0.1", free_port()), peer.address], QUICK) as cluster:
        assert cluster.partition_counts(["orders"]) == {"orders": 3}


def test_offsets_of_all_partitions_come_in_one_request(peer, cluster):
    peer.partitions["orders", 1].next_offset = 10
    peer.partitions["orders", 1].last_stable_offset = 7
    wanted = {Partition("orders", number): -1 for number in range(3)}
    found = cluster.list_offsets(wanted)
    assert [found[key] for key in wanted] == [0, 7, 0]
    requests = [request for key, request in peer.requests if key == versions.LIST_OFFSETS]
    assert len(requests) == 1
    assert requests[0].isolation_level == 1


def test_moved_leader_is_looked_up_again(peer, cluster):
    answers = iter([KioError.not_leader_or_follower, KioError.leader_not_available])

    def refuse(request):
        code = next(answers, None)
        if code is None:
            return None
        types = schema_of(versions.LIST_OFFSETS, 6).response_types
        partition = types.ListOffsetsPartitionResponse(partition_index=0, error_code=code)
        topic = types.ListOffsetsTopicResponse(name="orders", partitions=(partition,))
        return types.ListOffsetsResponse(throttle_time=NO_THROTTLE, topics=(topic,))

    peer.instead[versions.LIST_OFFSETS] = refuse
    assert cluster.list_offsets({Partition("orders", 0): -2}) == {Partition("orders", 0): 0}
    assert sum(key == versions.METADATA for key, _ in peer.requests) == 3


def test_lost_answer_is_asked_for_again(peer, cluster):
    cuts = iter([True, True])

    def cut(api_key, request):
        if api_key == KEY_OF_METHOD["DescribeSink"] and next(cuts, False):
            raise Hangup

    peer.before_answer = cut
    response = cluster.private_call("DescribeSink", describe_request())
    assert response.sink == ""
    assert sum(key == KEY_OF_METHOD["DescribeSink"] for key, _ in peer.requests) == 3


def test_only_a_retriable_code_of_a_private_call_is_repeated(peer, cluster):
    codes = iter([ErrorCode.NOT_COORDINATOR, ErrorCode.INVALID_REQUEST])
    peer.instead[KEY_OF_METHOD["OpenAttempt"]] = lambda request: PRIVATE_CALLS[
        KEY_OF_METHOD["OpenAttempt"]
    ].response(error_code=next(codes), error_message="sink is empty")
    request = PRIVATE_CALLS[KEY_OF_METHOD["OpenAttempt"]].request(sink="")
    with pytest.raises(KafkaError, match=r"INVALID_REQUEST.*OpenAttempt: sink is empty"):
        cluster.private_call("OpenAttempt", request)


def test_other_brokers_are_told_apart():
    with (
        KafkaPeer({"orders": 1}, private_api=False) as peer,
        Cluster([peer.address], QUICK) as cluster,
        pytest.raises(OncelogError, match=r"does not offer DescribeSink.*no oncelog"),
    ):
        cluster.private_call("DescribeSink", describe_request())


def test_broker_without_our_version_is_named(peer, cluster):
    def old(request):
        types = schema_of(versions.API_VERSIONS, 3).response_types
        keys = [(versions.METADATA, 0, 9), (versions.LIST_OFFSETS, 0, 2)]
        return types.ApiVersionsResponse(
            error_code=KioError.none,
            api_keys=tuple(
                types.ApiVersion(api_key=key, min_version=low, max_version=high)
                for key, low, high in keys
            ),
            throttle_time=NO_THROTTLE,
        )

    peer.instead[versions.API_VERSIONS] = old
    with pytest.raises(
        OncelogError, match=r"offers versions 0 to 2 of ListOffsets.*needs version 6"
    ):
        cluster.list_offsets({Partition("orders", 0): -1})


def test_garbage_instead_of_a_frame_closes_the_connection():
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = Address("127.0.0.1", server.getsockname()[1])
        connection = Connection.connect(address, "test", Deadline(1_000))
        accepted, _ = server.accept()
        accepted.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        schema = schema_of(versions.API_VERSIONS, 3)
        request = schema.request_types.ApiVersionsRequest(
            client_software_name="x", client_software_version="1"
        )
        with pytest.raises(KafkaError, match="is this the port of a Kafka listener"):
            connection.call(schema, request, Deadline(1_000))
        accepted.close()


def test_silent_broker_is_left_at_the_deadline():
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = Address("127.0.0.1", server.getsockname()[1])
        with Connection.connect(address, "test", Deadline(1_000)) as connection:
            schema = schema_of(versions.API_VERSIONS, 3)
            request = schema.request_types.ApiVersionsRequest(
                client_software_name="x", client_software_version="1"
            )
            with pytest.raises(KafkaError, match=r"REQUEST_TIMED_OUT.*no answer in 50 ms"):
                connection.call(schema, request, Deadline(50))
