"""`tarmac join --server`: the holder of a server token gets the keys, once, sealed for this holder alone."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from tarmac.api.networking.cities import location_of
from tarmac.api.nodetokens import SECRET_PREFIX, SERVERS_GROUP, SERVERS_PATH, USED, NodeToken, token_secret
from tarmac.api.schema import JsonObject
from tarmac.api.status import AlreadyExists, ApiError, Conflict, Forbidden
from tarmac.apps.host.configuration import documents_in
from tarmac.apps.host.hostlayout import SetupFailed
from tarmac.apps.host.hostservices import running
from tarmac.apps.host.serverjoining import store_keys
from tarmac.apps.processes import end
from tarmac.base.clock import SystemClock, rfc3339
from tarmac.cli.verbs.tokens import create_token
from tarmac.client.client import Client
from tarmac.client.http import HttpConfig, HttpTransport
from tarmac.client.kubeconfig import load
from tarmac.client.targets.untyped import EVENTS, LOCATIONS, NODES, SECRETS
from tarmac.http.authorities import key_hash
from tarmac.server.security.certificates.pki import Pki
from tarmac.server.security.keys.handover import BadSeal, Purpose, Sealed, unseal
from tests.apps.server_joining_process import machine_in
from tests.soak import SOAK
from tests.store.conftest import ETCDS, etcd_binary
from tests.support.etcd import EtcdCluster
from tests.support.ports import free_ports
from tests.support.tarmac_process import TarmacProcess

CLOCK = SystemClock()
ONLY = "only a server token may join a server"
STEPS = ("checks", "hand-over", "keys", "configuration", "server", "ready")
TIMES = 3 if SOAK else 1


class Planet:
    """A server on etcd, and its administrator."""

    def __init__(self, server: TarmacProcess) -> None:
        self.server = server
        self.config = load(str(server.kubeconfig)).http
        self.pki = Pki(server.data_dir / "pki", CLOCK)
        self.admin = Client(HttpTransport(self.config))

    def as_(self, **credentials: Any) -> Client:
        return Client(HttpTransport(HttpConfig(self.config.url, ca=self.config.ca, **credentials)))

    async def token(self, location: str = "") -> NodeToken:
        return await create_token(self.admin, location, 1, 3600.0)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TarmacProcess]:
    etcd = EtcdCluster(etcd_binary(ETCDS[-1]), tmp_path_factory.mktemp("etcd"))
    etcd.start()
    store = f"etcd://{etcd.endpoints[0]}?prefix=/servers&compact=0"
    try:
        with TarmacProcess(tmp_path_factory.mktemp("one") / "data", f"--store={store}") as process:
            yield process
    finally:
        etcd.stop()


@pytest.fixture
async def planet(server: TarmacProcess) -> AsyncIterator[Planet]:
    planet = Planet(server)
    yield planet
    await planet.admin.close()


def request_of(key: X25519PrivateKey, name: str = "two") -> bytes:
    public = base64.b64encode(key.public_key().public_bytes_raw()).decode()
    return msgspec.json.encode({"name": name, "addresses": ["192.0.2.7"], "publicKey": public, "version": "0.2.0"})


async def ask(client: Client, body: bytes, headers: dict[str, str] | None = None) -> Sealed:
    try:
        sent = {"accept": "application/json", "content-type": "application/json", **(headers or {})}
        fields = json.loads((await client.call("POST", SERVERS_PATH, body=body, headers=sent)).body)
        return Sealed(base64.b64decode(fields["publicKey"]), base64.b64decode(fields["sealed"]))
    finally:
        await client.close()


async def refused(client: Client, says: str, body: bytes = b"", headers: dict[str, str] | None = None) -> None:
    with pytest.raises(Forbidden) as caught:
        await ask(client, body or request_of(X25519PrivateKey.generate()), headers)
    assert caught.value.message == says


async def test_a_server_token_opens_everything_once_for_its_holder(planet: Planet) -> None:
    """The same name and key may ask again; no other key opens the recorded response."""
    token, key = await planet.token(), X25519PrivateKey.generate()
    purpose = Purpose(token.id, token.secret, "two")
    first = await ask(planet.as_(token=token.credential), request_of(key))
    again = await ask(planet.as_(token=token.credential), request_of(key))
    content = json.loads(unseal(first, key, purpose))
    assert json.loads(unseal(again, key, purpose)) == content
    assert again != first, "each is sealed by a key of its own"
    assert content["pki"]["ca.key"] == (planet.server.data_dir / "pki" / "ca.key").read_text()
    assert not [name for name in content["pki"] if name.startswith("server.")]
    assert content["secrets.key"] == (planet.server.data_dir / "secrets.key").read_text()
    assert content["store"]["url"].startswith("etcd://")
    for other, meant in (
        (X25519PrivateKey.generate(), purpose),
        (key, purpose._replace(secret="0" * 16)),
        (key, purpose._replace(name="three")),
        (key, purpose._replace(token="zzzzzz")),
    ):
        with pytest.raises(BadSeal):
            unseal(first, other, meant)
    with pytest.raises(BadSeal):
        unseal(first._replace(content=first.content[:-1] + bytes([first.content[-1] ^ 1])), key, purpose)
    used_up = f'token "{token.id}" is used up'
    await refused(planet.as_(token=token.credential), used_up)
    await refused(planet.as_(token=token.credential), used_up, request_of(key, "three"))
    await _told(planet, token, key)
    await _later(planet, token)
    await refused(planet.as_(token=token.credential), used_up, request_of(key))


async def _told(planet: Planet, token: NodeToken, key: X25519PrivateKey) -> None:
    """The Secret, an Event and the audit log name the keys and their recipient; none contains a secret."""
    mark = f"sha256:{sha256(key.public_key().public_bytes_raw()).hexdigest()}"
    events = (await planet.admin.resource(EVENTS).list("kube-system", fields="reason=ServerHandOver")).items
    said = [each["message"] for each in events if each["involvedObject"]["name"] == SECRET_PREFIX + token.id]
    assert f"pki, secrets.key, store to two {mark}" in said[0]
    audit = ""
    for _ in range(40):
        audit = (planet.server.data_dir / "audit.log").read_text()
        if mark in audit:
            break
        await CLOCK.sleep(0.1)
    lines = [json.loads(line) for line in audit.splitlines() if mark in line]
    assert lines[0]["annotations"] == {"tarmac.dev/handed-over": f"pki, secrets.key, store to two {mark}"}
    assert token.secret not in audit
    assert token.secret not in planet.server.log.read_text()


async def _later(planet: Planet, token: NodeToken) -> None:
    """Let eleven minutes pass for the token."""
    secrets = planet.admin.resource(SECRETS)
    secret = await secrets.get(SECRET_PREFIX + token.id, "kube-system")
    [(name, value)] = json.loads(base64.b64decode(secret["data"][USED])).items()
    earlier = {name: f"{rfc3339(CLOCK.now() - 660)} {value.partition(' ')[2]}"}
    secret["data"][USED] = base64.b64encode(json.dumps(earlier).encode()).decode()
    await secrets.update(secret)


async def test_nobody_else_becomes_a_server(planet: Planet) -> None:
    """Tests a node's certificate, the administrator, a node's token in every notation, and impersonation."""
    with suppress(AlreadyExists):
        await planet.admin.resource(LOCATIONS).create(location_of("dfw", "DFW", "nodes"))
    node = planet.pki.node("n1")
    await refused(planet.as_(certificate=node.certificate.decode(), key=node.key.decode()), ONLY)
    admin = {"certificate": planet.config.certificate, "key": planet.config.key}
    await refused(planet.as_(**admin), ONLY)
    token = await planet.token("dfw")
    await refused(planet.as_(token=token.credential), ONLY)
    forged = NodeToken("forged", "0123456789abcdef", token.ca_hash)
    secret = token_secret(forged, "dfw", 1, rfc3339(CLOCK.now() + 600))
    secret["stringData"]["auth-extra-groups"] = SERVERS_GROUP
    await planet.admin.resource(SECRETS).create(secret)
    await refused(planet.as_(token=forged.credential), ONLY)
    good = await planet.token()
    acting = {"impersonate-user": f"system:bootstrap:{good.id}", "impersonate-group": SERVERS_GROUP}
    await refused(planet.as_(**admin), ONLY, headers=acting)
    named = planet.pki.client(f"system:bootstrap:{token.id}", (SERVERS_GROUP,))
    await refused(planet.as_(certificate=named.certificate.decode(), key=named.key.decode()), ONLY)


async def test_a_server_token_is_good_for_nothing_else_and_not_for_long(planet: Planet) -> None:
    token = await planet.token()
    client = planet.as_(token=token.credential)
    for path in ("/api/v1/nodes", "/apis/certificates.k8s.io/v1/certificatesigningrequests"):
        with pytest.raises(Forbidden):
            await client.call("GET", path)
        with pytest.raises(Forbidden):
            await client.call("POST", path, body=b"{}")
    await client.close()
    lasting = NodeToken("lastin", "0123456789abcdef", token.ca_hash)
    await planet.admin.resource(SECRETS).create(token_secret(lasting, "", 1, rfc3339(CLOCK.now() + 86400)))
    says = "a server token ends within an hour: make one with `tarmac token create --server`"
    await refused(planet.as_(token=lasting.credential), says)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"name": "Two!"}, "name: "),
        ({"publicKey": "AAAA"}, "publicKey: must be 32 bytes in base64"),
        ({"publicKey": base64.b64encode(bytes(32)).decode()}, "publicKey: is no key"),
        ({"addresses": ["x"] * 17}, "addresses: at most 16"),
        ({"addresses": "x"}, "the body: "),
    ],
)
async def test_contradictory_flags_are_refused(planet: Planet, change: JsonObject, says: str) -> None:
    token = await planet.token()
    body = json.loads(request_of(X25519PrivateKey.generate())) | change
    with pytest.raises(ApiError) as caught:
        await ask(planet.as_(token=token.credential), json.dumps(body).encode())
    assert caught.value.http_code == 400
    assert caught.value.message.startswith(says)


async def test_sqlite_is_one_servers(tmp_path: Path) -> None:
    with TarmacProcess(tmp_path / "data") as server:
        planet = Planet(server)
        token = await planet.token()
        with pytest.raises(Conflict) as caught:
            await ask(planet.as_(token=token.credential), request_of(X25519PrivateKey.generate()))
        says = "the server uses SQLite, which one server can use: tarmac store migrate --to etcd://… first"
        assert caught.value.message == says
        secret = await planet.admin.resource(SECRETS).get(SECRET_PREFIX + token.id, "kube-system")
        assert base64.b64decode(secret["data"][USED]) == b"{}", "it can still be used"
        await planet.admin.close()


class Joining:
    """A machine below a folder."""

    def __init__(self, folder: Path, planet: Planet) -> None:
        self.machine = machine_in(folder)
        self.folder = folder
        self.address = planet.server.authority
        self.listen = f"127.0.0.1:{free_ports(1)[0]}"

    def start(self, token: NodeToken, listen: str = "") -> subprocess.Popen[str]:
        words = [str(self.folder), self.address, token.text, listen or self.listen]
        command = [sys.executable, "-m", "tests.apps.server_joining_process", *words]
        return subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def kill_at(self, token: NodeToken, step: str) -> None:
        process = self.start(token)
        assert process.stderr is not None
        reached = any(line == f"tarmac: {step}\n" for line in process.stderr)
        process.kill()
        process.communicate()
        assert reached, f"it never came to {step}"

    def until_serves(self, process: subprocess.Popen[str]) -> None:
        """Wait until it reports this."""
        assert process.stdout is not None
        assert "joined as server two" in process.stdout.readline()


@pytest.mark.root
@pytest.mark.soak(minutes=0.5)
@pytest.mark.parametrize("time", range(TIMES))
async def test_killed_at_every_step_the_same_command_goes_on(planet: Planet, tmp_path: Path, time: int) -> None:
    """One token, one machine, a kill at each named step; in the end the new server serves the objects of the first."""
    joining, token = Joining(tmp_path, planet), await planet.token()
    machine = joining.machine
    process: subprocess.Popen[str] | None = None
    try:
        for step in STEPS:
            joining.kill_at(token, step)
            if running(machine, "server"):
                assert documents_in(machine.config)["ServerConfig"]["store"].startswith("etcd://")
        process = joining.start(token)
        joining.until_serves(process)
        assert not (machine.data / "join.key").exists()
        second = Client(HttpTransport(load(str(machine.data / "kubeconfig")).http))
        node: JsonObject = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": f"shared-{time}"}}
        made = await second.resource(NODES).create(node)
        found = await planet.admin.resource(NODES).get(f"shared-{time}")
        assert found["metadata"]["uid"] == made["metadata"]["uid"]
        await second.close()
    finally:
        if process is not None:
            process.terminate()
            process.communicate()
        await end(running(machine, "server"))
    assert (machine.data / "pki" / "ca.key").stat().st_mode & 0o077 == 0
    assert (machine.data / "secrets.key").stat().st_mode & 0o077 == 0


@pytest.mark.root
async def test_refusals_are_told_in_words_and_nothing_is_made(planet: Planet, tmp_path: Path) -> None:
    """A node's token, a used one, and one of another cluster."""
    with suppress(AlreadyExists):
        await planet.admin.resource(LOCATIONS).create(location_of("dfw", "DFW", "nodes"))
    used = await planet.token()
    await ask(planet.as_(token=used.credential), request_of(X25519PrivateKey.generate(), "another"))
    node, gone = await planet.token("dfw"), NodeToken("gonego", "0123456789abcdef", used.ca_hash)
    for token, code, says in (
        (node, 1, ONLY),
        (used, 1, f'token "{used.id}" is used up'),
        (gone, 1, 'the server does not know token "gonego": it expired or was deleted; make another one'),
        (used._replace(ca_hash="0" * 64), 1, "nothing was sent to it"),
    ):
        joining = Joining(tmp_path, planet)
        process = joining.start(token, "127.0.0.1:1")
        _, said = process.communicate(timeout=60)
        assert process.returncode == code, said
        assert says in said
        assert not (joining.machine.data / "pki").exists()
        assert not joining.machine.config.exists()


