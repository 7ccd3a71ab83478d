"""The datapath contract for virtual machines: taps outlive the processes that use them."""

from __future__ import annotations

import errno
import os
from collections.abc import AsyncIterator

import pytest

from tarmac.datapath.interface import NetworkState
from tarmac.datapath.linux import taps
from tests.datapath.conftest import ON_A_KERNEL, real_world
from tests.datapath.test_datapath_contract import A6, B6, NET, PLAIN, A, B
from tests.datapath.worlds import FakeWorld, World, nic, one_network

NIC = nic(NET, f"{A}/20", f"{A6}/64")


@pytest.fixture(params=["fake", pytest.param("real", marks=ON_A_KERNEL)])
async def nodes(request: pytest.FixtureRequest) -> AsyncIterator[World]:
    """Nodes of either kind; the first one has a network."""
    made = FakeWorld() if request.param == "fake" else real_world()
    try:
        await made.node(1).apply(one_network(PLAIN))
        yield made
    finally:
        await made.close()


async def refusal(nodes: World, sandbox_id: str, position: int = 0) -> int | None:
    """Return the error number of opening a tap."""
    with pytest.raises(OSError) as raised:
        await nodes.node(1).open_tap(sandbox_id, position)
    return raised.value.errno


async def test_a_tap_has_one_user_at_a_time(nodes: World) -> None:
    await nodes.node(1).attach_taps("vm", [NIC])
    with await nodes.node(1).open_tap("vm", 0) as tap:
        assert not os.get_inheritable(tap.fileno()), "child processes do not inherit it"
        assert await refusal(nodes, "vm") == errno.EBUSY
    (await nodes.node(1).open_tap("vm", 0)).close()


@pytest.fixture(params=[pytest.param("real", marks=ON_A_KERNEL)])
async def kernel() -> AsyncIterator[World]:
    """Nodes of a real kernel; the first one has a network."""
    made = real_world()
    try:
        await made.node(1).apply(one_network(PLAIN))
        yield made
    finally:
        await made.close()


async def test_a_tap_in_use_has_further_queues_for_its_user_and_none_for_another_process(kernel: World) -> None:
    node = kernel.node(1)
    await node.attach_taps("vm", [NIC])
    with await node.open_tap("vm", 0):
        with await node.open_tap("vm", 0, further=True), await node.open_tap("vm", 0, further=True):
            assert await refusal(kernel, "vm") == errno.EBUSY
        assert await refusal(kernel, "vm") == errno.EBUSY
    (await node.open_tap("vm", 0)).close()


async def test_a_tap_of_an_older_version_has_one_queue(kernel: World, monkeypatch: pytest.MonkeyPatch) -> None:
    node = kernel.node(1)
    with monkeypatch.context() as older:
        older.setattr(taps, "_QUEUES", 0)
        await node.attach_taps("vm", [NIC])
    with await node.open_tap("vm", 0):
        with pytest.raises(OSError) as raised:
            await node.open_tap("vm", 0, further=True)
        assert raised.value.errno == errno.EBUSY
        assert await refusal(kernel, "vm") == errno.EBUSY
    (await node.open_tap("vm", 0)).close()


async def test_opening_an_absent_tap_fails(nodes: World) -> None:
    await nodes.node(1).attach_taps("vm", [NIC])
    assert await refusal(nodes, "vm", 1) == errno.ENODEV
    assert await refusal(nodes, "nobody") == errno.ENODEV
    await nodes.pod(1, "pod", [nic(NET, f"{B}/20", f"{B6}/64")])
    assert await refusal(nodes, "pod") == errno.ENODEV


async def test_taps_go_with_their_sandbox_whoever_has_them_open(nodes: World) -> None:
    await nodes.node(1).attach_taps("vm", [NIC])
    with await nodes.node(1).open_tap("vm", 0):
        await nodes.node(1).detach("vm")
        assert await refusal(nodes, "vm") == errno.ENODEV
        assert not nodes.node(1).sandboxes()


async def test_taps_of_a_sandbox_that_is_gone_are_swept(nodes: World) -> None:
    await nodes.node(1).attach_taps("vm", [NIC])
    assert await nodes.node(1).sweep({"another"}) == ["vm"]
    assert await refusal(nodes, "vm") == errno.ENODEV
    assert await nodes.node(1).traffic() == {}


async def test_attaching_a_tap_returns_hardware_address_and_mtu(nodes: World) -> None:
    nothing_said = nic(NET, f"{A}/20", mtu=0)
    nothing_said.mac = ""
    (made,) = (await nodes.node(1).attach_taps("vm", [nothing_said])).interfaces
    assert made.mac
    assert made.mtu
    assert (made.name, made.network, made.addresses) == ("eth0", NET, [f"{A}/20"])
    (again,) = (await nodes.node(1).attach_taps("vm", [nothing_said])).interfaces
    assert again == made


async def test_every_interface_has_a_tap_of_its_own(nodes: World) -> None:
    back = NetworkState("shop/back", 4099, 1460, ranges=("172.20.0.0/16",))
    await nodes.node(1).apply(one_network(back))
    second = nic("shop/back", "172.20.0.5/24", name="eth1", vni=4099)
    await nodes.node(1).attach_taps("vm", [NIC, second])
    with await nodes.node(1).open_tap("vm", 0), await nodes.node(1).open_tap("vm", 1):
        assert await refusal(nodes, "vm", 2) == errno.ENODEV
    assert set(await nodes.node(1).traffic()) == {"vm"}
