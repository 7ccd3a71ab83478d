"""A new authority behind certificates: both are good until the old one is retired, and only the new one after."""

from __future__ import annotations

import json
import ssl
from pathlib import Path
from typing import Any

import pytest

from tarmac.api.rotations import TRUSTS, certified_by, trusts_authority
from tarmac.api.status import Unauthorized
from tarmac.base.clock import SystemClock
from tarmac.http.bundles import authority_id, certificates_in
from tarmac.http.listener import serve
from tarmac.http.messages import Request, Response
from tarmac.server.security.authentication.authenticate import Authenticator
from tarmac.server.security.certificates.authoritykeys import TrustedAuthorities, follow_authorities
from tarmac.server.security.certificates.authorityrotation import AuthorityRotation
from tarmac.server.security.certificates.authorityusers import OldCertificateUsers
from tarmac.server.security.certificates.issuing import Authority, KeyPair, load_certificate
from tarmac.server.security.certificates.pki import Pki
from tarmac.server.security.certificates.renewal import ServerTls
from tarmac.server.security.keys.rotation import RotationEndpoint
from tests.security.conftest import World
from tests.security.wire import Attacker

DAY = 24 * 3600.0


class Rotated:
    """A cluster with an authority of its own."""

    def __init__(self, world: World, folder: Path) -> None:
        self.world = world
        self.pki = Pki(folder, world.clock)
        self.users = OldCertificateUsers(world.store, world.clock)
        self.trusted = TrustedAuthorities(world.store, world.clock, self.users.note)
        self.rotation = AuthorityRotation(world.store, self.pki, self.users, world.clock)
        self._authenticator = Authenticator(
            world.store, world.tokens, world.authorizer, world.clock, authorities=self.trusted
        )

    async def advance(self) -> None:
        await self.rotation.advance()
        follow_authorities(self.pki, self.rotation.record)

    def comes(self, pair: KeyPair) -> str:
        der = ssl.PEM_cert_to_DER_cert(pair.certificate.decode())
        return self._authenticator.at_once(Request("GET", "/", peer_certificate=der)).name

    async def node(self, name: str, *words: str) -> None:
        note = {"annotations": {TRUSTS: " ".join(words)}} if words else {}
        await self.world.put("core/nodes", {"metadata": {"name": name, **note}})


@pytest.fixture
def rotated(world: World, tmp_path: Path) -> Rotated:
    return Rotated(world, tmp_path)


async def test_certificates_of_both_are_good_until_the_old_one_is_retired(rotated: Rotated) -> None:
    old = rotated.pki.client("jane")
    assert rotated.comes(old) == "jane"
    await rotated.rotation.begin()
    await rotated.advance()
    assert (await rotated.rotation.status())["stage"] == "signing"
    new = rotated.pki.client("joe")
    assert (rotated.comes(old), rotated.comes(new)) == ("jane", "joe")
    [obstacle] = await rotated.rotation.obstacles()
    assert obstacle.startswith(
        "seen with certificates of the old authority in the last 7 days: jane; tarmac user create"
    )
    await rotated.rotation.retire()
    with pytest.raises(Unauthorized, match="retired"):
        rotated.comes(old)  # though it was valid, and cached, a moment ago
    assert rotated.comes(new) == "joe"


async def test_somebody_who_was_last_seen_a_week_ago_is_not_named(rotated: Rotated) -> None:
    old = rotated.pki.client("jane")
    await rotated.rotation.begin()
    await rotated.advance()
    rotated.comes(old)
    await rotated.users.write()
    other = OldCertificateUsers(rotated.world.store, rotated.world.clock)
    assert list(other.seen()) == ["jane"], "another server, or this one after a restart"
    rotated.world.clock.advance(6 * DAY)
    rotated.comes(old)  # remembered for an hour only: it is seen again
    rotated.world.clock.advance(2 * DAY)
    assert list(rotated.users.seen()) == ["jane"]
    rotated.world.clock.advance(6 * DAY)
    assert await rotated.rotation.obstacles() == []


