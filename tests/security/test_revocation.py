"""Every server rejects a removed node's certificate within a second, and ends its open connections."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from tarmac.api.nodetokens import REVOKED_MAP, refused_before, revocation, revocation_key
from tarmac.client.targets.untyped import CERTIFICATE_REQUESTS, CONFIG_MAPS, NODES
from tarmac.controllers.noderemoval import forget_node
from tarmac.controllers.revoking import refused_until, revoke
from tarmac.server.security.certificates.issuing import KeyPair
from tests.security.wire import Attacker, Json, Wire, csr, serving, signing_request

REQUESTS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
WATCH = "/api/v1/services?watch=true"
MAPS = "/api/v1/namespaces/kube-system/configmaps"


@pytest.fixture
async def wire(tmp_path: Path) -> AsyncGenerator[Wire]:
    async with serving(tmp_path) as running:
        yield running


class Open:
    """An open connection whose first response has arrived."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    @staticmethod
    async def at(who: Attacker, head: str) -> tuple[Open, bytes]:
        reader, writer = await asyncio.open_connection("127.0.0.1", who.port, ssl=who.context)
        writer.write(f"{head}\r\nHost: s\r\n\r\n".encode())
        return Open(reader, writer), await reader.readuntil(b"\r\n\r\n")

    async def ends_within(self, seconds: float) -> bool:
        try:
            async with asyncio.timeout(seconds):
                while await self._reader.read(65536):
                    pass
        except (ConnectionError, asyncio.IncompleteReadError):
            return True
        except TimeoutError:
            return False
        return True

    def close(self) -> None:
        self._writer.transport.abort()


def tunnel(node: str) -> str:
    key = base64.b64encode(b"0" * 16).decode()
    upgrade = f"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}"
    return f"GET /tarmac/v1/nodes/{node}/tunnel HTTP/1.1\r\n{upgrade}\r\nSec-WebSocket-Protocol: v1.tunnel.tarmac"


async def test_a_removed_nodes_certificate_is_refused_and_its_watches_and_tunnels_end(wire: Wire) -> None:
    await wire.admin.resource(NODES).create({"metadata": {"name": "lost"}})
    await wire.admin.resource(NODES).create({"metadata": {"name": "other"}})
    lost, other = wire.node("lost"), wire.node("other")
    opened: list[Open] = []
    for who, name in ((lost, "lost"), (other, "other")):
        for head in (f"GET {WATCH} HTTP/1.1", tunnel(name)):
            made, answer = await Open.at(who, head)
            assert answer.split(b" ")[1] in (b"200", b"101"), answer
            opened.append(made)
    try:
        await forget_node(wire.admin, "lost")
        assert await opened[0].ends_within(1.0), "the watch"
        assert await opened[1].ends_within(1.0), "the tunnel"
        answer = await lost.get("/api/v1/nodes/lost")
        assert answer.status == 401
        assert answer.message == 'the certificate of "system:node:lost" was revoked'
        assert (await other.get("/api/v1/nodes/other")).status == 200
        assert not await opened[2].ends_within(0.2), "another node's watch"
    finally:
        for each in opened:
            each.close()


async def test_a_removed_node_gets_no_certificate_for_a_request_of_before(wire: Wire) -> None:
    """Otherwise the node could return under its name: many requests are pending while the Node is removed."""
    await wire.admin.resource(NODES).create({"metadata": {"name": "lost"}})
    key = ec.generate_private_key(ec.SECP256R1())
    pem = csr("system:node:lost", "system:nodes", key=key)
    lost = wire.node("lost")
    requests = [lost.post(REQUESTS, signing_request(pem, name=f"c{number}")) for number in range(100)]
    assert {answer.status for answer in await asyncio.gather(*requests)} == {201}
    await forget_node(wire.admin, "lost")
    valid, undecided, found = 0, 1, list[Json]()
    async with asyncio.timeout(30):
        while undecided:
            await asyncio.sleep(0.1)
            found = (await wire.admin.resource(CERTIFICATE_REQUESTS).list()).items
            undecided = sum(not settled(each) for each in found)
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    for each in found:
        if certificate := each["status"].get("certificate"):
            pair = KeyPair(base64.b64decode(certificate), private)
            valid += (await wire.attacker(pair).get("/api/v1/nodes/lost")).status != 401
    assert valid == 0
    reasons = {condition["reason"] for each in found for condition in each["status"]["conditions"]}
    assert "RequesterRevoked" in reasons


