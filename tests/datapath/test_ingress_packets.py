"""Packet tests of public addresses: long connections, sizes, errors, SCTP, adoption, removal.

The LAN captures all frames; one with a wrong source fails a test.
"""

from __future__ import annotations

import asyncio
import errno
import socket
import struct
import time
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest

from tarmac.datapath.linux.naming import router_name
from tests.datapath.egress_worlds import ADDRESSES, ONE
from tests.datapath.ingress_worlds import (
    BASIC,
    PORT,
    PUBLIC1,
    PUBLIC2,
    PUBLIC6,
    PUBLIC7,
    Call,
    Heard,
    IngressWorld,
    Unreachable,
    at,
    state,
    talking,
    without,
)
from tests.datapath.segment import TARGET, TARGET6
from tests.datapath.test_egress_packets import FAMILY, _crc32c, _init, is_error
from tests.datapath.worlds import DENIED_WITHIN

pytestmark = [pytest.mark.root]

ALL = (PUBLIC1, PUBLIC2, PUBLIC6, PUBLIC7)


@asynccontextmanager
async def calls(street: IngressWorld, *addresses: str, each: int = 4) -> AsyncGenerator[list[Call | Unreachable]]:
    """Open connections from outside over both protocols."""
    async with AsyncExitStack() as stack:
        made = [
            await stack.enter_async_context(talking(street.lan, street.lan.target, address, PORT, protocol))
            for address in addresses
            for protocol in ("TCP", "UDP")
            for _ in range(each)
        ]
        yield made


async def answers(made: list[Call | Unreachable], patience: float = 5.0) -> list[Heard | None]:
    return [await each(patience) for each in made]


async def test_connections_go_on_at_another_gateway_and_back(street: IngressWorld) -> None:
    await street.apply(*BASIC)
    street.carry(3, *ALL)
    async with calls(street, *ALL) as made:
        before = await answers(made)
        assert None not in before
        for owner, next_owner in ((3, 4), (4, 3)):
            street.drop(owner, *ALL)
            street.carry(next_owner, *ALL)
            assert await answers(made) == before, f"by node {next_owner}"


async def test_a_syn_leaves_no_state_at_a_gateway_and_an_ack_makes_it(street: IngressWorld) -> None:
    await street.apply(*without(BASIC, PUBLIC1, pods=("c",)))
    street.carry(3, PUBLIC1)
    assert await street.called(PUBLIC1) == Heard("c", TARGET)  # fills neighbour tables
    before = street.tracked(3)
    frames = [syn(port) for port in range(20_000, 20_400)]
    with street.lan.lab.socket(street.lan.target, socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_TCP) as raw:
        for each in frames:
            await asyncio.get_running_loop().sock_sendto(raw, each, (PUBLIC1, 0))
    await asyncio.sleep(0.2)
    assert street.tracked(3) <= before, "the gateway tracks none of 400 SYNs"
    async with calls(street, PUBLIC1, each=1) as made:
        assert await answers(made) == [Heard("c", TARGET)] * 2
        assert street.tracked(3) >= before + 2


async def test_endpoints_that_come_end_no_connection_and_get_new_ones(street: IngressWorld) -> None:
    before = without(without(BASIC, PUBLIC1, pods=("a",)), PUBLIC6, pods=("a",))
    await street.apply(*before)
    street.carry(3, *ALL)
    async with calls(street, PUBLIC1, PUBLIC6) as made:
        assert {each and each.sandbox for each in await answers(made)} == {"a"}
        await street.apply(*BASIC)
        assert {each and each.sandbox for each in await answers(made)} == {"a"}
        async with calls(street, PUBLIC1, PUBLIC6, each=8) as more:
            assert {each and each.sandbox for each in await answers(more)} == {"a", "c"}


async def test_a_draining_endpoint_keeps_its_connections_and_gets_no_new_ones(street: IngressWorld) -> None:
    await street.apply(*BASIC)
    street.carry(3, PUBLIC1)
    async with AsyncExitStack() as stack:
        made = [
            await stack.enter_async_context(talking(street.lan, street.lan.target, PUBLIC1, PORT)) for _ in range(12)
        ]
        before = await answers(made)
        assert {each and each.sandbox for each in before} == {"a", "c"}
        await street.apply(*without(BASIC, PUBLIC1, pods=("a",), draining=("c",)))
        assert await answers(made) == before
        assert {await street.called(PUBLIC1) for _ in range(12)} == {Heard("a", TARGET)}


