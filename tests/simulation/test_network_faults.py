"""What the faults of the simulated network do, and that they end."""

import asyncio
import contextlib

import pytest
from oncelog_robustness.simulator.network import drawn_profile
from oncelog_robustness.simulator.world import World
from tests.simulation.small_net import PORT, SmallNet


async def test_a_partition_holds_everything_and_loses_nothing(net):
    await net.serve_listening()
    _, writer = await net.connect()
    undo = net.network.partition(["client"], ["server"])
    writer.write(b"held")
    await asyncio.sleep(60)
    assert net.received == [b""]
    undo()
    await net.until_heard([b"held"], within_s=1)
    undo()
    writer.write(b", and more")
    await net.until_heard([b"held, and more"])


async def test_a_partition_one_way_lets_the_other_way_pass(net):
    async def talk(reader, writer):
        writer.write(b"first")
        await reader.readexactly(1)
        writer.write(b"second")

    await net.serve(talk)
    reader, writer = await net.connect()
    undo = net.network.partition(["client"], ["server"], one_way=True)
    assert await reader.readexactly(5) == b"first"
    writer.write(b"x")
    answer = net.client.spawn(reader.readexactly(6), "read")
    done, _ = await asyncio.wait((answer,), timeout=30)
    assert not done
    undo()
    assert await answer == b"second"


@pytest.mark.parametrize("hosts", [("client", "server"), ("server", "client")])
async def test_connecting_needs_both_ways(net, hosts):
    await net.serve_listening()
    undo = net.network.partition([hosts[0]], [hosts[1]], one_way=True)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(5):
            await net.connect()
    waiting = asyncio.ensure_future(net.connect())
    await asyncio.sleep(5)
    assert not waiting.done()
    undo()
    async with asyncio.timeout(2):
        await waiting


async def test_a_connection_attempt_ends_by_itself_after_two_minutes(net):
    net.network.partition(["client"], ["server"])
    with pytest.raises(TimeoutError):
        await net.connect()
    assert 120 < net.now < 130


async def test_nobody_hears_of_a_death_beyond_a_partition(net):
    await net.serve_listening()
    reader, _ = await net.connect()
    undo = net.network.partition(["client"], ["server"])
    net.server.end()
    ending = net.client.spawn(reader.read(1), "read")
    done, _ = await asyncio.wait((ending,), timeout=60)
    assert not done
    undo()
    async with asyncio.timeout(1):
        assert await ending == b""


async def test_a_delay_adds_to_what_goes_both_ways_while_it_lasts(net):
    async def echo(reader, writer):
        while data := await reader.read(10):
            writer.write(data)

    await net.serve(echo)
    reader, writer = await net.connect()

    async def round_trip():
        began = net.now
        writer.write(b"x")
        await reader.readexactly(1)
        return net.now - began

    undo = net.network.delay("server", 0.5, 0.1)
    assert 1.0 < await round_trip() < 1.21
    undo()
    assert await round_trip() < 0.01


async def test_a_clog_lets_everything_through_at_once(net):
    await net.serve_listening()
    _, writer = await net.connect()
    undo = net.network.clog("server")
    for _ in range(10):
        writer.write(b"x")
        await asyncio.sleep(1)
    assert net.received == [b""]
    undo()
    await net.until_heard([b"xxxxxxxxxx"], within_s=0.01)


async def test_a_host_reaches_itself_whatever_befalls_it(net):
    await net.serve_listening()
    for fault in (net.network.clog, net.network.unplug):
        fault("server")
    assert await net.server.spawn(asyncio.open_connection("127.0.0.1", PORT), "connect")


async def test_a_reset_breaks_both_ends_and_loses_what_is_on_its_way(net):
    await net.serve_listening()
    reader, writer = await net.connect()
    writer.write(b"lost")
    net.network.reset("server")
    writer.write(b"lost, too")
    with pytest.raises(ConnectionResetError):
        await reader.read(1)
    await net.until_heard([b"!"])
    await net.connect()


