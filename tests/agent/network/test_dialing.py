"""The node dials pods in their networks and nothing else."""

from __future__ import annotations

import asyncio

import pytest

from tarmac.agent.network.dialing import PodDialer
from tarmac.api.networking.interfaces import AttachedInterface, encode_interfaces
from tarmac.api.networking.names import ANNOTATION_INTERFACES
from tarmac.api.schema import JsonObject
from tarmac.datapath.fake import FakeDatapath
from tarmac.datapath.interface import NetworkState, NodeNetworks

NIC = AttachedInterface("eth0", "shop/default", addresses=["10.128.0.5/20"])


def pod(host_network: bool = False) -> JsonObject:
    annotations = {ANNOTATION_INTERFACES: encode_interfaces([NIC])}
    return {"metadata": {"annotations": annotations}, "spec": {"hostNetwork": host_network}}


async def test_a_pod_is_dialled_inside_its_network_and_only_at_its_own_addresses() -> None:
    server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
    port: int = server.sockets[0].getsockname()[1]
    datapath = FakeDatapath()
    await datapath.apply(NodeNetworks(("198.18.0.1",), (NetworkState("shop/default", 1, 1460),)))
    datapath.doors["shop/default", "10.128.0.5", 80] = ("127.0.0.1", port)
    dial = PodDialer(datapath)
    async with server:
        (await dial(pod(), "10.128.0.5", 80, 5)).close()
        with pytest.raises(OSError, match="not an address of the pod"):
            await dial(pod(), "127.0.0.1", port, 5)
        (await dial(pod(host_network=True), "127.0.0.1", port, 5)).close()