async def test_datagrams_leave_an_ended_endpoint_at_once(street: IngressWorld) -> None:
    await street.apply(*BASIC)
    street.carry(3, PUBLIC1)
    async with AsyncExitStack() as stack:
        made = [
            await stack.enter_async_context(talking(street.lan, street.lan.target, PUBLIC1, PORT, "UDP"))
            for _ in range(12)
        ]
        assert {each and each.sandbox for each in await answers(made)} == {"a", "c"}
        await street.apply(*without(BASIC, PUBLIC1, pods=("a",)))
        assert {each and each.sandbox for each in await answers(made)} == {"a"}


async def test_a_changed_source_range_ends_what_it_forbids_within_a_second(street: IngressWorld) -> None:
    await street.apply(*BASIC)
    street.carry(3, *ALL)
    async with calls(street, PUBLIC1, PUBLIC6, PUBLIC7, each=1) as made:
        assert None not in await answers(made)
        began = time.monotonic()
        await street.apply(*without(without(BASIC, PUBLIC1, clients=("10.9.0.0/16",)), PUBLIC6, clients=()), nodes=(3,))
        took = time.monotonic() - began
        assert await answers(made[:4], DENIED_WITHIN) == [None] * 4
        assert None not in await answers(made[4:])
        assert took < 1


@pytest.mark.parametrize("address", [PUBLIC1, PUBLIC6])
async def test_large_datagrams_pass_and_fragments_ask_the_source_ranges(street: IngressWorld, address: str) -> None:
    await street.apply(*BASIC)
    street.carry(3, address)
    async with talking(street.lan, street.lan.target, address, PORT, "UDP") as ask:
        # The first one over IPv6 only returns a "packet too big".
        assert any([await ask(1.0, size=9000) for _ in range(3)])
        await street.apply(*without(BASIC, address, clients=()), nodes=(3,))
        assert await ask(DENIED_WITHIN, size=9000) is None


async def test_errors_pass_both_ways(street: IngressWorld) -> None:
    ways = without(BASIC, PUBLIC1, pods=("c",), ports=(("UDP", PORT, 81), ("UDP", 8081, 82)))
    ways = without(ways, PUBLIC6, pods=("c",), ports=(("UDP", PORT, 81), ("UDP", 8081, 82)))
    await street.apply(*ways)
    street.carry(3, PUBLIC1, PUBLIC6)
    for address in (PUBLIC1, PUBLIC6):
        async with talking(street.lan, street.lan.target, address, 8081, "UDP") as ask:
            assert await ask() is None
            assert ask.error is not None, "the pod's kernel reports the closed port"
            assert ask.error.errno == errno.ECONNREFUSED
    errors = [each for each in street.lan.frames if is_error(each.content)]
    assert {each.source for each in errors} == set() or all(each.source in ALL for each in errors)
    loop, lab = asyncio.get_running_loop(), street.lan.lab
    for version, address in ((4, PUBLIC1), (6, PUBLIC6)):
        pod = lab.socket(street.real.namespace("c"), FAMILY[version], socket.SOCK_DGRAM)
        with pod, lab.socket(street.lan.target, FAMILY[version], socket.SOCK_DGRAM) as client:
            pod.bind((ADDRESSES["c"][version == 6], 82))
            await loop.sock_sendto(client, b"?", (address, 8081))
            _, peer = await asyncio.wait_for(loop.sock_recvfrom(pod, 10), 5)
            client.close()  # the client's kernel rejects packets to the closed port, and the pod gets the error
            await loop.sock_connect(pod, peer)
            told, deadline = 0, time.monotonic() + 5
            while not told and time.monotonic() < deadline:
                try:
                    await loop.sock_sendall(pod, b"!")
                    await asyncio.sleep(0.02)
                except OSError as failure:
                    told = failure.errno or 0
            assert told == errno.ECONNREFUSED, f"over IPv{version}"


