"""A node publishes its underlay's MTU as soon as it is known, and after each change."""

from __future__ import annotations

from pathlib import Path

import pytest

from tarmac.agent.node import underlay
from tarmac.agent.node.underlay import UnderlayAnnotation, mtu_of
from tarmac.api.networking.names import ANNOTATION_UNDERLAY_MTU
from tarmac.apps.control_plane import local_transport
from tarmac.client.client import Client
from tarmac.client.targets.untyped import NODES
from tarmac.server.security.users import User
from tests.client import backends


def test_the_link_with_an_address_has_a_size() -> None:
    assert mtu_of("127.0.0.1") == 65536
    assert mtu_of("203.0.113.1") is None
    assert mtu_of("2001:db8::1") is None


async def test_it_is_told_on_the_nodes_own_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: dict[str, int | None] = {"198.18.0.1": None, "fd99::1": None}
    monkeypatch.setattr(underlay, "mtu_of", sizes.get)
    identity = User("system:node:n1", groups=("system:nodes", "system:authenticated"))
    async with backends.our_server(tmp_path) as running:
        client = Client(local_transport(running.server, identity))
        teller = UnderlayAnnotation(client, "n1", lambda: list(sizes))
        assert not await teller.update()
        sizes |= {"198.18.0.1": 1600, "fd99::1": 1500}
        assert not await teller.update(), "the Node does not exist yet"
        await client.resource(NODES).create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}})
        assert await teller.update()
        assert await teller.update()
        node = await client.resource(NODES).get("n1")
        assert node["metadata"]["annotations"][ANNOTATION_UNDERLAY_MTU] == "1500"
