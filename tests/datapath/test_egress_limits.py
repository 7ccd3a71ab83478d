"""Limits and counters of an address. With packets."""

from __future__ import annotations

import asyncio
import errno
import socket
import struct
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace

import pytest

from tarmac.datapath.linux.egress.shaping import Shaper
from tarmac.datapath.linux.tables.gateway import MAJOR
from tests.datapath.egress_worlds import DIAL, KEP, SOURCE1, SOURCE2, ExternalWorld
from tests.datapath.segment import connected
from tests.datapath.test_egress_packets import DUAL, refusal
from tests.datapath.worlds import RealWorld

pytestmark = [pytest.mark.root]


async def test_connections_over_the_limit_are_refused(lan: ExternalWorld) -> None:
    await lan.apply(replace(KEP, connections=2))
    lan.carry(3, SOURCE1, SOURCE2)
    segment = lan.frames()
    async with (
        connected(segment, lan.namespace("a"), DIAL, 8000) as one,
        connected(segment, lan.namespace("c"), DIAL, 8000) as two,
    ):
        assert await one() == await two() == SOURCE1
        assert (await refusal(lan, "a", DIAL, socket.SOCK_STREAM))[0] == errno.ECONNREFUSED
        assert await lan.seen("b") == SOURCE2, "each address has its own limit"
        assert await one() == SOURCE1


async def test_an_address_speaks_and_is_spoken_to_no_faster_than_it_may(lan: ExternalWorld) -> None:
    amount, rate = 400_000, 8_000_000
    await lan.apply(replace(DUAL, rates=(rate, rate), ports=(("TCP", 8004, 8004),)))
    lan.carry(3, SOURCE1)
    segment, loop = lan.frames(), asyncio.get_running_loop()
    server = segment.lab.socket(segment.target, socket.AF_INET, socket.SOCK_STREAM)
    pod = segment.lab.socket(lan.namespace("a"), socket.AF_INET, socket.SOCK_STREAM)
    with server, pod:
        server.bind(("0.0.0.0", 8004))
        server.listen()
        _, (accepted, _) = await asyncio.gather(loop.sock_connect(pod, (DIAL, 8004)), loop.sock_accept(server))
        with accepted:
            for sender, receiver in ((pod, accepted), (accepted, pod)):
                began, left = time.monotonic(), amount
                sending = asyncio.ensure_future(loop.sock_sendall(sender, bytes(amount)))
                while left:
                    left -= len(await asyncio.wait_for(loop.sock_recv(receiver, 1 << 16), 10))
                await sending
                assert time.monotonic() - began > 0.75 * amount * 8 / rate, "faster than the limit"


def _transfer(sender: socket.socket, receiver: socket.socket, seconds: float) -> float:
    """Return the bits per second that arrive from a saturated sender, after a third of the time for TCP's start."""
    began = time.monotonic()
    with ThreadPoolExecutor(1) as pool:
        receiving = pool.submit(_receive_until, receiver, began + seconds)
        _send_until(sender, began + seconds / 3)
        first, before = time.monotonic(), _delivered(sender)
        _send_until(sender, began + seconds)
        last, after = time.monotonic(), _delivered(sender)
        receiving.result()
    return (after - before) * 8 / (last - first)


def _delivered(sender: socket.socket) -> int:
    """Return the bytes that the peer has, including those beyond a gap, which an application receives all at once."""
    info = sender.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
    [segment], [segments] = struct.unpack_from("I", info, 16), struct.unpack_from("I", info, 192)
    return segment * segments


def _send_until(sender: socket.socket, end: float) -> None:
    while (left := end - time.monotonic()) > 0:
        sender.settimeout(left)
        with suppress(TimeoutError):
            sender.send(bytes(1 << 16))


def _receive_until(receiver: socket.socket, end: float) -> None:
    while (left := end - time.monotonic()) > 0:
        receiver.settimeout(left)
        with suppress(TimeoutError):
            receiver.recv(1 << 20)


@pytest.mark.serial
@pytest.mark.parametrize(("rate", "seconds"), [(1, 6.0), (10, 3.0), (100, 2.0), (1000, 2.0)])
async def test_a_stream_gets_what_the_limit_says(lan: ExternalWorld, rate: int, seconds: float) -> None:
    """Both ways, in Mbit/s. TCP's headers are 4 % of its packets and explain the difference."""
    await lan.apply(replace(DUAL, rates=(rate * 1_000_000, rate * 1_000_000), ports=(("TCP", 8004, 8004),)))
    lan.carry(3, SOURCE1)
    segment = lan.frames()
    segment.look_away()
    server = segment.lab.socket(segment.target, socket.AF_INET, socket.SOCK_STREAM)
    with server:
        server.bind(("0.0.0.0", 8004))
        server.listen()
        for inward in (False, True):
            pod = segment.lab.socket(lan.namespace("a"), socket.AF_INET, socket.SOCK_STREAM)
            for each in (server, pod):
                each.setblocking(True)
                each.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"cubic")
            with pod:
                await asyncio.to_thread(pod.connect, (DIAL, 8004))
                accepted, _ = await asyncio.to_thread(server.accept)
                with accepted:
                    ends = (accepted, pod) if inward else (pod, accepted)
                    share = await asyncio.to_thread(_transfer, *ends, seconds) / (rate * 1e6)
            lowest = 0.90 if rate == 1 else 0.93  # acknowledgements come late on a busy host, most of all at 1 Mbit/s
            assert lowest <= share <= 1.02, f"{share:.3f} of {rate} Mbit/s {'in' if inward else 'out'}"


async def test_a_changed_rate_changes_the_class_and_its_queue(real: RealWorld) -> None:
    lab = real.lab
    machine = lab.machine(1)
    lab.command(machine, "ip link add wide type veth peer name far")
    shaper = Shaper(machine)

    def shown(what: str) -> str:
        return lab.command(machine, f"tc {what} show dev wide")

    shaper.ensure({"wide": {5: 100_000_000}})
    assert (f"class htb {MAJOR}:5 root" in shown("class"), "limit 2500000b" in shown("qdisc")) == (True, True)
    assert "rate 100933Kbit ceil 100933Kbit burst 1249" in shown("class"), "10 ms, in the kernel's resolution"
    Shaper(machine).ensure({"wide": {5: 1_000_000}})  # a second process adopts the existing classes
    assert "limit 80000b" in shown("qdisc")
    shaper.ensure({"wide": {}})
    assert f"{MAJOR}:5" not in shown("class")
