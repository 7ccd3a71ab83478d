"""How much may go by an address, and how much did. With packets."""

from __future__ import annotations

import asyncio
import errno
import socket
import time
from dataclasses import replace

import pytest

from tests.datapath.external_worlds import DIAL, KEP, SOURCE1, SOURCE2, ExternalWorld
from tests.datapath.segment import connected
from tests.datapath.test_external_packets import DUAL, refusal

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
                assert time.monotonic() - began > 0.75 * amount * 8 / rate, "faster than it may"