async def test_a_ghost_is_processed_after_its_sender_saw_it_break(net):
    await net.serve_listening()
    reader, writer = await net.connect()
    net.network.ghost("server", gather_s=0.1, late_s=1.0)
    await asyncio.sleep(0.05)
    writer.write(b"late")
    with pytest.raises(ConnectionResetError):
        await reader.read(1)
    broke_at = net.now
    assert net.received == [b""]
    _, again = await net.connect()
    again.write(b"repeated")
    await net.until_heard([b"", b"repeated"], within_s=0.02)
    await net.until_heard([b"late!", b"repeated"])
    assert net.now - broke_at > 0.02


async def test_a_ghost_without_anything_under_way_is_a_reset(net):
    await net.serve_listening()
    reader, _ = await net.connect()
    net.network.ghost("client", gather_s=0.1)
    with pytest.raises(ConnectionResetError):
        await reader.read(1)
    await net.until_heard([b"!"])


async def test_an_unplugged_host_says_nothing_until_it_is_asked_again(net):
    await net.serve_listening()
    reader, writer = await net.connect()
    undo = net.network.unplug("server")
    net.server.end()
    ending = net.client.spawn(reader.read(1), "read")
    undo()
    done, _ = await asyncio.wait((ending,), timeout=60)
    assert not done
    writer.write(b"are you there?")
    with pytest.raises(ConnectionResetError):
        await ending


async def test_healing_ends_every_fault(net):
    await net.serve_listening()
    _, writer = await net.connect()
    undos = [
        net.network.partition(["client"], ["server"]),
        net.network.partition(["server"], ["client"], one_way=True),
        net.network.clog("client"),
        net.network.delay("client", 100, 0),
    ]
    writer.write(b"x")
    net.network.heal_all()
    await net.until_heard([b"x"], within_s=1)
    for undo in undos:
        undo()


async def test_two_faults_at_once_both_have_to_end(net):
    await net.serve_listening()
    _, writer = await net.connect()
    cut, clogged = net.network.partition(["client"], ["server"]), net.network.clog("server")
    writer.write(b"x")
    cut()
    await asyncio.sleep(10)
    assert net.received == [b""]
    clogged()
    await net.until_heard([b"x"], within_s=1)


def stormy(seed):
    """Everything at once; returns the digest."""
    net = SmallNet(seed, drawn_profile(World(seed), 1))
    dice = net.world.streams.stream("test")

    async def talk(number):
        while True:
            try:
                reader, writer = await asyncio.open_connection("server", PORT)
                # Newer Pythons close a forgotten writer when it is collected; a storm must not hang on that.
                with contextlib.closing(writer):
                    for _ in range(20):
                        writer.write(b"%d" % dice.randrange(10**9))
                        async with asyncio.timeout(1):
                            await reader.read(100)
            except (OSError, TimeoutError):
                await asyncio.sleep(0.1)

    async def scenario():
        async def echo(reader, writer):
            while data := await reader.read(100):
                writer.write(data)
            writer.close()

        await net.serve(echo)
        for number in range(5):
            net.client.spawn(talk(number), "talk")
        network = net.network
        for _ in range(40):
            await asyncio.sleep(dice.random())
            match dice.randrange(6):
                case 0:
                    network.partition(["client"], ["server"], one_way=dice.random() < 0.5)
                case 1:
                    network.clog("client")
                case 2:
                    network.reset("server")
                case 3:
                    network.ghost("server")
                case 4:
                    network.delay("client", 0.1, 0.1)
                case 5:
                    network.heal_all()
        return net.world.trace_log

    return net.in_world(scenario)


def test_a_seed_is_the_same_storm_every_time():
    first, second, other = stormy(3), stormy(3), stormy(2)
    assert first.counts["net"] > 100
    assert first.counts["net-reset"] > 1
    assert first.counts["net-ghost"] > 1
    assert first.digest == second.digest != other.digest


def test_the_digest_knows_what_the_bytes_were():
    def told(text):
        net = SmallNet()

        async def scenario():
            await net.serve_listening()
            _, writer = await net.connect()
            writer.write(text)
            await net.until_heard([text])

        net.in_world(scenario)
        return net.world.trace_log.digest

    assert told(b"one") == told(b"one") != told(b"two")