def settled(request: Json) -> bool:
    status = request.get("status") or {}
    return bool(status.get("certificate")) or any(
        each["type"] in ("Denied", "Failed") for each in status.get("conditions") or ()
    )


async def test_a_certificate_of_afterwards_is_good(wire: Wire) -> None:
    old = wire.node("n")
    await revoke(wire.admin, "system:node:n")
    assert (await old.get("/api/v1/nodes/n")).status == 401
    now = await refused_until(wire.admin, "system:node:n")
    fresh = wire.pki.authority.issue_client("system:node:n", ("system:nodes",), now + 1)
    assert (await wire.attacker(fresh).get("/api/v1/nodes/n")).status == 404, "the Node does not exist, but it may ask"


async def test_nobody_but_administrators_and_the_node_controller_says_what_is_revoked(wire: Wire) -> None:
    node = wire.node("n")
    await revoke(wire.admin, "system:node:n")
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": "admins", "namespace": "kube-system"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "admin"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "jane"}],
    }
    admin = wire.attacker(wire.pki.admin())
    answer = await admin.post("/apis/rbac.authorization.k8s.io/v1/namespaces/kube-system/rolebindings", binding)
    assert answer.status == 201
    jane = wire.attacker(wire.pki.client("jane"))
    assert (await jane.post(MAPS, {"metadata": {"name": "another"}})).status == 201
    for method, target, body in (
        ("PATCH", f"{MAPS}/{REVOKED_MAP}", {"data": {revocation_key("system:node:n"): None}}),
        ("DELETE", f"{MAPS}/{REVOKED_MAP}", None),
        ("DELETE", MAPS, None),
    ):
        kind = ("Content-Type", "application/merge-patch+json")
        answer = await jane.send(method, target, body, *((kind,) if body else ()))
        assert (answer.status, "system:masters" in answer.message) == (403, True), method
    assert (await node.get("/api/v1/nodes/n")).status == 401


async def test_unreadable_revocations_refuse_and_old_ones_are_dropped(wire: Wire) -> None:
    maps = wire.admin.resource(CONFIG_MAPS)
    old = {revocation_key("gone"): revocation("gone", 1000.0), revocation_key("system:node:odd"): "nonsense"}
    await revoke(wire.admin, "system:node:n")
    await maps.patch(REVOKED_MAP, {"data": old}, "kube-system")
    assert (await wire.node("odd").get("/api/v1/nodes/odd")).status == 401
    await revoke(wire.admin, "system:node:m")
    kept = (await maps.get(REVOKED_MAP, "kube-system"))["data"]
    assert {json.loads(each)["name"] for each in kept.values() if each.startswith("{")} == {
        "system:node:n",
        "system:node:m",
    }
    assert refused_before(kept[revocation_key("system:node:m")]) > 0


async def test_revoking_several_at_once_ends_them_all(wire: Wire) -> None:
    """No revocation undoes another, and one that comes during a pass causes a further pass."""
    pairs: list[KeyPair] = [wire.pki.node(f"n{number}") for number in range(3)]
    opened = [(await Open.at(wire.attacker(pair), f"GET {WATCH} HTTP/1.1"))[0] for pair in pairs]
    await asyncio.gather(*(revoke(wire.admin, f"system:node:n{number}") for number in range(3)))
    assert all(await asyncio.gather(*(each.ends_within(1.0) for each in opened)))
