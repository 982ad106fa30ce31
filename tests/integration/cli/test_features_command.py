"""`oncelog features` over `/v1/features`, against every role in one process."""

import asyncio
import json

import uvloop

from oncelog.process.sources import Sources
from oncelog_server.cli import run
from oncelog_server.composition import embedded_roles
from oncelog_server.settings import EmbeddedSettings


def test_a_level_is_listed_lowered_with_consent_and_raised(tmp_path, capfd):
    async def scenario():
        settings = EmbeddedSettings(port=0, gateway_port=0, data=tmp_path)
        async with embedded_roles(settings, tmp_path, Sources()) as addresses:
            await asyncio.to_thread(check, addresses.gateway)

    def check(gateway):
        def features(*arguments):
            code = run(["--gateway", gateway, "features", *arguments])
            return code, *capfd.readouterr()

        def levels():
            code, out, _ = features("list", "-o", "json")
            assert code == 0
            return {one["feature"]: one["level"] for one in json.loads(out)["features"]}

        begun = {"group.version": 1, "transaction.version": 2, "two.phase.commit.version": 0}
        assert levels() == begun
        assert features("set", "two.phase.commit.version", "1")[0] == 0
        assert levels()["two.phase.commit.version"] == 1
        code, _, error = features("set", "transaction.version", "1")
        assert (code, "allow_downgrade" in error) == (1, True)
        code, _, error = features("set", "metadata.version", "7")
        assert (code, "metadata.version" in error) == (1, True)
        code, _, error = features("set", "transaction.version", "9")
        assert (code, "transaction.version=9" in error) == (1, True)
        code, _, _ = features("set", "transaction.version", "1", "--allow-downgrade")
        assert code == 0
        assert levels()["transaction.version"] == 1
        code, _, _ = features("set", "transaction.version", "2", "--validate-only")
        assert (code, levels()["transaction.version"]) == (0, 1)
        assert features("set", "transaction.version", "2")[0] == 0
        assert levels()["transaction.version"] == 2

    uvloop.run(scenario())
