"""Roles in one process call each other's servicers."""

from typing import ClassVar

from oncelog.rpc.direct import DirectStub, takes_plain


class Storage:
    direct_methods: ClassVar = {"Fetch": "fetch_directly"}

    async def Fetch(self, request, context):  # noqa: N802
        return "a message"

    async def fetch_directly(self, request, context):
        return "an object"

    async def Produce(self, request, context):  # noqa: N802
        return "a message"


class Everything:
    """Answers each call that it is asked for."""

    def __getattr__(self, name):
        async def call(request, context):
            return name

        return call


async def test_a_direct_method_answers_where_there_is_one():
    stub = DirectStub(Storage())
    assert await stub.Fetch(None) == "an object"
    assert await stub.Produce(None, timeout=1.0) == "a message"


def test_only_a_role_of_this_process_takes_plain_requests():
    assert takes_plain(DirectStub(Storage()), "Fetch")
    assert not takes_plain(DirectStub(Storage()), "Produce")
    assert not takes_plain(DirectStub(Everything()), "Fetch")
    assert not takes_plain(Storage(), "Fetch")


async def test_who_answers_everything_has_no_direct_methods():
    assert await DirectStub(Everything()).Fetch(None) == "Fetch"
