"""A new key for service account tokens: old tokens work until the old key is retired, and not after."""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tarmac.api.identities import TokenHolder
from tarmac.api.rotations import TRUSTS
from tarmac.api.status import Unauthorized
from tarmac.base.randomness import Randomness
from tarmac.http.messages import Request
from tarmac.server.security.authentication.authenticate import Authenticator
from tarmac.server.security.keys.encryption import SecretSealer
from tarmac.server.security.keys.keyrecords import BUCKET, TOKENS
from tarmac.server.security.keys.rotation import RotationEndpoint
from tarmac.server.security.tokens import secrettokens
from tarmac.server.security.tokens.jwt import SigningKey, parse
from tarmac.server.security.tokens.serviceaccounts import ServiceAccountTokens
from tarmac.server.security.tokens.tokenrotation import TokenRotation, token_record
from tests.security.conftest import World
from tests.security.test_authentication import account, authenticate, issue
from tests.security.wire import Attacker
from tests.support.tarmac_process import TarmacProcess

HOUR = 3600.0


def rotation_of(world: World) -> TokenRotation:
    first = partial(token_record, world.pki.token_key_file.read_bytes(), 0.0)
    return TokenRotation(world.store, first, world.clock)


async def announce(world: World, server: str, *trusted: str) -> None:
    """Publish a server's trusted keys in its Lease."""
    note = {TRUSTS: " ".join(trusted)}
    metadata = {"name": f"apiserver-{server}", "namespace": "kube-system", "annotations": note}
    await world.put("coordination.k8s.io/leases", {"metadata": metadata, "spec": {"holderIdentity": server}})


def kid(token: str) -> str:
    return parse(token).header["kid"]


async def test_stage_by_stage_until_the_old_key_is_retired(world: World) -> None:
    await account(world)
    rotation = rotation_of(world)
    old = issue(world, expirationSeconds=24 * 3600)
    app = authenticate(world, old)
    first = kid(old)
    assert (await rotation.status())["stage"] == "settled"

    await rotation.begin()
    assert (await rotation.status())["stage"] == "trusted"
    assert kid(issue(world)) == first, "the new key is trusted, and does not sign yet"
    await announce(world, "one", *rotation.record.keys)
    await announce(world, "two", first)
    await rotation.advance()
    shown = await rotation.status()
    assert (shown["stage"], shown["waiting"]) == ("trusted", ["server two"]), "it does not trust the new key so far"
    await announce(world, "two", *rotation.record.keys)
    await rotation.advance()
    assert (await rotation.status())["stage"] == "signing"
    new = issue(world)
    assert kid(new) != first
    assert {authenticate(world, each).name for each in (old, new)} == {app.name}
    published = world.tokens.keys.public_jwks()
    assert {each["kid"] for each in published} == {first, kid(new)}

    assert "expire in 60m" in (await rotation.obstacles())[0]
    world.clock.advance(HOUR + 1)
    assert await rotation.obstacles() == []
    authenticate(world, old)
    await rotation.retire()
    assert (await rotation.status())["stage"] == "settled"
    with pytest.raises(Unauthorized):
        authenticate(world, old)  # though it was valid, and cached, a moment ago
    assert authenticate(world, issue(world)).name == app.name


async def test_every_server_goes_by_the_record(world: World) -> None:
    await account(world)
    rotation = rotation_of(world)
    key = SigningKey(world.pki.token_key_file.read_bytes())
    tokens = ServiceAccountTokens(world.store, key, world.clock)
    other = Authenticator(world.store, tokens, world.authorizer, world.clock)
    await rotation.begin()
    await rotation.advance()
    request = Request("GET", "/", headers={"authorization": f"Bearer {issue(world)}"})
    assert other.at_once(request).name == "system:serviceaccount:team:app"
    await rotation.retire()
    old = Request("GET", "/", headers={"authorization": f"Bearer {key.sign(parse(issue(world)).claims)}"})
    with pytest.raises(Unauthorized):
        other.at_once(old)


async def test_begun_twice_and_at_once_it_is_one_rotation(world: World) -> None:
    rotations = [rotation_of(world) for _ in range(5)]
    await asyncio.gather(*(each.begin() for each in rotations))
    assert len(rotations[0].record.keys) == 2
    await asyncio.gather(*(each.advance() for each in rotations))
    await asyncio.gather(*(each.begin() for each in rotations))
    assert len(rotations[0].record.keys) == 2, "the old one is not retired yet"
    await asyncio.gather(*(each.retire() for each in rotations))
    assert len(rotations[0].record.keys) == 1


