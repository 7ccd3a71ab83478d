"""A node obtains its certificates by itself, protects their keys, and renews them."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from tarmac.agent.config.configreader import BadConfig
from tarmac.agent.node.certificates.certificatefiles import PairFile, split_pair
from tarmac.agent.node.certificates.certificaterequests import (
    CLIENT_SIGNER,
    CertificateRefused,
    NodeCertificateSubject,
    obtain,
)
from tarmac.agent.node.certificates.cryptoprocess import CryptoError, CryptoRequest, run_crypto
from tarmac.agent.node.certificates.rotation import SPREAD, CertificateRotation
from tarmac.agent.node.identity import NodeIdentity
from tarmac.agent.node.servingcertificate import ServingCertificate
from tarmac.api.schema import JsonObject
from tarmac.api.status import Forbidden
from tarmac.apps.serverleases import Announcement
from tarmac.base.clock import ManualClock, SystemClock
from tarmac.base.randomness import Randomness
from tarmac.base.tasks import background
from tarmac.client.client import Client
from tarmac.client.http import HttpConfig, HttpTransport
from tarmac.client.kubeconfig import load, servers_extension
from tarmac.client.targets.untyped import CERTIFICATE_REQUESTS, NAMESPACES, NODES, PODS, SECRETS
from tarmac.client.transport import ClientRequest
from tarmac.http.bundles import authority_id, certificates_in
from tests.agent.node.settings import agent_config
from tests.client import backends

TOKEN_ID, TOKEN_SECRET = "abcdef", "0123456789abcdef"


@dataclass
class Cluster:
    """A server whose controllers approve and sign, an admin client, and a bootstrap token."""

    admin: Client
    http: HttpConfig

    def bootstrap_kubeconfig(self, file: Path) -> Path:
        cluster = {
            "server": self.http.url,
            "certificate-authority-data": base64.b64encode((self.http.ca or "").encode()).decode(),
        }
        document = {
            "clusters": [{"name": "c", "cluster": cluster}],
            "users": [{"name": "u", "user": {"token": f"{TOKEN_ID}.{TOKEN_SECRET}"}}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "x",
        }
        file.write_text(json.dumps(document))
        return file


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncGenerator[Cluster]:
    async with AsyncExitStack() as stack:
        directory = tmp_path / "server"
        await stack.enter_async_context(backends.our_server(directory))
        http = load(str(directory / "kubeconfig")).http
        admin = Client(HttpTransport(http))
        stack.push_async_callback(admin.close)
        data = {
            "token-id": TOKEN_ID,
            "token-secret": TOKEN_SECRET,
            "usage-bootstrap-authentication": "true",
            "auth-extra-groups": "system:bootstrappers:kubeadm:default-node-token",
        }
        secret: JsonObject = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": f"bootstrap-token-{TOKEN_ID}", "namespace": "kube-system"},
            "type": "bootstrap.kubernetes.io/token",
            "stringData": data,
        }
        await admin.resource(SECRETS).create(secret)
        yield Cluster(admin, http)


async def joined(cluster: Cluster, root: Path) -> tuple[NodeIdentity, Client]:
    file = cluster.bootstrap_kubeconfig(root / "bootstrap")
    config = agent_config(root, bootstrap_kubeconfig=file)
    identity = NodeIdentity(config, SystemClock(), Randomness())
    return identity, await identity.client()


async def test_a_token_is_traded_for_a_certificate(cluster: Cluster, tmp_path: Path) -> None:
    _, client = await joined(cluster, tmp_path)
    try:
        made = await client.resource(NODES).get("dfw-0")
        assert made["metadata"]["annotations"]["tarmac.dev/token"] == TOKEN_ID
        await client.resource(NODES).patch("dfw-0", {"metadata": {"labels": {"example.com/rack": "4"}}})
        with pytest.raises(Forbidden):
            await client.resource(SECRETS).list("kube-system")
        with pytest.raises(Forbidden):
            await client.resource(PODS).delete_collection("default")
    finally:
        await client.close()
    pair = tmp_path / "pki/kubelet-client-current.pem"
    assert pair.stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "kubeconfig").stat().st_mode & 0o777 == 0o600
    assert (load(str(tmp_path / "kubeconfig")).http.certificate or "none") in pair.read_text()


@pytest.mark.parametrize("written", [False, True], ids=["before the certificate", "before the kubeconfig"])
async def test_an_agent_that_is_killed_on_its_way_in_asks_with_the_same_key(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: bool
) -> None:
    """The token is valid for one key, so a request with a new key would be refused."""

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        if written:
            patched.setattr("tarmac.agent.node.identity._kubeconfig", killed)
        else:
            patched.setattr("tarmac.agent.node.certificates.certificatefiles.PairFile.write", killed)
        with pytest.raises(KeyboardInterrupt):
            await joined(cluster, tmp_path)
    kept = tmp_path / "pki/bootstrap.key"
    key = kept.read_text()
    assert kept.stat().st_mode & 0o777 == 0o600
    _, client = await joined(cluster, tmp_path)
    await client.close()
    assert key in (tmp_path / "pki/kubelet-client-current.pem").read_text()
    assert not kept.exists()


async def test_with_a_kubeconfig_there_is_no_second_bootstrap(cluster: Cluster, tmp_path: Path) -> None:
    for _ in range(2):
        _, client = await joined(cluster, tmp_path)
        await client.close()
    assert len((await cluster.admin.resource(CERTIFICATE_REQUESTS).list()).items) == 1


async def test_a_node_knows_every_server_now_and_at_its_next_start(cluster: Cluster, tmp_path: Path) -> None:
    """The list comes from the bootstrap kubeconfig, then from `default/kubernetes`; a renewed certificate keeps it."""
    file = cluster.bootstrap_kubeconfig(tmp_path / "bootstrap")
    document = json.loads(file.read_text())
    url = document["clusters"][0]["cluster"]["server"]
    document["clusters"][0]["cluster"]["extensions"] = servers_extension([url, "https://192.0.2.9:6443"])
    file.write_text(json.dumps(document))
    identity = NodeIdentity(agent_config(tmp_path, bootstrap_kubeconfig=file), SystemClock(), Randomness())
    client = await identity.client()
    try:
        assert load(str(tmp_path / "kubeconfig")).http.servers == (url, "https://192.0.2.9:6443")
        await Announcement(cluster.admin, ["192.0.2.1", "192.0.2.2"], 6443).announce()
        async with background(identity.follow_servers(), "servers"):
            wanted = (url, "https://192.0.2.1:6443", "https://192.0.2.2:6443")
            while load(str(tmp_path / "kubeconfig")).http.servers != wanted:
                await asyncio.sleep(0.02)
        assert identity.http.certificate is not None
        identity._changed(identity.http.certificate, identity.http.key or "")
        assert identity._transport.config.servers == wanted
        assert (await client.resource(NODES).get("dfw-0"))["metadata"]["name"] == "dfw-0"
    finally:
        await client.close()
    assert (tmp_path / "kubeconfig").stat().st_mode & 0o777 == 0o600


async def test_no_kubeconfig_and_no_way_to_get_one(tmp_path: Path) -> None:
    with pytest.raises(BadConfig, match="give --bootstrap-kubeconfig"):
        await NodeIdentity(agent_config(tmp_path), SystemClock(), Randomness()).client()


async def test_a_renewed_certificate_is_used_at_once_and_after_a_restart(cluster: Cluster, tmp_path: Path) -> None:
    identity, client = await joined(cluster, tmp_path)
    try:
        certificate, key = await obtain(client, CLIENT_SIGNER, NodeCertificateSubject("dfw-0"))
        PairFile(tmp_path / "pki", "kubelet-client", SystemClock()).write(certificate, key)
        identity._changed(certificate, key)
        assert (await client.get_json("/version"))["major"] == "1"
    finally:
        await client.close()
    # the embedded certificate is older, so the renewed one counts
    old = load(str(tmp_path / "kubeconfig")).http
    assert old.certificate is not None
    again = NodeIdentity(agent_config(tmp_path), SystemClock(), Randomness())
    shorter = await run_crypto(CryptoRequest("self-signed", "system:node:dfw-0", starts=0.0, ends=1.0))
    found = await again._newest(replace(old, certificate=shorter.certificate, key=shorter.key))
    assert found.certificate is not None
    assert found.certificate.strip() == certificate.strip()


async def test_a_denied_request_is_told_in_the_words_of_who_denied_it(cluster: Cluster) -> None:
    requests = cluster.admin.resource(CERTIFICATE_REQUESTS)
    asking = asyncio.ensure_future(obtain(cluster.admin, "example.com/nobody", NodeCertificateSubject("dfw-0")))
    while not (found := (await requests.list()).items):
        await asyncio.sleep(0.02)
    condition = {"type": "Denied", "status": "True", "reason": "No", "message": "not today"}
    await requests.update({**found[0], "status": {"conditions": [condition]}}, subresource="approval")
    with pytest.raises(CertificateRefused, match="Denied: No: not today"):
        await asking


class Hasty(SystemClock):
    """Sleeps at most 50 ms."""

    async def sleep(self, seconds: float) -> None:
        await super().sleep(min(seconds, 0.05))


class Lowest(Randomness):
    """Draws the lowest value, so that nothing is delayed."""

    def uniform(self, a: float, b: float) -> float:
        return a


@pytest.mark.timeout(120)
async def test_a_node_follows_when_the_authority_is_rotated(cluster: Cluster, tmp_path: Path) -> None:
    """The node trusts both authorities, renews its certificate, and stays authenticated when the old one is retired.

    A watch that an administrator opened before goes on until then, on its connection.
    """
    file = cluster.bootstrap_kubeconfig(tmp_path / "bootstrap")
    document = json.loads(file.read_text())
    place = document["clusters"][0]["cluster"]
    place["extensions"] = servers_extension([place["server"]])
    file.write_text(json.dumps(document))
    identity = NodeIdentity(agent_config(tmp_path, bootstrap_kubeconfig=file), Hasty(), Lowest())
    client = await identity.client()
    told: list[str] = []
    identity.on_trust(lambda: told.append(identity.trusts()))

    async def rotate(**body: Any) -> Any:
        answer = await cluster.admin.call("POST", "/tarmac/v1/rotations/ca", body=json.dumps(body).encode())
        return json.loads(answer.body)

    async def until(done: Callable[[], bool]) -> None:
        async with asyncio.timeout(40):
            while not done():
                await asyncio.sleep(0.02)

    try:
        async with (
            background(identity.run(), "certificate"),
            background(identity.follow_authorities(), "authorities"),
            cluster.admin.transport.stream(
                ClientRequest("GET", "/api/v1/namespaces", "watch=1", {}, b"", 60.0)
            ) as watch,
        ):
            await until(lambda: bool(told))
            (old,) = certificates_in(identity.http.ca or "")
            assert told[0].split() == [f"ca:{authority_id(old)}", f"own:{authority_id(old)}"]
            await rotate(action="begin")
            await until(lambda: len(certificates_in(identity.http.ca or "")) == 2)
            await until(lambda: certificates_in(identity.http.ca or "")[0] != old)
            new = certificates_in(identity.http.ca or "")[0]
            await until(lambda: f"own:{authority_id(new)}" in identity.trusts().split())
            made = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "after-the-switch"}}
            await cluster.admin.resource(NAMESPACES).create(made)
            async with asyncio.timeout(20):
                async for chunk in watch.chunks:
                    if b"after-the-switch" in chunk:
                        break
            retired = await rotate(action="retire", force=True)
            assert retired["stage"] == "settled"
            await until(lambda: certificates_in(load(str(tmp_path / "kubeconfig")).http.ca or "") == [new])
            assert (await client.resource(NODES).get("dfw-0"))["metadata"]["name"] == "dfw-0"
            assert identity.trusts().split() == [f"ca:{authority_id(new)}", f"own:{authority_id(new)}"]
    finally:
        await client.close()


async def test_a_certificate_of_an_authority_that_no_longer_signs_is_renewed_within_minutes(tmp_path: Path) -> None:
    clock = ManualClock(1_800_000_000.0)
    first = await run_crypto(CryptoRequest("self-signed", "n", starts=clock.now(), ends=clock.now() + 1_000_000))
    outdated = set[str]()
    obtained = list[float]()

    async def obtain() -> tuple[str, str]:
        obtained.append(clock.now())
        outdated.clear()
        return first.certificate, first.key

    file = PairFile(tmp_path, "pair", clock)
    rotation = CertificateRotation(
        file, obtain, lambda *_: None, clock, Randomness(1), lambda issuer: issuer in outdated
    )
    async with background(rotation.run(first.certificate), "rotation"):
        while not rotation.issuer:
            await asyncio.sleep(0.01)
        for _ in range(60):
            clock.advance(60)
            await asyncio.sleep(0)
        assert obtained == []
        outdated.add(rotation.issuer)
        began = clock.now()
        while not obtained:
            clock.advance(10)
            await asyncio.sleep(0)
    assert 0 < obtained[0] - began <= SPREAD + 60 + 10


async def test_a_certificate_is_renewed_between_seven_and_nine_tenths_of_its_life(tmp_path: Path) -> None:
    clock = ManualClock(1_800_000_000.0)
    first = await run_crypto(CryptoRequest("self-signed", "n", starts=clock.now(), ends=clock.now() + 1000))
    obtained = asyncio.Event()
    at: list[float] = []

    async def obtain() -> tuple[str, str]:
        at.append(clock.now())
        obtained.set()
        second = await run_crypto(CryptoRequest("self-signed", "n", starts=clock.now(), ends=clock.now() + 10_000))
        return second.certificate, second.key

    heard: list[str] = []
    file = PairFile(tmp_path, "pair", clock)
    rotation = CertificateRotation(file, obtain, lambda certificate, _: heard.append(certificate), clock, Randomness(1))
    work = asyncio.ensure_future(rotation.run(first.certificate))
    while not obtained.is_set():
        clock.advance(10)
        await asyncio.sleep(0.01)
    while not heard:
        await asyncio.sleep(0.01)
    work.cancel()
    await asyncio.wait((work,))
    assert at[0] - 1_800_000_000.0 >= 700
    assert split_pair(file.read())[0].strip() == heard[0].strip()


async def test_a_clock_far_ahead_of_the_servers_asks_now_and_then_only(tmp_path: Path) -> None:
    """To this clock every new certificate looks expired."""
    clock = ManualClock(1_800_000_000.0)
    first = await run_crypto(CryptoRequest("self-signed", "n", starts=clock.now(), ends=clock.now() + 1000))
    asked = 0

    async def obtain() -> tuple[str, str]:
        nonlocal asked
        asked += 1
        made = await run_crypto(CryptoRequest("self-signed", "n", starts=1_800_000_000.0, ends=1_800_001_000.0))
        return made.certificate, made.key

    clock.jump(10 * 365 * 24 * 3600.0)
    rotation = CertificateRotation(PairFile(tmp_path, "pair", clock), obtain, lambda *_: None, clock, Randomness(1))
    work = asyncio.ensure_future(rotation.run(first.certificate))
    for times in (1, 2, 3):
        async with asyncio.timeout(20):
            while not clock._sleepers:  # pyright: ignore[reportPrivateUsage]
                await asyncio.sleep(0.01)
        assert asked == times, "it waits after each request"
        clock.advance(600)
    work.cancel()
    await asyncio.wait((work,))


async def test_only_the_last_two_pairs_are_kept(tmp_path: Path) -> None:
    clock = ManualClock()
    file = PairFile(tmp_path, "pair", clock)
    for number in range(4):
        file.write(f"certificate {number}", "-----BEGIN PRIVATE KEY-----")
        clock.advance(5)
    assert len(list(tmp_path.glob("pair-2*.pem"))) == 2
    assert file.read().startswith("certificate 3")


async def test_serving_starts_with_a_certificate_of_its_own_and_gets_the_clusters(
    cluster: Cluster, tmp_path: Path
) -> None:
    _, client = await joined(cluster, tmp_path)
    addresses = [{"type": "InternalIP", "address": "10.0.0.7"}, {"type": "Hostname", "address": "dfw-0"}]
    try:
        status = {"status": {"addresses": addresses}}
        created = await client.resource(NODES).patch("dfw-0", status, subresource="status")
        serving = ServingCertificate(client, agent_config(tmp_path), lambda: created)
        await serving.prepare(addresses)
        assert serving.certificate.name == "kubelet-self-signed-current.pem"
        changed = asyncio.Event()
        serving.on_change(changed.set)
        work = asyncio.ensure_future(serving.run())
        async with asyncio.timeout(20):
            await changed.wait()
        work.cancel()
        await asyncio.wait((work,))
        seen = await run_crypto(CryptoRequest("inspect", pem=serving.certificate.read_text()))
        assert set(seen.names) == {"10.0.0.7", "dfw-0"}
        again = ServingCertificate(client, agent_config(tmp_path), lambda: created)
        await again.prepare(addresses)
        assert again.certificate.name == "kubelet-server-current.pem"
        await again.prepare([*addresses, {"type": "InternalIP", "address": "10.0.0.8"}])
        assert again.certificate.name == "kubelet-self-signed-current.pem"
    finally:
        await client.close()


async def test_an_invalid_certificate_raises_a_crypto_error() -> None:
    with pytest.raises(CryptoError):
        await run_crypto(CryptoRequest("inspect", pem="nonsense"))
