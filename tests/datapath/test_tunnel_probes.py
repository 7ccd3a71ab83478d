"""Tunnel probes in packets: both nodes report a UDP port closed in one direction, and forged answers do not count."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, suppress

import pytest

from tarmac.agent.network.tunnels import losses, tunnelprobes
from tarmac.agent.network.tunnels.tunnelprobes import TunnelProbes
from tarmac.api.networking.ports import PROBE_PORT
from tarmac.api.networking.tunnelendpoint import TunnelEndpoint
from tarmac.api.shared import ObjectMeta
from tarmac.base.clock import SystemClock
from tarmac.base.randomness import Randomness
from tarmac.base.tasks import background
from tarmac.datapath.interface import NetworkState, Remote
from tarmac.datapath.linux.naming import router_name
from tarmac.decide.reach.marks import probe_address
from tests.datapath.worlds import RealWorld, nic, one_network

pytestmark = [pytest.mark.root]

NET = "default/default"
_INTERVAL = 0.2


def address(number: int) -> str:
    return f"198.18.0.{number}"


class Town:
    """Two nodes with a pod each on one network, and the probes of both."""

    def __init__(self, world: RealWorld) -> None:
        self.world = world
        self.endpoints = {
            f"n{number}": TunnelEndpoint(ObjectMeta(f"n{number}"), addresses=[address(number)], ready=True, probes=True)
            for number in (1, 2)
        }
        self.states = {
            number: NetworkState(NET, 4097, 1400, ("10.128.0.0/16",), (Remote(address(3 - number), (far,)),))
            for number, far in ((1, "10.128.2.5/32"), (2, "10.128.1.5/32"))
        }
        self.probes: dict[int, TunnelProbes] = {}
        self.problems: list[str] = []

    async def start(self, stack: AsyncExitStack) -> None:
        for number in (1, 2):
            await self.world.node(number).apply(one_network(self.states[number], number))
            await self.world.pod(number, f"pod{number}", [nic(NET, f"10.128.{number}.5/24")])
            self.probes[number] = TunnelProbes(
                lambda: self.endpoints,
                self.world.node(number),
                lambda number=number: [address(number)],
                lambda number=number: one_network(self.states[number], number),
                lambda: self.problems,
                lambda: None,
                SystemClock(),
                Randomness(),
            )
            await stack.enter_async_context(background(self.probes[number].run(), f"probes of n{number}"))

    def said(self, number: int) -> str:
        state = self.probes[number].state()
        return "" if state is None else state.message

    def drop(self, number: int, rule: str) -> None:
        """Add a firewall to a machine, as a program other than Tarmac does."""
        machine = self.world.lab.machine(number)
        self.world.lab.command(machine, "nft add table inet firewall")
        chain = "add chain inet firewall in { type filter hook input priority -10 ; }"
        self.world.lab.command(machine, f"nft {chain}")
        self.world.lab.command(machine, f"nft add rule inet firewall in {rule} drop")

    def open(self, number: int) -> None:
        self.world.lab.command(self.world.lab.machine(number), "nft delete table inet firewall")


async def until(check: Callable[[], bool], what: Callable[[], str]) -> None:
    try:
        async with asyncio.timeout(20):
            while not check():
                await asyncio.sleep(0.05)
    except TimeoutError:
        pytest.fail(what())


@pytest.fixture
async def town(real: RealWorld, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Town]:
    for module in (losses, tunnelprobes):
        monkeypatch.setattr(module, "INTERVAL", _INTERVAL)
    made = Town(real)
    async with AsyncExitStack() as stack:
        await made.start(stack)
        await until(lambda: all(_answers(made.said(each)) for each in (1, 2)), lambda: str(made.said(1)))
        yield made


def _answers(message: str) -> bool:
    return message.startswith("every node that shares a Network with this one answers")


async def test_a_port_closed_in_one_direction_is_found_by_both_nodes_and_again_open(town: Town) -> None:
    town.drop(2, "udp dport 4789")
    wanted = {1: "4789/udp to n2 is closed", 2: "4789/udp from n1 is closed"}
    await until(lambda: {each: town.said(each) for each in (1, 2)} == wanted, lambda: f"{town.said(1)} {town.said(2)}")
    town.open(2)
    await until(lambda: all(_answers(town.said(each)) for each in (1, 2)), lambda: f"{town.said(1)} {town.said(2)}")


async def test_a_port_closed_in_both_directions_is_found(town: Town) -> None:
    for number in (1, 2):
        town.drop(number, "udp dport 4789")
    wanted = {1: "4789/udp from n2 is closed", 2: "4789/udp from n1 is closed"}
    await until(lambda: {each: town.said(each) for each in (1, 2)} == wanted, lambda: f"{town.said(1)} {town.said(2)}")


async def test_pods_and_other_nodes_cannot_answer_for_a_node(town: Town) -> None:
    lab, here = town.world.lab, probe_address(address(1))
    town.drop(2, "udp dport 4789")
    packet = tunnelprobes._PACKET.pack(tunnelprobes._MAGIC, 2, bytes(8))
    with lab.socket(town.world.namespace("pod1"), socket.AF_INET6, socket.SOCK_DGRAM) as pod:
        for _ in range(100):
            with suppress(OSError):
                pod.sendto(packet, (here, PROBE_PORT))
    await until(lambda: town.said(1) == "4789/udp to n2 is closed", lambda: town.said(1))
    # A sender in the peer's router namespace with the right address fails too: it does not know the nonce.
    router = lab.folder / "run-2" / "netns" / router_name(NET)
    forged = lab.inside(router, lambda: _sender(probe_address(address(2))))
    with forged:
        for _ in range(100):
            forged.sendto(packet, (here, PROBE_PORT))
        await asyncio.sleep(3 * _INTERVAL)
    assert town.said(1) == "4789/udp to n2 is closed"


def _sender(source: str) -> socket.socket:
    made = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    made.bind((source, 0))
    return made


async def test_a_node_that_is_not_ready_or_answers_no_probes_is_not_judged(town: Town) -> None:
    town.drop(2, "udp dport 4789")
    await until(lambda: "closed" in town.said(1), lambda: town.said(1))
    for field in ("ready", "probes"):
        setattr(town.endpoints["n2"], field, False)
        await until(lambda: town.said(1).startswith("no node that answers"), lambda: town.said(1))
        setattr(town.endpoints["n2"], field, True)
        await until(lambda: "closed" in town.said(1), lambda: town.said(1))


async def test_a_tunnel_that_cannot_be_encrypted_is_told_with_those_that_are_closed(town: Town) -> None:
    town.problems = ["n2 cannot encrypt"]
    state = town.probes[1].state()
    assert state is not None
    assert (state.reachable, state.reason, state.message) == (False, "EncryptionUnavailable", "n2 cannot encrypt")
    town.drop(2, "udp dport 4789")
    wanted = "4789/udp to n2 is closed; n2 cannot encrypt"
    await until(lambda: town.said(1) == wanted, lambda: town.said(1))