async def test_a_client_is_told_by_the_public_address_that_its_packets_are_too_large(street: IngressWorld) -> None:
    await street.apply(*without(without(BASIC, PUBLIC1, pods=("c",)), PUBLIC6, pods=("c",)))
    street.carry(3, PUBLIC1, PUBLIC6)
    lab, loop = street.lan.lab, asyncio.get_running_loop()
    lab.command(street.ingress(3), "ip link set tunnel mtu 1300")
    for version, address in ((4, PUBLIC1), (6, PUBLIC6)):
        level, choose = (socket.IPPROTO_IP, 10) if version == 4 else (socket.IPPROTO_IPV6, 23)
        with lab.socket(street.lan.target, FAMILY[version], socket.SOCK_DGRAM) as client:
            client.setsockopt(level, choose, 2)  # never fragment
            await loop.sock_connect(client, (address, PORT))
            await loop.sock_sendall(client, b"?")
            await asyncio.wait_for(loop.sock_recv(client, 100), 5)
            told, deadline = 0, time.monotonic() + 5
            while not told and time.monotonic() < deadline:
                try:
                    await loop.sock_sendall(client, bytes(1400))
                    await asyncio.sleep(0.02)
                except OSError as failure:
                    told = failure.errno or 0
            assert told == errno.EMSGSIZE, f"over IPv{version}"
        errors = [each for each in street.lan.frames if each.source == address and is_error(each.content)]
        assert errors, "the error came from that address"


@pytest.mark.parametrize(("version", "address", "client"), [(4, PUBLIC1, TARGET), (6, PUBLIC6, TARGET6)])
async def test_sctp_passes_both_ways(street: IngressWorld, version: int, address: str, client: str) -> None:
    """With raw packets: this kernel has no SCTP sockets."""
    await street.apply(*without(BASIC, address, pods=("c",), ports=(("SCTP", 50, 60),)))
    street.carry(3, address)
    assert await associated(street, version, (address, 50), 60, client) == (address, 50)
    assert await associated(street, version, (address, 51), 60, client, DENIED_WITHIN) is None


async def associated(
    street: IngressWorld, version: int, to: tuple[str, int], port: int, client: str, patience: float = 5.0
) -> tuple[str, int] | None:
    """Open an association with pod c by raw packets; return the address and port that answer outside."""
    loop, lab = asyncio.get_running_loop(), street.lan.lab
    pod, outside = (
        lab.socket(each, FAMILY[version], socket.SOCK_RAW, socket.IPPROTO_SCTP)
        for each in (street.real.namespace("c"), street.lan.target)
    )

    async def heard(where: socket.socket, patience: float) -> tuple[str, int, int, int] | None:
        """Return the sender, the ports, and the type of the first chunk of an intact packet."""
        try:
            packet, (seen, *_) = await asyncio.wait_for(loop.sock_recvfrom(where, 2000), patience)
        except TimeoutError:
            return None
        content = packet if version == 6 else packet[20:]
        assert content[8:12] == struct.pack("<I", _crc32c(content[:8] + bytes(4) + content[12:]))
        return seen, *struct.unpack(">HH", content[:4]), content[12]

    with pod, outside:
        await loop.sock_sendto(outside, _init(2000, to[1]), (to[0], 0))
        found = await heard(pod, patience)
        if found is None:
            return None
        assert found == (client, 2000, port, 1), "the pod sees the client itself"
        acknowledgement = _init(port, 2000)
        chunk = struct.pack(">BBHIIHHI", 2, 0, 20, 0x5678, 65535, 1, 1, 1)
        head = acknowledgement[:4] + struct.pack(">I", 0x1234)
        whole = head + struct.pack("<I", _crc32c(head + bytes(4) + chunk)) + chunk
        await loop.sock_sendto(pod, whole, (client, 0))
        answer = await heard(outside, 5.0)
        assert answer is not None
        assert answer[2:] == (2000, 2), "an acknowledgement for the client's port"
        return answer[0], answer[1]


async def test_pods_reach_public_addresses_as_their_node(street: IngressWorld) -> None:
    await street.apply(*BASIC)
    for sandbox, address in (("b", PUBLIC1), ("d", PUBLIC1), ("a", PUBLIC2), ("b", PUBLIC6), ("c", PUBLIC7)):
        for protocol in ("TCP", "UDP"):
            found = await street.called_by_pod(sandbox, address, protocol=protocol)
            assert found is not None, (sandbox, address, protocol)
            assert found.seen not in ADDRESSES[sandbox]


async def test_another_process_takes_it_up_and_packets_notice_nothing(street: IngressWorld) -> None:
    await street.apply(*BASIC)
    street.carry(3, *ALL)
    async with calls(street, *ALL) as made:
        before = await answers(made)
        for node in (1, 3):
            await street.real.restart(node)
            assert await answers(made) == before
            await street.network(node)
            assert not await street.real.node(node).ingress.apply(state(node, *BASIC[::-1]))
            if node == 3:
                assert set(street.real.node(3).ingress.carried()) == set(ALL), "the lease continues"
                street.carry(3, *ALL)
            assert await answers(made) == before
            assert await street.real.node(node).ingress.mend() == []


