"""What the client reads of an answer to Metadata."""

from oncelog.client.network.metadata_messages import topic_views
from oncelog.protocol.messages import schema_of
from oncelog.protocol.versions import METADATA

TYPES = schema_of(METADATA, 13).response_types


def a_topic(name):
    partition = TYPES.MetadataResponsePartition(
        error_code=0,
        partition_index=0,
        leader_id=1,
        leader_epoch=5,
        replica_nodes=(1,),
        isr_nodes=(1,),
        offline_replicas=(),
    )
    return TYPES.MetadataResponseTopic(
        error_code=0,
        name=name,
        topic_id=None,
        is_internal=False,
        partitions=(partition,),
        topic_authorized_operations=0,
    )


def test_a_topic_without_a_name_is_not_in_the_view():
    """The schema allows it from version 12 on, for a question by id. The view is by name."""
    response = TYPES.MetadataResponse(
        brokers=(),
        cluster_id=None,
        controller_id=1,
        topics=(a_topic("orders"), a_topic(None)),
        error_code=0,
    )
    assert [one.name for one in topic_views(response)] == ["orders"]
