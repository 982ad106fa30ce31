"""The console's pages of producers and of nodes."""

from typing import Final, NamedTuple

from fastapi import APIRouter
from fastapi.responses import HTMLResponse

from oncelog.rpc.metadata import GROUP, TRANSACTION, MetadataImage
from oncelog_gateway.console_pages import PARTITIONS_READ_MAX, ROWS_MAX, Pages
from oncelog_gateway.console_rates import charts_of_families
from oncelog_gateway.core.paging import PageRequest
from oncelog_gateway.core.wording import ranges
from oncelog_gateway.node_resources import NODES_MAX, NodeStatus
from oncelog_gateway.partitions import all_partitions
from oncelog_gateway.subjects import partition_of, producer_id_of

ROLES: Final = (
    ("controller", "Controllers"),
    ("coordinator", "Coordinators"),
    ("storage", "Storage nodes"),
    ("marker_sender", "Marker senders"),
    ("listener", "Listeners"),
    ("gateway", "Gateways"),
)


def add_producers(router: APIRouter, pages: Pages) -> None:
    @router.get("/producers")
    async def producer_list(topic: str = "", producer_id: str = "") -> HTMLResponse:
        """Show the producers of a topic. `topic` is a part of a topic's name, or one partition of a topic."""
        wanted = producer_id_of(producer_id.strip()) if producer_id.strip() else None
        image = pages.roles.image
        one = partition_of(topic.strip())
        if one is not None and image.partition(one) is not None and topic not in image.topics:
            partitions = [one]
        else:
            partitions = [
                each
                for each in all_partitions(image, topic.strip())
                if topic or wanted is not None or not image.topics[each.topic].internal
            ]
        found = await pages.views.producers.of(partitions[:PARTITIONS_READ_MAX], ROWS_MAX, wanted)
        return pages.page(
            "producers.html",
            "/producers",
            producers=found,
            unread_count=max(len(partitions) - PARTITIONS_READ_MAX, 0),
            filters={"topic": topic, "producer_id": producer_id},
            now=pages.clock.now(),
            events="/v1/events?kind=transaction&limit=1",
        )


class NodesOfRole(NamedTuple):
    role: str
    title: str
    nodes: list[NodeStatus]


def add_nodes(router: APIRouter, pages: Pages) -> None:
    @router.get("/nodes")
    async def node_list() -> HTMLResponse:
        image = pages.roles.image
        found = await pages.views.nodes.list(PageRequest(NODES_MAX, None))
        named = [NodesOfRole(*one, [n for n in found.nodes if one[0] in n.roles]) for one in ROLES]
        return pages.page(
            "nodes.html",
            "/nodes",
            image=image,
            controller=found.controller,
            failures=[one.detail for one in found.incomplete],
            total=found.total,
            of_roles=[one for one in named if one.nodes],
            shards=_shards(image),
            charts=charts_of_families(pages, "cpu", "memory"),
            silent=pages.views.rates.silent,
            versions=pages.views.rates.versions,
            unowned=_owned_by(image, -1),
            leaderless=[
                f"{topic.name}-{one.partition}"
                for topic in image.topics.values()
                for one in topic.partitions
                if one.leader < 0
            ],
        )


def _shards(image: MetadataImage) -> dict[int, dict[str, str]]:
    return {node_id: _owned_by(image, node_id) for node_id in image.nodes}


def _owned_by(image: MetadataImage, node_id: int) -> dict[str, str]:
    """Return as text which transaction and group shards a node coordinates, by kind. `node_id` -1: which shards have no
    coordinator.
    """
    return {
        name: ranges(
            number
            for (of, number), shard in image.shards.items()
            if of == kind and shard.coordinator == node_id
        )
        for kind, name in ((TRANSACTION, "transaction"), (GROUP, "group"))
    }
