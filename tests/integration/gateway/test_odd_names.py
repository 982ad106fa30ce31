"""A name may be nearly any text: each route that takes one answers about that name."""

from urllib.parse import quote

NAMES = (
    "line\nbreak",
    "\n",
    "ends with one\n",
    "carriage\rreturn",
    "slash/inside",
    "//",
    "/",
    "..",
    "../../v1/cluster",
    ".",
    "a\x00b",
    "tab\tand space ",
    "Žluťoučký 🐎",
    "percent%2Fsign",
    "?query=1#fragment",
    "plus+and&amp;",
    "\u2028separator",
)
OTHERS = ("/v1/groups/{}", "/v1/groups/{}/offsets", "/v1/sinks/{}", "/v1/transactions/{}/timeline")


async def test_a_transactional_id_is_found_whatever_is_in_it(cluster):
    await cluster.create_topic("orders")
    for name in NAMES:
        path = f"/v1/transactions/{quote(name, safe='')}"
        answer = await cluster.get(path)
        told = (answer.status, answer.json.get("kafka_error_name"))
        assert told == (404, "TRANSACTIONAL_ID_NOT_FOUND"), (name, answer.body)
        cluster.coordinator.put(name, producer_id=1, partitions=[("orders", 0)])
        answer = await cluster.get(path)
        assert (answer.status, answer.json.get("transactional_id")) == (200, name), answer.body
        answer = await cluster.post(f"{path}/terminate", {"dry_run": False})
        assert answer.status == 200, (name, answer.body)
        assert cluster.coordinator.transactions[name].state == "CompleteAbort"


async def test_no_route_with_a_name_calls_it_no_path(cluster):
    for name in NAMES:
        cluster.groups.put(name)
        quoted = quote(name, safe="")
        answer = await cluster.get(f"/v1/groups/{quoted}")
        assert answer.json.get("group_id") == name, answer.body
        for path in OTHERS:
            answer = await cluster.get(path.format(quoted))
            assert answer.status in (200, 404), (path, answer.body)
            assert b"no such path" not in answer.body, path
        answer = await cluster.request("DELETE", f"/v1/groups/{quoted}")
        assert answer.status == 204, (name, answer.body)
        assert name not in cluster.groups.groups


async def test_an_empty_name_is_refused_with_its_place(cluster):
    for path in ("/v1/transactions/", "/v1/groups/", "/v1/sinks/"):
        answer = await cluster.get(path)
        assert answer.status == 422
        assert "path." in answer.json["detail"]


async def test_a_topic_that_cannot_be_is_not_there(cluster):
    for name in ("a\nb", "a b", "..", "ž", "a\x00b"):
        for path in ("/v1/topics/{}", "/v1/topics/{}/configs", "/v1/topics/{}/partitions"):
            answer = await cluster.get(path.format(quote(name, safe="")))
            assert answer.status in (404, 422), (path, name, answer.body)
            assert b"no such path" not in answer.body, (path, name)


async def test_a_list_is_of_one_coordinator_and_marks_two_phase(cluster):
    await cluster.create_topic("orders")
    cluster.coordinator.put("plain", producer_id=1, partitions=[("orders", 0)])
    cluster.coordinator.put("outside", producer_id=2, partitions=[("orders", 0)])
    cluster.coordinator.transactions["outside"].transaction_timeout_ms = 2**31 - 1
    rows = (await cluster.get("/v1/transactions?coordinator=1")).json["transactions"]
    found = {one["transactional_id"]: (one["is_two_phase"], one["is_late"]) for one in rows}
    assert found == {"outside": (True, False), "plain": (False, True)}
    cluster.coordinator.transactions["plain"].coordinator = 7
    page = (await cluster.get("/v1/transactions?coordinator=1")).json
    assert [one["transactional_id"] for one in page["transactions"]] == ["outside"]
    assert page["total"] == 1
    assert (await cluster.get("/v1/transactions?coordinator=99")).status == 404
