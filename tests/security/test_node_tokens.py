"""A token joins a limited number of machines; each use is counted before it has an effect, the last ends the token."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tarmac.api.identities import KEY_OF_NODE
from tarmac.api.networking.cities import location_of
from tarmac.api.nodetokens import (
    AUTHORITIES_PATH,
    SECRET_PREFIX,
    USED,
    USED_KEYS,
    BadToken,
    NodeToken,
    parse_token,
    secret_fields,
    used_names,
)
from tarmac.api.status import NotFound
from tarmac.base.randomness import Randomness
from tarmac.cli.verbs.tokens import create_token
from tarmac.client.client import Client
from tarmac.client.targets.untyped import CERTIFICATE_REQUESTS, LOCATIONS, NODES, SECRETS
from tarmac.controllers.noderemoval import forget_node
from tarmac.http.authorities import key_hash, key_hashes, pinned
from tests.security.test_joining import asked, outcome
from tests.security.wire import KUBELET_SERVING, Wire, csr, csr_of, serving, signing_request, subject

REQUESTS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"


@pytest.fixture
async def wire(tmp_path: Path) -> AsyncGenerator[Wire]:
    async with serving(tmp_path) as running:
        await running.admin.resource(LOCATIONS).create(location_of("dfw", "DFW", "nodes"))
        yield running


async def used(admin: Client, token: NodeToken) -> set[str]:
    return set(used_names(secret_fields(await admin.resource(SECRETS).get(SECRET_PREFIX + token.id, "kube-system"))))


def reason(status: dict[str, list[dict[str, str]]]) -> str:
    return status["conditions"][0]["reason"]


async def test_of_twenty_machines_on_a_token_of_five_uses_five_join(wire: Wire) -> None:
    token = await create_token(wire.admin, "dfw", 5, 3600)
    names = [f"n{number}" for number in range(20)]
    found = await asyncio.gather(*(asked(wire, token.credential, name, f"csr-{name}") for name in names))
    joined = {name for name, status in zip(names, found, strict=True) if outcome(status)[0] == "Approved"}
    assert len(joined) == 5
    assert {reason(status) for status in found if outcome(status)[0] == "Denied"} == {"TokenUsedUp"}
    assert await used(wire.admin, token) == joined
    nodes = {each["metadata"]["name"] for each in (await wire.admin.resource(NODES).list()).items}
    assert nodes == joined, "no Node was made for a rejected machine"


async def test_a_stolen_token_is_worthless_after_its_uses(wire: Wire) -> None:
    token = await create_token(wire.admin, "dfw", 1, 3600)
    assert outcome(await asked(wire, token.credential, "mine", "mine")) == ("Approved", "AutoApproved")
    status = await asked(wire, token.credential, "thief", "theft")
    assert outcome(status) == ("Denied", "TokenUsedUp")
    assert f'token "{token.id}" is used up (1 of 1 uses)' in status["conditions"][0]["message"]


async def test_the_same_name_counts_once_and_a_request_that_fails_counts_not_at_all(wire: Wire) -> None:
    await wire.admin.resource(NODES).create({"metadata": {"name": "living"}})
    token = await create_token(wire.admin, "dfw", 1, 3600)
    for node, why in (("living", "NodeNameTaken"), ("Not_A_Name", "InvalidNode")):
        assert reason(await asked(wire, token.credential, node, f"csr-{why.lower()}")) == why
    assert await used(wire.admin, token) == set()
    for attempt in range(3):  # killed before its certificate was on disk
        assert outcome(await asked(wire, token.credential, "new", f"new-{attempt}"))[0] == "Approved"
    assert await used(wire.admin, token) == {"new"}


async def test_a_use_is_for_one_key(wire: Wire) -> None:
    """An attacker who reads the token of a joining machine gets no certificate of its name."""
    token = await create_token(wire.admin, "dfw", 1, 3600)
    assert outcome(await asked(wire, token.credential, "new", "mine"))[0] == "Approved"
    for attempt in range(3):
        stolen = await asked(wire, token.credential, "new", f"theft-{attempt}", ec.generate_private_key(ec.SECP256R1()))
        assert outcome(stolen) == ("Denied", "NodeNameTaken")
        assert "certificate" not in stolen
        assert f'token "{token.id}" was used for node "new" with another key' in stolen["conditions"][0]["message"]
        assert "kubectl delete node new" in stolen["conditions"][0]["message"]
    assert outcome(await asked(wire, token.credential, "new", "again"))[0] == "Approved"


async def test_a_use_is_for_one_key_after_its_node_was_deleted_too(wire: Wire) -> None:
    """Deleting a Node frees its name, but a token that was used for it does not sign the next key."""
    token, twice = await create_token(wire.admin, "dfw", 1, 3600), await create_token(wire.admin, "dfw", 2, 3600)
    for name, each in (("one", token), ("two", twice)):
        assert outcome(await asked(wire, each.credential, name, f"{name}-mine"))[0] == "Approved"
        await wire.admin.resource(NODES).delete(name)
    thief, other = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    assert outcome(await asked(wire, token.credential, "one", "theft", thief)) == ("Denied", "TokenUsedUp")
    assert outcome(await asked(wire, token.credential, "one", "again"))[0] == "Approved", "the key of the use"
    assert outcome(await asked(wire, twice.credential, "two", "second", other))[0] == "Approved", "its second use"
    assert reason(await asked(wire, twice.credential, "three", "third")) == "TokenUsedUp"


async def test_a_use_that_an_earlier_version_counted_gets_the_first_key(wire: Wire) -> None:
    token = await create_token(wire.admin, "dfw", 1, 3600)
    counted = {"data": {USED: base64.b64encode(json.dumps({"new": "2030-01-01T00:00:00Z"}).encode()).decode()}}
    await wire.admin.resource(SECRETS).patch(SECRET_PREFIX + token.id, counted, "kube-system")
    assert outcome(await asked(wire, token.credential, "new", "mine"))[0] == "Approved"
    await wire.admin.resource(NODES).delete("new")
    stolen = await asked(wire, token.credential, "new", "theft", ec.generate_private_key(ec.SECP256R1()))
    assert outcome(stolen) == ("Denied", "TokenUsedUp")


async def test_the_key_of_a_use_is_not_the_nodes_to_change(wire: Wire) -> None:
    token = await create_token(wire.admin, "dfw", 1, 3600)
    await asked(wire, token.credential, "new", "mine")
    for value in (None, "0" * 64):
        change = {"metadata": {"annotations": {KEY_OF_NODE: value}}}
        assert (await wire.node("new").patch("/api/v1/nodes/new", change)).status == 403


async def test_a_node_of_an_earlier_version_has_no_key_yet(wire: Wire) -> None:
    token = await create_token(wire.admin, "dfw", 1, 3600)
    await asked(wire, token.credential, "new", "mine")
    await wire.admin.resource(NODES).patch("new", {"metadata": {"annotations": {KEY_OF_NODE: None}}})
    await wire.admin.resource(SECRETS).patch(SECRET_PREFIX + token.id, {"data": {USED_KEYS: None}}, "kube-system")
    other = ec.generate_private_key(ec.SECP256R1())
    assert outcome(await asked(wire, token.credential, "new", "other", other))[0] == "Approved"


async def test_a_use_that_was_counted_before_a_kill_is_that_nodes_use(wire: Wire) -> None:
    """The controller was killed after it had counted the use, and before it created the Node."""
    token = await create_token(wire.admin, "dfw", 1, 3600)
    counted = {"data": {USED: base64.b64encode(json.dumps({"new": "2030-01-01T00:00:00Z"}).encode()).decode()}}
    await wire.admin.resource(SECRETS).patch(SECRET_PREFIX + token.id, counted, "kube-system")
    assert reason(await asked(wire, token.credential, "other", "other")) == "TokenUsedUp"
    assert outcome(await asked(wire, token.credential, "new", "new"))[0] == "Approved"


async def test_half_sent_join_requests_hold_no_use_of_the_token(wire: Wire) -> None:
    """A joiner that has shown its token and sends no request, or half of one."""
    token = await create_token(wire.admin, "dfw", 1, 3600)
    hanging = wire.attacker(token=token.credential)
    reader, writer = await asyncio.open_connection("127.0.0.1", wire.port, ssl=hanging.context)
    try:
        head = f"POST {REQUESTS} HTTP/1.1\r\nHost: s\r\nAuthorization: Bearer {token.credential}\r\n"
        writer.write(f"{head}Content-Type: application/json\r\nContent-Length: 4000\r\n\r\n{{".encode())
        await writer.drain()
        assert outcome(await asked(wire, token.credential, "other", "other")) == ("Approved", "AutoApproved")
    finally:
        writer.close()
    del reader


async def test_a_removed_nodes_token_does_not_bring_it_back(wire: Wire) -> None:
    token = await create_token(wire.admin, "dfw", 2, 3600)
    assert outcome(await asked(wire, token.credential, "lost", "lost"))[0] == "Approved"
    await forget_node(wire.admin, "lost")
    status = await asked(wire, token.credential, "lost", "again")
    assert outcome(status) == ("Denied", "TokenUsedUp")
    assert "was removed since" in status["conditions"][0]["message"]
    fresh = await create_token(wire.admin, "dfw", 1, 3600)
    assert outcome(await asked(wire, fresh.credential, "lost", "fresh"))[0] == "Approved"


async def test_a_nodes_certificate_gets_neither_another_nodes_nor_a_servers(wire: Wire) -> None:
    await wire.admin.resource(NODES).create({"metadata": {"name": "taken-over"}})
    node = wire.node("taken-over")
    other = signing_request(csr("system:node:other", "system:nodes"), name="other")
    server = signing_request(csr("kube-apiserver"), KUBELET_SERVING, name="server")
    served = signing_request(
        csr_of(
            subject((NameOID.ORGANIZATION_NAME, "system:nodes"), (NameOID.COMMON_NAME, "system:node:taken-over")),
            x509.DNSName("kubernetes"),
        ),
        KUBELET_SERVING,
        name="served",
    )
    for request in (other, server, served):
        assert (await node.post(REQUESTS, request)).status in (201, 403)
    assert await wire.undecided("other"), "only a person may approve it"
    for request in (other, server, served):
        try:
            found = await wire.admin.resource(CERTIFICATE_REQUESTS).get(request["metadata"]["name"])
        except NotFound:
            continue  # rejected at creation
        assert "certificate" not in (found.get("status") or {})
    handed_over = wire.attacker(token=(await create_token(wire.admin, "dfw", 1, 3600)).credential)
    assert (await handed_over.post("/tarmac/v1/servers", {})).status in (403, 404), "a token of a node joins no server"


async def test_a_token_whose_time_is_over_is_refused_and_goes(wire: Wire) -> None:
    token = await create_token(wire.admin, "dfw", 1, 0.5)
    secrets = wire.admin.resource(SECRETS)
    async with asyncio.timeout(10):
        while any(each["metadata"]["name"].endswith(token.id) for each in (await secrets.list("kube-system")).items):
            await asyncio.sleep(0.05)
    request = signing_request(csr("system:node:late", "system:nodes"))
    assert (await wire.attacker(token=token.credential).post(REQUESTS, request)).status == 401


async def test_a_request_of_a_token_that_ended_meanwhile_is_denied(wire: Wire) -> None:
    """Requested in time, decided too late: the extra of the request names the token."""
    token = await create_token(wire.admin, "dfw", 1, 3600)
    past = {"stringData": {"expiration": "2020-01-01T00:00:00Z", "usage-bootstrap-authentication": "true"}}
    await wire.admin.resource(SECRETS).patch(SECRET_PREFIX + token.id, past, "kube-system")
    impersonated = {
        "Impersonate-User": f"system:bootstrap:{token.id}",
        "Impersonate-Group": "system:bootstrappers",
        "Impersonate-Extra-tarmac.dev%2Ftoken": token.id,
    }
    admin = wire.attacker(wire.pki.admin())
    request = signing_request(csr("system:node:late", "system:nodes"), name="late")
    assert (await admin.post(REQUESTS, request, *impersonated.items())).status == 201
    assert outcome(await wire.decided("late")) == ("Denied", "TokenExpired")


async def test_anybody_may_see_the_authority_and_nothing_else(wire: Wire) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", wire.port, ssl=wire.attacker().context)
    writer.write(f"GET {AUTHORITIES_PATH} HTTP/1.1\r\nHost: s\r\nConnection: close\r\n\r\n".encode())
    shown = (await reader.read()).partition(b"\r\n\r\n")[2]
    writer.close()
    token = await create_token(wire.admin, "dfw", 1, 3600)
    assert key_hashes(shown) == [token.ca_hash] == [key_hash(wire.pki.ca_file.read_bytes())]
    assert pinned(shown, token.ca_hash) == wire.pki.ca_file.read_text()
    assert pinned(shown, "0" * 64) is None


def test_a_token_is_read_as_it_is_written_and_nothing_else_is_one() -> None:
    letters = Randomness(1).secret_letters
    token = NodeToken(letters(6), letters(16), "ab" * 32)
    assert parse_token(f" {token.text}\n") == token
    for bad in ("", token.credential, token.text.upper(), f"{token.text}0", token.text.replace("tarmac1", "tarmac2")):
        with pytest.raises(BadToken) as caught:
            parse_token(bad)
        assert token.secret not in str(caught.value)


def test_secret_letters_are_all_as_likely() -> None:
    drawn = Randomness(7).secret_letters(36_000)
    counts = [drawn.count(letter) for letter in "abcdefghijklmnopqrstuvwxyz0123456789"]
    assert sum(counts) == 36_000
    assert 850 < min(counts) <= max(counts) < 1150