async def test_a_key_that_does_not_sign_is_never_the_only_one(world: World) -> None:
    rotation = rotation_of(world)
    await rotation.begin()
    before = rotation.record
    body = json.dumps({"action": "retire", "force": True}).encode()
    request = Request("POST", f"/tarmac/v1/rotations/{TOKENS}", body=body)
    answered = (await RotationEndpoint(rotation).answer(request)).body
    assert isinstance(answered, bytes)
    answer = json.loads(answered)
    assert answer["obstacles"] == ["the new key does not sign yet: not every server trusts it so far"]
    await rotation.retire()
    assert rotation.record == before


async def test_secrets_that_hold_old_tokens_are_named(world: World) -> None:
    await account(world)
    holder = TokenHolder("team", "app", "account-uid", "kept", "secret-uid")
    token = secrettokens.sign(world.tokens.keys, world.randomness, holder)
    data = {"token": base64.b64encode(token.encode()).decode()}
    kind = "kubernetes.io/service-account-token"
    await world.put("core/secrets", {"metadata": {"name": "kept", "namespace": "team"}, "type": kind, "data": data})
    await world.put("core/secrets", {"metadata": {"name": "odd", "namespace": "team"}, "type": kind, "data": {}})
    rotation = rotation_of(world)
    await rotation.begin()
    await rotation.advance()
    world.clock.advance(HOUR + 1)
    assert await rotation.obstacles() == ["Secrets hold tokens of the old key: team/kept"]


def test_the_record_is_sealed_like_secrets() -> None:
    sealer = SecretSealer([("one", b"k" * 32)], Randomness(1))
    assert b"PRIVATE" not in sealer.seal(BUCKET, TOKENS, b'{"metadata":{},"keys":"PRIVATE"}')


def tarmac(server: TarmacProcess, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tarmac.apps.main", "rotate", "tokens", *words]
    return subprocess.run(
        [*command, f"--kubeconfig={server.kubeconfig}"], capture_output=True, text=True, check=False, timeout=30
    )


def stage(server: TarmacProcess) -> dict[str, Any]:
    return json.loads(tarmac(server, "--status", "-o", "json").stdout)


@pytest.mark.timeout(120)
async def test_a_server_that_is_killed_goes_on_where_it_was(tmp_path: Path) -> None:
    with TarmacProcess(tmp_path / "data", "--controllers=-*") as server:
        port, admin = int(server.url.rpartition(":")[2]), server.client_context()
        accounts = "/api/v1/namespaces/default/serviceaccounts"
        body: dict[str, Any] = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "app"}}
        assert (await Attacker(port, admin).post(accounts, body)).status == 201
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        made = await Attacker(port, admin).post(f"{accounts}/app/token", request)
        token = made.body["status"]["token"]
        plain = ssl.create_default_context(cafile=str(server.data_dir / "pki" / "ca.crt"))
        app = Attacker(port, plain, (("Authorization", f"Bearer {token}"),))
        refused = await app.post("/tarmac/v1/rotations/tokens", {"action": "begin"})
        assert refused.status == 403, "only users with that right"

        file = server.data_dir / "pki" / "sa.key"
        before = file.read_bytes()
        begun = tarmac(server)
        assert (begun.returncode, begun.stderr) == (0, "")
        server.kill()
        server.start()
        async with asyncio.timeout(30):
            while (found := stage(server))["stage"] != "signing" or file.read_bytes() == before:
                await asyncio.sleep(0.2)
        assert (await app.get("/api/v1/namespaces")).status == 403, "still authenticated"
        early = tarmac(server, "--retire")
        assert early.returncode == 3
        assert "old key signed expire in" in early.stderr
        assert tarmac(server, "--retire", "--force").stdout.startswith("settled: ")
        assert (await app.get("/api/v1/namespaces")).status == 401
        server.kill()
        server.start()
        assert (await app.get("/api/v1/namespaces")).status == 401
        assert stage(server)["signing"] == found["signing"]
        assert SigningKey(file.read_bytes()).id == found["signing"]
        assert abs(time.time() - file.stat().st_mtime) < 60
