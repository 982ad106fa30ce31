"""The simulated network keeps the promises of TCP as asyncio shows them."""

import asyncio
from contextlib import suppress

import pytest
from oncelog_robustness.simulator.network import NetworkProfile, drawn_profile
from oncelog_robustness.simulator.tcp import SimSocketModule
from oncelog_robustness.simulator.world import World
from tests.simulation.small_net import PORT, close_at_end


async def echo(reader, writer):
    with suppress(OSError):
        while data := await reader.read(1000):
            writer.write(data)
    writer.close()


@pytest.mark.parametrize("profile", [drawn_profile(World(7), wildness) for wildness in (0, 1)])
async def test_bytes_arrive_in_order_and_whole_however_they_are_cut(net):
    await net.serve(echo)
    reader, writer = await net.connect()
    sent = [bytes([n % 256]) * (n % 40 + 1) for n in range(500)]
    for piece in sent:
        writer.write(piece)
    writer.write_eof()
    assert await reader.read(-1) == b"".join(sent)


@pytest.mark.parametrize("profile", [NetworkProfile(split_probability=0.5, merge_probability=0.5)])
async def test_segments_are_cut_and_joined_as_the_profile_says(net):
    sizes = []

    class Counting(asyncio.Protocol):
        def data_received(self, data):
            sizes.append(len(data))

    loop = net.world.loop
    await net.server.spawn(loop.create_server(Counting, "server", PORT), "serve")
    _, writer = await net.connect()
    for _ in range(100):
        writer.write(b"ten bytes.")
    await net.until(lambda: sum(sizes) == 1000)
    assert min(sizes) < 10 < max(sizes)


async def test_each_host_has_an_address_and_connections_name_both_ends(net):
    seen = []

    async def note(reader, writer):
        seen.append([writer.get_extra_info(what) for what in ("peername", "sockname")])
        seen.append(writer.get_extra_info("socket").getpeername())

    await net.serve(note)
    _, writer = await net.connect(net.network.address_of("server"))
    mine, theirs = [writer.get_extra_info(what) for what in ("sockname", "peername")]
    assert theirs == (net.network.address_of("server"), PORT)
    assert mine[0] == net.network.address_of("client") != theirs[0]
    await asyncio.sleep(0.01)
    assert seen == [[mine, theirs], mine]


async def test_a_port_is_listened_on_once_and_by_its_own_host_only(net):
    server = await net.serve(echo)
    with pytest.raises(OSError, match="already in use"):
        await net.serve(echo)
    with pytest.raises(OSError, match="Cannot assign requested address"):
        await net.serve(echo, net.network.address_of("client"))
    server.close()
    await net.serve(echo)
    with pytest.raises(ConnectionRefusedError):
        await net.connect("127.0.0.1")  # Which is the client itself.
    with pytest.raises(OSError, match="not known"):
        await net.connect("nowhere")


async def test_a_socket_that_is_bound_and_not_listened_on_refuses(net):
    module = SimSocketModule(net.network)

    async def bind():
        one = module.socket(module.AF_INET, module.SOCK_STREAM, 0)
        one.bind(("0.0.0.0", PORT))
        one.setblocking(False)
        return one

    one = await net.server.spawn(bind(), "bind")
    with pytest.raises(ConnectionRefusedError):
        await net.connect()
    loop = net.world.loop
    await net.server.spawn(loop.create_server(asyncio.Protocol, sock=one), "listen")
    await net.connect()
    with pytest.raises(AssertionError, match="under simulation"):
        _ = module.create_connection


async def test_nobody_listens(net):
    with pytest.raises(ConnectionRefusedError, match="Connect call failed"):
        await net.connect()


