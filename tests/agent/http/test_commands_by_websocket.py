"""exec and attach over WebSocket."""

from __future__ import annotations

import asyncio
import json

import aiohttp
import pytest

from tarmac.wire.channels import V4, V5
from tests.agent.http.stage import Stage, pod

EXEC = "/exec/default/web/main"


def query(*command: str, **flags: int) -> str:
    words = "&".join(f"command={word}" for word in command)
    return "&".join([words, *(f"{name}={value}" for name, value in flags.items())])


async def heard(socket: aiohttp.ClientWebSocketResponse) -> dict[int, bytes]:
    """Return all data until the end, by channel."""
    channels: dict[int, bytes] = {}
    async for message in socket:
        assert message.type is aiohttp.WSMsgType.BINARY
        channels[message.data[0]] = channels.get(message.data[0], b"") + message.data[1:]
    return channels


def outcome(channels: dict[int, bytes]) -> dict[str, object]:
    return json.loads(channels[3])


async def test_output_and_the_way_a_command_ended_are_told(node: Stage, web: aiohttp.ClientSession) -> None:
    url = f"{node.url}{EXEC}?{query('sh', '-c', 'echo out; echo err >%262; exit 3', output=1, error=1)}"
    async with web.ws_connect(url, protocols=[V5]) as socket:
        assert socket.protocol == V5
        channels = await heard(socket)
        assert socket.close_code == 1000
    assert (channels[1], channels[2]) == (b"out\n", b"err\n")
    assert outcome(channels)["reason"] == "NonZeroExitCode"
    assert json.loads(channels[3])["details"]["causes"] == [{"reason": "ExitCode", "message": "3"}]


async def test_success_is_told(node: Stage, web: aiohttp.ClientSession) -> None:
    async with web.ws_connect(f"{node.url}{EXEC}?{query('true', output=1)}", protocols=[V4]) as socket:
        assert outcome(await heard(socket))["status"] == "Success"


async def test_standard_input_can_be_ended_without_ending_the_rest(node: Stage, web: aiohttp.ClientSession) -> None:
    async with web.ws_connect(f"{node.url}{EXEC}?{query('sort', input=1, output=1)}", protocols=[V5]) as socket:
        await socket.send_bytes(b"\x00b\n")
        await socket.send_bytes(b"\x00a\n")
        await socket.send_bytes(b"\xff\x00")
        channels = await heard(socket)
    assert channels[1] == b"a\nb\n"


async def test_a_terminal_has_one_output_and_a_size(node: Stage, web: aiohttp.ClientSession) -> None:
    command = query("sh", "-c", "read x; stty size; test -t 0 %26%26 echo terminal >%262", input=1, output=1, tty=1)
    async with web.ws_connect(f"{node.url}{EXEC}?{command}&error=1", protocols=[V5]) as socket:
        await socket.send_bytes(b"\x04" + json.dumps({"Width": 93, "Height": 31}).encode())
        await asyncio.sleep(0.2)
        await socket.send_bytes(b"\x00go\r")
        channels = await heard(socket)
    assert b"31 93" in channels[1]
    assert b"terminal" in channels[1]
    assert 2 not in channels


async def test_megabytes_pass_both_ways(node: Stage, web: aiohttp.ClientSession) -> None:
    data = bytes(range(256)) * 16384
    async with web.ws_connect(f"{node.url}{EXEC}?{query('cat', input=1, output=1)}", protocols=[V5]) as socket:

        async def send() -> None:
            for start in range(0, len(data), 65536):
                await socket.send_bytes(b"\x00" + data[start : start + 65536])
            await socket.send_bytes(b"\xff\x00")

        sending = asyncio.ensure_future(send())
        channels = await heard(socket)
        await sending
    assert channels[1] == data


