"""A revoked user certificate at a node's own port, where no server stands in between."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from tarmac.base.clock import SystemClock
from tarmac.client.targets.untyped import NODES
from tarmac.controllers.revoking import revoke
from tarmac.server.security.certificates import KeyPair
from tests.security.wire import Attacker
from tests.server.streams.planet import Planet, planet


async def caller(world: Planet, pair: KeyPair) -> Attacker:
    """Somebody with a certificate who speaks to the node."""
    context = ssl.create_default_context(cadata=world.pki.ca_file.read_text())
    file = world.home / "caller.pem"
    file.write_bytes(pair.certificate + pair.key)
    context.load_cert_chain(file)
    node = await world.client.resource(NODES).get("n1")
    return Attacker(node["status"]["daemonEndpoints"]["kubeletEndpoint"]["Port"], context)


async def test_a_revoked_certificate_is_refused_by_nodes_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tarmac.agent.http.callers._CERTIFICATE_SECONDS", 0.0)  # a Yes is asked for again at once
    async with planet(tmp_path, tunnelled=False) as world:
        now = SystemClock().now()
        jane = world.pki.authority.issue_client("jane", ("system:masters",), now)
        joe = world.pki.authority.issue_client("joe", ("system:masters",), now)
        assert (await (await caller(world, jane)).get("/pods")).status == 200
        await revoke(world.client, "jane")
        for path in ("/pods", "/metrics", "/containerLogs/default/web/main"):
            answer = await (await caller(world, jane)).get(path)
            assert answer.status == 403, (path, answer)
        assert (await (await caller(world, joe)).get("/pods")).status == 200
