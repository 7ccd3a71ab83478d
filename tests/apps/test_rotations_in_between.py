"""A rotation is between two stages while a backup is made and restored, or another server joins.

The result has every key: certificates of both authorities, tokens of both keys and Secrets encrypted by either key are
valid, and the rotation continues from its stage.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tarmac.api.schema import JsonObject
from tarmac.api.status import Forbidden, NotFound, Unauthorized
from tarmac.apps.host.hostservices import running
from tarmac.apps.processes import end
from tarmac.client.client import Client
from tarmac.client.errors import ClientError
from tarmac.client.http import HttpConfig, HttpTransport
from tarmac.client.kubeconfig import load
from tarmac.client.targets.untyped import LEASES, SECRETS, SERVICE_ACCOUNTS
from tarmac.http.bundles import certificates_in
from tarmac.server.security.keys.encryption import read_keys
from tests.apps.test_backups import tarmac
from tests.apps.test_one_more_server import Joining, Planet
from tests.store.conftest import ETCDS, etcd_binary
from tests.support.etcd import EtcdCluster
from tests.support.tarmac_process import TarmacProcess

HASTY = Path(__file__).parents[1] / "support" / "hasty"
KINDS = {"ca": "signing", "tokens": "signing", "encryption": "sealed"}
"""Stages that wait for `--retire`, by kind."""
ELSEWHERE = "apiserver-elsewhere"


@pytest.fixture(autouse=True)
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(HASTY))


@asynccontextmanager
async def connected(http: HttpConfig) -> AsyncGenerator[Client]:
    client = Client(HttpTransport(http))
    try:
        yield client
    finally:
        await client.close()


class Somebody:
    """Credentials of a user from one moment: a kubeconfig, and a token of a service account."""

    def __init__(self, http: HttpConfig, token: str) -> None:
        self._http, self._token = http, token

    async def is_known(self, url: str) -> bool:
        """Return whether a server accepts both. An old kubeconfig trusts only the authorities of its time."""
        by_certificate = replace(self._http, url=url, servers=())
        try:
            async with connected(by_certificate) as client:
                await client.call("GET", "/api/v1/namespaces")
            async with connected(HttpConfig(url, ca=self._http.ca, token=self._token)) as client:
                with pytest.raises(Forbidden):  # known, and without rights
                    await client.call("GET", "/api/v1/namespaces")
        except (Unauthorized, ClientError):
            return False
        return True


class Cluster:
    """A server, by its kubeconfig, and its rotations."""

    def __init__(self, kubeconfig: Path) -> None:
        self._http = replace(load(str(kubeconfig)).http, servers=())
        self.url = self._http.url

    async def somebody(self, name: str) -> Somebody:
        """Issue credentials, and create a Secret."""
        metadata = {"name": name, "namespace": "default"}
        secret: JsonObject = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": {"word": name}}
        app: JsonObject = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        async with connected(self._http) as admin:
            await admin.resource(SECRETS).create(secret)
            accounts = admin.resource(SERVICE_ACCOUNTS)
            await accounts.create(app)
            made = await accounts.create(request, namespace="default", name=name, subresource="token")
        return Somebody(self._http, made["status"]["token"])

    async def secrets(self) -> list[str]:
        async with connected(self._http) as admin:
            return [each["metadata"]["name"] for each in (await admin.resource(SECRETS).list("default")).items]

    async def rotate(self, what: str, **body: Any) -> Any:
        """Request an action, or the status."""
        async with connected(self._http) as admin:
            method = "POST" if body else "GET"
            answer = await admin.call(method, f"/tarmac/v1/rotations/{what}", body=json.dumps(body).encode())
            return json.loads(answer.body)

    async def stages(self) -> dict[str, str]:
        return {what: (await self.rotate(what))["stage"] for what in KINDS}

    async def begin_and_stand(self) -> None:
        """Another server does not report the new keys, so the rotation stays at its stage."""
        spec = {"holderIdentity": "elsewhere", "leaseDurationSeconds": 3600}
        labels = {"apiserver.kubernetes.io/identity": "tarmac-server"}
        metadata = {"name": ELSEWHERE, "namespace": "kube-system", "labels": labels}
        async with connected(self._http) as admin:
            lease: JsonObject = {"apiVersion": LEASES.api_version, "kind": LEASES.kind}
            await admin.resource(LEASES).create({**lease, "metadata": metadata, "spec": spec})
        for what in KINDS:
            found = await self.rotate(what, action="begin")
            assert found["stage"] == "trusted"
            assert "server elsewhere" in found["waiting"]

    async def go_on(self) -> None:
        async with connected(self._http) as admin:
            with suppress(NotFound):
                await admin.resource(LEASES).delete(ELSEWHERE, "kube-system")
        async with asyncio.timeout(60):
            while await self.stages() != KINDS:
                await asyncio.sleep(0.1)

    async def retire(self) -> None:
        for what in ("encryption", "tokens", "ca"):  # the last one may invalidate the caller's credentials
            assert (await self.rotate(what, action="retire", force=True))["stage"] == "settled"


@pytest.mark.timeout(120)
@pytest.mark.parametrize("switched", [False, True], ids=["trusted", "switched"])
async def test_a_backup_made_between_two_stages_restores_every_key(tmp_path: Path, switched: bool) -> None:
    passphrase, file = tmp_path / "passphrase", tmp_path / "backup"
    passphrase.write_text("correct horse battery\n")
    with TarmacProcess(tmp_path / "data", "--controllers=-*") as server:
        cluster = Cluster(server.kubeconfig)
        people = [await cluster.somebody("before")]
        await cluster.begin_and_stand()
        if switched:
            await cluster.go_on()
            cluster = Cluster(server.kubeconfig)
        people.append(await cluster.somebody("after"))
        words = (str(file), f"--passphrase-file={passphrase}")
        made = tarmac("backup", "create", *words, f"--data-dir={server.data_dir}")
        assert made.returncode == 0, made.stderr
        stages = await cluster.stages()
        server.kill()
    restored = TarmacProcess(tmp_path / "restored", "--controllers=-*")
    restored.url = server.url
    done = tarmac("restore", *words, f"--data-dir={restored.data_dir}", "--accept-loss")
    assert done.returncode == 0, done.stderr
    with restored:
        cluster = Cluster(restored.kubeconfig)
        assert [await each.is_known(restored.url) for each in people] == [True, True]
        assert await cluster.secrets() == ["after", "before"]
        assert await cluster.stages() == stages
        await cluster.go_on()
        cluster = Cluster(restored.kubeconfig)
        people.append(await cluster.somebody("later"))
        assert [await each.is_known(restored.url) for each in people] == [True, True, True]
        await cluster.retire()
        assert [await each.is_known(restored.url) for each in people] == [False, switched, True]
    with restored:  # with the new keys alone
        assert await Cluster(restored.kubeconfig).secrets() == ["after", "before", "later"]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[TarmacProcess]:
    (tmp_path / "etcd").mkdir()
    etcd = EtcdCluster(etcd_binary(ETCDS[-1]), tmp_path / "etcd")
    etcd.start()
    try:
        with TarmacProcess(tmp_path / "one", f"--store=etcd://{etcd.endpoints[0]}?prefix=/between&compact=0") as one:
            yield one
    finally:
        etcd.stop()


@pytest.mark.root
@pytest.mark.timeout(180)
async def test_a_server_that_joins_between_two_stages_is_handed_every_key(
    server: TarmacProcess, tmp_path: Path
) -> None:
    planet, cluster = Planet(server), Cluster(server.kubeconfig)
    people, tokens = [await cluster.somebody("before")], [await planet.token() for _ in range(2)]
    joined = [Joining(tmp_path / name, planet) for name in ("two", "three")]
    processes = []
    try:
        await cluster.begin_and_stand()
        processes.append(joined[0].start(tokens[0]))
        joined[0].until_serves(processes[0])
        await cluster.go_on()
        # Its token is of the old authority, which does not sign any more; and it is killed when it has the keys.
        joined[1].kill_at(tokens[1], "server")
        processes.append(joined[1].start(tokens[1]))
        joined[1].until_serves(processes[1])
        people.append(await Cluster(server.kubeconfig).somebody("after"))
        others = [Cluster(each.machine.data / "kubeconfig") for each in joined]
        for each in others:
            assert [await one.is_known(each.url) for one in people] == [True, True]
            assert await each.secrets() == ["after", "before"]
        for each in joined:
            assert len(certificates_in((each.machine.data / "pki" / "ca.crt").read_text())) == 2
            assert len(read_keys(each.machine.data / "secrets.key")) == 2
        await others[1].retire()
        for url in (server.url, *(each.url for each in others)):
            assert [await one.is_known(url) for one in people] == [False, True]
    finally:
        for process in processes:
            process.terminate()
            process.communicate()
        await planet.admin.close()
        for each in joined:
            await end(running(each.machine, "server"))