@pytest.mark.parametrize(
    "profile", [NetworkProfile(kernel_buffer_bytes=size) for size in (1000, 262_144)]
)
async def test_a_reader_that_does_not_read_holds_up_its_writer(net):
    reads = asyncio.Event()
    total = 2_000_000

    got = []

    async def wait_then_read(reader, writer):
        await reads.wait()
        got.append(len(await reader.read(-1)))

    await net.serve(wait_then_read)
    _, writer = await net.connect()

    async def push():
        for _ in range(total // 1000):
            writer.write(b"x" * 1000)
            await writer.drain()

    pushing = net.client.spawn(push(), "push")
    done, _ = await asyncio.wait((pushing,), timeout=5)
    assert not done
    # What is in its own buffer, in the kernels, and in the reader's.
    assert writer.transport.get_write_buffer_size() <= 65_536 + 1000
    reads.set()
    await pushing
    writer.write_eof()
    await net.until(lambda: got)
    assert got == [total]


async def test_half_a_connection_closes_and_the_other_half_goes_on(net):
    async def answer_at_end(reader, writer):
        received = await reader.read(-1)
        await asyncio.sleep(1)
        writer.write(received * 2)
        writer.close()

    await net.serve(answer_at_end)
    reader, writer = await net.connect()
    writer.write(b"abc")
    writer.write_eof()
    assert await reader.read(-1) == b"abcabc"


async def test_an_aborted_connection_is_reset_after_what_was_sent(net):
    await net.serve_listening()
    _, writer = await net.connect()
    writer.write(b"sent")
    writer.transport.abort()
    await net.until_heard([b"sent!"])


@pytest.mark.parametrize("profile", [NetworkProfile(kernel_buffer_bytes=10)])
async def test_closing_sends_what_was_written(net):
    await net.serve_listening()
    _, writer = await net.connect()
    writer.write(b"a long text that does not fit into the kernel at once")
    writer.close()
    await writer.wait_closed()
    await net.until_heard([b"a long text that does not fit into the kernel at once."])


async def test_writing_to_a_closed_end_is_answered_with_a_reset(net):
    async def close_at_once(reader, writer):
        writer.close()

    await net.serve(close_at_once)
    reader, writer = await net.connect()
    assert await reader.read(-1) == b""
    writer.write(b"x")
    await asyncio.sleep(0.01)
    writer.write(b"x")
    with pytest.raises(ConnectionResetError):
        await writer.drain()


async def test_a_writer_that_does_not_read_notices_a_reset(net):
    class Deaf(asyncio.Protocol):
        lost = None

        def connection_made(self, transport):
            self.transport = transport
            transport.pause_reading()

        def connection_lost(self, exc):
            self.lost = exc

    made = []

    def factory():
        made.append(Deaf())
        return made[-1]

    await net.server.spawn(net.world.loop.create_server(factory, "server", PORT), "serve")
    _, writer = await net.connect()
    writer.transport.abort()
    await asyncio.sleep(1)
    assert made[0].lost is None
    net.server.context().run(made[0].transport.write, b"an answer")
    await asyncio.sleep(1)
    assert isinstance(made[0].lost, ConnectionResetError)


async def test_a_killed_process_ends_its_connections(net):
    await net.serve(echo)
    reader, _ = await net.connect()
    net.server.end()
    assert await reader.read(1) == b""
    with pytest.raises(ConnectionRefusedError):
        await net.connect()
    net.server = net.world.new_process("server")
    await net.serve(echo)
    await net.connect()


async def test_what_a_process_sent_before_its_death_arrives(net):
    await net.serve_listening()
    _, writer = await net.connect()
    writer.write(b"last words")
    net.client.end()
    await net.until_heard([b"last words."])


async def test_a_process_that_dies_with_something_unread_resets(net):
    await net.serve(close_at_end)
    reader, writer = await net.connect()
    net.server.pause()
    writer.write(b"unread")
    await asyncio.sleep(1)
    net.server.end()
    with pytest.raises(ConnectionResetError):
        await reader.read(1)


async def test_a_paused_process_answers_when_it_goes_on(net):
    await net.serve(echo)
    net.server.pause()
    reader, writer = await net.connect()
    writer.write(b"hello")
    answer = net.client.spawn(reader.readexactly(5), "read")
    done, _ = await asyncio.wait((answer,), timeout=30)
    assert not done
    net.server.resume()
    assert await answer == b"hello"
    assert net.now < 31


async def test_a_dead_process_reaches_nobody_while_its_stack_unwinds(net):
    await net.serve_listening()
    _, writer = await net.connect()

    def die():
        net.client.end()
        writer.write(b"a ghost")
        writer.close()

    net.client.context().run(die)
    await net.until_heard([b"."])
    with pytest.raises(OSError, match="Bad file"):
        net.client.context().run(net.network.listener, "client", PORT)


async def test_a_connection_that_is_over_leaves_nothing(net):
    await net.serve(close_at_end)
    for kind in ("close", "abort", "kill", "reset"):
        _, writer = await net.connect()
        writer.write(b"x")
        await asyncio.sleep(0.1)
        match kind:
            case "close":
                writer.close()
            case "abort":
                writer.transport.abort()
            case "kill":
                net.client.end()
                net.client = net.world.new_process("client")
            case "reset":
                net.network.reset("client")
        await asyncio.sleep(0.1)
        assert net.network.open_connections == 0, kind
