"""What the console says of what does not exist: the status, why, and where to look."""

import pytest

HTML = {"Accept": "text/html,application/xhtml+xml"}


@pytest.fixture
async def orders(cluster):
    await cluster.create_topic("orders", 2)
    return cluster


@pytest.mark.parametrize(
    "path",
    [
        "/topic?name=nothing",
        "/partition?topic=orders&partition=7",
        "/partition?topic=nothing&partition=0",
        "/group?id=nobody",
        "/explain?subject=nobody",
        "/nothing",
    ],
)
async def test_what_is_not_there_is_a_404_with_links_to_lists(orders, path):
    answer = await orders.request("GET", path, headers=HTML)
    assert answer.status == 404
    for href in ('href="/topics"', 'href="/partitions"', 'href="/groups"'):
        assert href in answer.body.decode().split("<main")[1]


async def test_a_script_gets_a_problem_of_an_unknown_path(orders):
    answer = await orders.get("/nothing")
    assert (answer.status, answer.json["status"]) == (404, 404)


async def test_a_topic_that_is_asked_for_is_its_page(orders):
    answer = await orders.get("/explain?subject=orders")
    assert answer.status == 200
    assert "Browse its records" in answer.body.decode()


async def test_an_unknown_partition_leads_to_its_topic(orders):
    answer = await orders.get("/explain?subject=orders-9")
    assert 'href="/topic?name=orders"' in answer.body.decode()


async def test_a_transactional_id_that_nobody_knows_is_a_404(orders):
    answer = await orders.get("/transaction?id=nobody")
    assert answer.status == 404
    assert "nobody" in answer.body.decode()