async def test_it_signs_when_every_agent_says_that_it_is_trusted(rotated: Rotated) -> None:
    await rotated.rotation.begin()
    first, second = rotated.rotation.record.keys
    await rotated.node("simulated")  # reports nothing, and holds no certificate
    await rotated.node("n1", trusts_authority(first))
    await rotated.advance()
    shown = await rotated.rotation.status()
    assert (shown["stage"], shown["waiting"]) == ("trusted", ["node n1"])
    await rotated.node("n1", trusts_authority(first), trusts_authority(second), certified_by(first))
    await rotated.advance()
    assert (await rotated.rotation.status())["stage"] == "signing"
    assert "certificates of nodes are of the old authority: node n1" in (await rotated.rotation.obstacles())[0]
    await rotated.node("n1", trusts_authority(first), trusts_authority(second), certified_by(second))
    assert await rotated.rotation.obstacles() == []


async def test_nodes_that_are_away_are_left_behind_only_if_somebody_insists(rotated: Rotated) -> None:
    await rotated.node("gone", trusts_authority("another"))
    endpoint = RotationEndpoint(rotated.rotation)

    async def ask(action: str, *, force: bool = False) -> dict[str, Any]:
        body = json.dumps({"action": action, "force": force}).encode()
        answer = (await endpoint.answer(Request("POST", "/tarmac/v1/rotations/ca", body=body))).body
        assert isinstance(answer, bytes)
        return json.loads(answer)

    assert (await ask("begin"))["stage"] == "trusted"
    early = await ask("retire", force=True)
    assert (early["stage"], len(early["obstacles"])) == ("trusted", 1), (
        "an authority that does not sign is never the only one"
    )
    assert (await ask("begin", force=True))["stage"] == "signing"
    assert (await ask("retire"))["obstacles"] == ["certificates of nodes are of the old authority: node gone"]
    assert (await ask("retire", force=True))["stage"] == "settled"


async def test_an_authority_in_between_vouches_for_nobody(rotated: Rotated) -> None:
    between = Authority.create("between", rotated.world.clock.now())
    await rotated.rotation.begin()
    made = Authority(between).issue_client("kubernetes-admin", ("system:masters",), rotated.world.clock.now())
    with pytest.raises(Unauthorized):
        rotated.comes(made)


async def test_a_server_killed_between_two_files_still_has_a_pair(rotated: Rotated) -> None:
    before = rotated.pki.authority.pem
    key = rotated.pki.ca_key_file.read_bytes()
    await rotated.rotation.begin()
    await rotated.advance()
    rotated.pki.ca_key_file.write_bytes(key)  # `ca.crt` comes before it
    again = Pki(rotated.pki.ca_file.parent, rotated.world.clock)
    assert again.authority.pem == before
    load_certificate(again.client("jane").certificate).verify_directly_issued_by(load_certificate(before))
    follow_authorities(again, rotated.rotation.record)
    assert again.authority.pem.decode() == certificates_in(again.ca_file.read_text())[0]


async def test_clients_that_know_only_one_of_both_trust_the_server(world: World, tmp_path: Path) -> None:
    clock = SystemClock()  # TLS uses the machine's clock
    pki = Pki(tmp_path, clock)
    users = OldCertificateUsers(world.store, clock)
    rotation = AuthorityRotation(world.store, pki, users, clock)
    old = pki.ca_file.read_text()
    tls = ServerTls(pki, ["127.0.0.1"], clock)
    listener = await serve(lambda _: Response(200, b"{}"), tls.renewed())

    async def trusts(*authorities: str) -> bool:
        context = ssl.create_default_context(cadata="".join(authorities))
        try:
            return (await Attacker(listener.port, context).get("/")).status == 200
        except ssl.SSLError:
            return False

    def follow() -> None:
        follow_authorities(pki, rotation.record)
        if (context := tls.renewed()) is not None:
            listener.use(context)

    try:
        await rotation.begin()
        follow()
        assert set(tls.trusted) == set(rotation.record.keys)
        assert await trusts(old)
        await rotation.advance()
        follow()
        new, _ = certificates_in(pki.ca_file.read_text())
        assert authority_id(new) == rotation.record.signing
        assert [await trusts(*each) for each in ((old,), (new,), (old, new))] == [True, True, True]
        await rotation.retire()
        follow()
        assert [await trusts(*each) for each in ((old,), (new,))] == [False, True]
        assert len(certificates_in(pki.server_file.read_text())) == 1, "no chain is sent any more"
    finally:
        await listener.stop(0.1)