def test_handed_over_keys_are_written_to_their_files_only(tmp_path: Path) -> None:
    """The files that the store's URL names are copied to places of our own; a name that leads elsewhere is rejected."""
    pki = Pki(tmp_path / "theirs", CLOCK)
    files = {name: (tmp_path / "theirs" / name).read_text() for name in ("ca.crt", "ca.key", "sa.key")}
    named = {each: base64.b64encode(each.encode()).decode() for each in ("cacert", "cert", "key")}
    url = "etcd://10.0.0.1:2379?cacert=/etc/ca.crt&cert=/etc/c.crt&key=/etc/c.key"
    content = {"pki": files, "secrets.key": "key1 x\n", "store": {"url": url, "files": named}}
    machine, ca_hash = machine_in(tmp_path), key_hash(pki.ca_file.read_bytes())
    machine.data.mkdir()
    for name in ("../up", "/etc/passwd", "a/b", "..", ".hidden", ""):
        for strange in (
            {**content, "pki": {**files, name: "x"}},
            {**content, "store": {"url": url, "files": {name: "eA=="}}},
        ):
            with pytest.raises(SetupFailed, match="nothing was written"):
                store_keys(machine, strange, ca_hash)
    with pytest.raises(SetupFailed, match="another authority"):
        store_keys(machine, content, "0" * 64)
    assert list(machine.data.iterdir()) == []
    folder = machine.data / "etcd"
    assert store_keys(machine, content, ca_hash) == (
        f"etcd://10.0.0.1:2379?cacert={folder}/cacert&cert={folder}/cert&key={folder}/key"
    )
    assert (folder / "key").read_bytes() == b"key"
    assert [path for path in machine.data.rglob("*") if path.is_file() and path.stat().st_mode & 0o077] == []
