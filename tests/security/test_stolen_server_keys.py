"""The stolen key of a server: it impersonates that server alone, until the authority is rotated."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from tarmac.base.clock import SystemClock
from tarmac.client.targets.untyped import SERVICE_ACCOUNTS
from tarmac.http.listener import serve
from tarmac.http.messages import Response
from tarmac.server.security.certificates.authoritykeys import follow_authorities
from tarmac.server.security.certificates.authorityrotation import AuthorityRotation
from tarmac.server.security.certificates.authorityusers import OldCertificateUsers
from tarmac.server.security.certificates.issuing import Authority, KeyPair
from tarmac.server.security.certificates.pki import Pki
from tarmac.server.security.tokens.jwt import SigningKey
from tests.security.conftest import World
from tests.security.test_revoked_at_nodes import caller
from tests.security.wire import Attacker, Wire, serving
from tests.server.streams.planet import planet

READS = (
    "/api/v1/secrets", "/api/v1/nodes", "/api/v1/namespaces", "/api/v1/namespaces/kube-system/secrets", "/metrics",
    "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", "/tarmac/v1/restored", "/api/v1/pods",
)  # fmt: skip


@pytest.fixture
async def wire(tmp_path: Path) -> AsyncGenerator[Wire]:
    async with serving(tmp_path) as running:
        yield running


def stolen(pki: Pki) -> KeyPair:
    folder = pki.ca_file.parent
    return KeyPair((folder / "server.crt").read_bytes(), (folder / "server.key").read_bytes())


async def status(attacker: Attacker, target: str) -> int:
    """Return the status; 0 if the handshake fails."""
    try:
        return (await attacker.get(target)).status
    except (ConnectionError, IndexError, ssl.SSLError):  # IndexError: closed without an answer
        return 0


@pytest.mark.parametrize("target", READS)
async def test_it_is_no_identity_of_a_client(wire: Wire, target: str) -> None:
    assert await status(wire.attacker(stolen(wire.pki)), target) in (0, 401, 403)


async def test_it_is_no_identity_at_a_nodes_own_port(tmp_path: Path) -> None:
    async with planet(tmp_path, tunnelled=False) as world:
        attacker = await caller(world, stolen(world.pki))
        for target in ("/pods", "/metrics", "/containerLogs/default/web/main"):
            assert await status(attacker, target) in (0, 401, 403)


@pytest.mark.parametrize("target", READS)
async def test_it_vouches_for_no_other_certificate(wire: Wire, target: str) -> None:
    """The attack uses it as an authority, with certificates that the stolen key signed."""
    made = Authority(stolen(wire.pki)).issue_client("kubernetes-admin", ("system:masters",), SystemClock().now())
    for chain in (made.certificate, made.certificate + stolen(wire.pki).certificate):
        assert await status(wire.attacker(KeyPair(chain, made.key)), target) in (0, 401)


async def test_it_signs_no_tokens(wire: Wire) -> None:
    account = await wire.admin.resource(SERVICE_ACCOUNTS).create({"metadata": {"name": "a"}}, namespace="default")
    subject, now = "system:serviceaccount:default:a", int(time.time())
    for issuer in (
        "https://kubernetes.default.svc",
        "https://kubernetes.default.svc.cluster.local",
        "kubernetes/serviceaccount",
    ):
        names = {"namespace": "default", "serviceaccount": {"name": "a", "uid": account["metadata"]["uid"]}}
        claims = {"iss": issuer, "sub": subject, "aud": [issuer], "iat": now, "nbf": now, "exp": now + 600}
        token = SigningKey(stolen(wire.pki).key).sign({**claims, "kubernetes.io": names})
        assert await status(wire.attacker(token=token), "/api/v1/namespaces") == 401


@pytest.mark.parametrize("name", ["n1", "registry.tarmac.local", "example.com", "192.0.2.1"])
async def test_it_serves_under_no_other_name(wire: Wire, name: str) -> None:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    folder = wire.pki.ca_file.parent
    context.load_cert_chain(folder / "server.crt", folder / "server.key")
    listener = await serve(lambda _: Response(200, b"{}"), context)
    trusting = ssl.create_default_context(cadata=wire.pki.ca_file.read_text())
    try:
        assert await status(Attacker(listener.port, trusting), "/") == 200, "the holder of the key can do this"
        with pytest.raises(ssl.SSLCertVerificationError):
            await asyncio.open_connection("127.0.0.1", listener.port, ssl=trusting, server_hostname=name)
    finally:
        await listener.stop(0.1)


async def test_a_rotation_of_the_authority_ends_it(world: World, tmp_path: Path) -> None:
    clock = SystemClock()  # TLS uses the machine's clock
    pki = Pki(tmp_path, clock)
    rotation = AuthorityRotation(world.store, pki, OldCertificateUsers(world.store, clock), clock)
    pki.authority  # noqa: B018 - creates the authority
    with pki.server_files(["127.0.0.1"]) as files:
        thief = KeyPair(*(each.read_bytes() for each in files))
    (tmp_path / "thief.pem").write_bytes(thief.certificate + thief.key)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(tmp_path / "thief.pem")
    listener = await serve(lambda _: Response(200, b"{}"), context)

    async def passes() -> bool:
        trusting = ssl.create_default_context(cadata=pki.ca_file.read_text())
        return await status(Attacker(listener.port, trusting), "/") == 200

    try:
        assert await passes()
        await rotation.begin()
        follow_authorities(pki, rotation.record)
        assert await passes(), "both authorities are trusted until the old one is retired"
        await rotation.advance()
        follow_authorities(pki, rotation.record)
        await rotation.retire()
        follow_authorities(pki, rotation.record)
        assert not await passes()
        with pki.server_files(["127.0.0.1"]) as files:
            assert files[1].read_bytes() != thief.key, "the server has another key"
    finally:
        await listener.stop(0.1)