@pytest.mark.parametrize("place", ["ingress namespace", "router namespace"])
async def test_deleted_tables_let_nothing_through_and_are_mended(street: IngressWorld, place: str) -> None:
    await street.apply(*without(BASIC, PUBLIC1, pods=("c",)))
    street.carry(3, PUBLIC1)
    own = place == "ingress namespace"
    node = 3 if own else 2
    namespace = street.ingress(3) if own else street.lan.lab.folder / f"run-2/netns/{router_name(ONE)}"
    async with calls(street, PUBLIC1, each=1) as made:
        assert None not in await answers(made)
        assert await street.real.node(node).ingress.mend() == []
        street.carry(3, PUBLIC1)
        assert await street.real.node(node).ingress.mend() == [], "a renewal is no foreign change"
        street.lan.lab.command(namespace, "nft delete table inet tarmac-in")
        assert await street.called(PUBLIC1, hope=False) is None
        assert len(await street.real.node(node).ingress.mend()) == 1
        street.carry(3, PUBLIC1)
        assert None not in await answers(made)


async def test_packets_stop_when_the_lease_has_run_out(street: IngressWorld) -> None:
    await street.apply(*BASIC)
    street.carry(3, PUBLIC1, seconds=0.6)
    async with calls(street, PUBLIC1, each=1) as made:
        assert None not in await answers(made)
        await asyncio.sleep(0.7)
        assert await answers(made, DENIED_WITHIN) == [None, None]
        street.carry(4, PUBLIC1)
        assert None not in await answers(made)


async def test_a_virtual_hardware_address_moves_with_its_address(street: IngressWorld) -> None:
    ways = without(without(BASIC, PUBLIC1, virtual=True), PUBLIC6, virtual=True)
    await street.apply(*ways)
    street.carry(3, PUBLIC1, PUBLIC6)
    async with calls(street, PUBLIC1, PUBLIC6, each=1) as made:
        before = await answers(made)
        assert None not in before
        street.drop(3, PUBLIC1, PUBLIC6)
        street.carry(4, PUBLIC1, PUBLIC6)
        assert await answers(made) == before


async def test_a_network_that_goes_takes_its_door_along_and_leaves_other_rules(street: IngressWorld) -> None:
    await street.apply(*BASIC)
    street.carry(3, PUBLIC1, PUBLIC2)
    await street.apply(*without(BASIC[:2], PUBLIC1, pods=("c",)), nodes=(1,))
    assert "i" + router_name(ONE) not in street.lan.lab.command(street.ingress(1), "ip -br link")
    rules = street.lan.lab.command(street.lan.lab.folder / f"run-1/netns/{router_name(ONE)}", "ip rule")
    assert "117" not in rules
    assert (await street.called(PUBLIC2) or Heard("", "")).sandbox in "bd"


async def test_a_node_whose_peers_change_keeps_the_numbers_of_the_others(street: IngressWorld) -> None:
    await street.apply(*BASIC)
    street.carry(3, *ALL)
    async with calls(street, PUBLIC1, PUBLIC2) as made:
        before = await answers(made)
        wanted = state(3, *BASIC)
        for peers in ((at(0), *wanted.peers), wanted.peers, wanted.peers[::-1]):
            changed = wanted.__class__(wanted.node_address, wanted.addresses, wanted.ranges, peers, wanted.networks)
            assert not await street.real.node(3).ingress.apply(changed)
            assert await answers(made) == before


def syn(source_port: int, address: str = PUBLIC1) -> bytes:
    """Encode a TCP segment that opens a connection, with a valid checksum."""
    head = struct.pack(">HHIIBBHHH", source_port, PORT, 1, 0, 5 << 4, 2, 1000, 0, 0)
    pseudo = socket.inet_aton(TARGET) + socket.inet_aton(address) + struct.pack(">HH", 6, len(head))
    total = sum(struct.unpack(f">{(len(pseudo) + len(head)) // 2}H", pseudo + head))
    while total > 0xFFFF:
        total = (total & 0xFFFF) + (total >> 16)
    return head[:16] + struct.pack(">H", ~total & 0xFFFF) + head[18:]