async def test_a_client_that_does_not_read_holds_up_the_command_and_costs_no_memory(
    node: Stage, web: aiohttp.ClientSession
) -> None:
    url = f"{node.url}{EXEC}?{query('sh', '-c', 'yes | head -c 200000000', output=1)}"
    async with web.ws_connect(url, protocols=[V5], max_msg_size=0) as socket:
        transport = socket._response.connection.transport  # type: ignore[union-attr]  # pyright: ignore
        transport.pause_reading()  # pyright: ignore
        await asyncio.sleep(0.5)
        buffered = [each.get_write_buffer_size() for each in node.listener.upgraded]
        assert buffered
        assert max(buffered) < 1_000_000
        assert len(node.runtime.sessions) == 1
        transport.abort()  # pyright: ignore
    async with asyncio.timeout(5):
        while node.runtime.sessions:
            await asyncio.sleep(0.01)


async def test_a_client_that_goes_takes_the_command_with_it(node: Stage, web: aiohttp.ClientSession) -> None:
    async with web.ws_connect(f"{node.url}{EXEC}?{query('sleep', '1000', output=1)}", protocols=[V5]):
        assert len(node.runtime.sessions) == 1
    async with asyncio.timeout(5):
        while node.runtime.sessions:
            await asyncio.sleep(0.01)


async def test_a_runtime_that_breaks_off_is_told_as_a_failure(node: Stage, web: aiohttp.ClientSession) -> None:
    async with web.ws_connect(f"{node.url}{EXEC}?{query('sleep', '1000', output=1)}", protocols=[V5]) as socket:
        for session in list(node.runtime.sessions):
            session.transport.abort()
        channels = await heard(socket)
    assert outcome(channels)["status"] == "Failure"


async def test_attaching_follows_the_terminal_of_the_container(node: Stage, web: aiohttp.ClientSession) -> None:
    node.pods.known = [pod(tty=True)]
    node.runtime.attach_command = ("sh", "-c", "test -t 0 && echo terminal")
    url = f"{node.url}/attach/default/web/u1/main?output=1&error=1"
    async with web.ws_connect(url, protocols=[V5]) as socket:
        channels = await heard(socket)
    assert b"terminal" in channels[1]


@pytest.mark.parametrize(
    ("path", "status", "message"),
    [
        (f"{EXEC}?command=true", 400, "you must specify at least 1 of stdin, stdout, stderr"),
        (f"{EXEC}?output=1", 400, "you must specify at least 1 command"),
        ("/exec/default/none/main?output=1&command=true", 404, "pod does not exist"),
        ("/exec/default/web/other?output=1&command=true", 500, 'container not found ("other")'),
        ("/exec/default/web/u2/main?output=1&command=true", 404, "pod does not exist"),
        ("/exec/default?output=1&command=true", 404, "404 page not found"),
    ],
)
async def test_refusals_are_told_in_kubelets_words(
    node: Stage, web: aiohttp.ClientSession, path: str, status: int, message: str
) -> None:
    async with web.get(node.url + path) as answer:
        assert (answer.status, await answer.text()) == (status, message)


async def test_a_protocol_that_is_not_spoken_is_refused(node: Stage, web: aiohttp.ClientSession) -> None:
    with pytest.raises(aiohttp.WSServerHandshakeError) as caught:
        await web.ws_connect(f"{node.url}{EXEC}?{query('true', output=1)}", protocols=["v9.channel.k8s.io"])
    assert caught.value.status == 403


async def test_frames_that_are_no_websocket_end_the_session(node: Stage) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", node.listener.port)
    writer.write(
        f"GET {EXEC}?{query('cat', input=1, output=1)} HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\n"
        "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: a2V5\r\n"
        f"Sec-WebSocket-Protocol: {V5}\r\n\r\n".encode()
    )
    await reader.readuntil(b"\r\n\r\n")
    writer.write(b"\x82\x05plain")
    rest = await reader.read()
    assert rest[:2] == b"\x88" + rest[1:2]
    assert rest[2:4] == (1002).to_bytes(2)
    writer.close()
    assert not node.runtime.sessions or await _emptied(node)


async def _emptied(node: Stage) -> bool:
    async with asyncio.timeout(5):
        while node.runtime.sessions:
            await asyncio.sleep(0.01)
    return True
