"""Claims over HTTP, while two independent processes of controllers race, and are killed.

Creating the SourceIP is the only lock: on SQLite, on etcd and on a real kube-apiserver, no address is ever held by two
claims, no bound claim changes its address, a quota holds, and no claim gets a resting address. The test checks every
change of every claim and address, not only the end.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Iterable
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tarmac.api.egress.names import API_VERSION
from tarmac.api.schema import JsonObject
from tarmac.client.cache import Item
from tarmac.client.client import Client
from tarmac.client.http import HttpTransport
from tarmac.client.informer import Informers
from tarmac.client.kubeconfig import load
from tarmac.client.targets.target import dynamic
from tarmac.client.targets.untyped import NAMESPACES
from tests.store.conftest import ETCDS, etcd_binary
from tests.support.etcd import EtcdCluster
from tests.support.peer import running_peer
from tests.support.roles import install_kinds, install_roles, kubeconfig, token
from tests.support.tarmac_process import TarmacProcess

pytestmark = [pytest.mark.timeout(240)]

CLASSES = dynamic(API_VERSION, "sourceipclasses", "SourceIPClass", namespaced=False)
CLAIMS = dynamic(API_VERSION, "sourceipclaims", "SourceIPClaim")
SOURCE_IPS = dynamic(API_VERSION, "sourceips", "SourceIP", namespaced=False)
ADDRESSES, WANTED, QUOTA = 24, 36, 3
KILLS = 3


@dataclass
class Place:
    """A server that can be killed and restarted, and the kubeconfigs of an administrator and of the controllers."""

    admin: Path
    controllers: Path
    restart: Callable[[], None]


@contextmanager
def own_server(folder: Path, *flags: str) -> Generator[Place]:
    with TarmacProcess(folder / "data", "--controllers=namespace", *flags) as server:

        def restart() -> None:
            server.kill()
            server.start()

        yield Place(server.kubeconfig, server.data_dir / "controllers.kubeconfig", restart)


@contextmanager
def on_etcd(folder: Path, *flags: str) -> Generator[Place]:
    (folder / "etcd").mkdir()
    cluster = EtcdCluster(etcd_binary(ETCDS[-1]), folder / "etcd")
    try:
        cluster.start()
        store = f"etcd://{','.join(cluster.endpoints)}?compact=0"
        with own_server(folder, "--store", store, *flags) as place:
            yield place
    finally:
        cluster.stop()


@contextmanager
def on_kubernetes(folder: Path) -> Generator[Place]:
    with running_peer() as peer:
        controllers = folder / "controllers.kubeconfig"

        async def install() -> None:
            async with client_of(peer.kubeconfig) as client:
                await install_kinds(client)
                await install_roles(client)
                metadata = {"name": "external-services"}
                await client.resource(NAMESPACES).create(
                    {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}
                )
                controllers.write_text(kubeconfig(peer, await token(client)))

        asyncio.run(install())
        yield Place(peer.kubeconfig, controllers, peer.restart)


@pytest.fixture(params=["sqlite", "etcd", pytest.param("kubernetes", marks=pytest.mark.peers)])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Generator[Place]:
    made = {"sqlite": own_server, "etcd": on_etcd, "kubernetes": on_kubernetes}[request.param]
    with made(tmp_path) as found:
        yield found


@asynccontextmanager
async def client_of(path: Path) -> AsyncGenerator[Client]:
    client = Client(HttpTransport(load(str(path)).http))
    try:
        yield client
    finally:
        await client.close()


class Process:
    """`tarmac controllers` with the loops of some controllers, which always leads."""

    def __init__(self, place: Place, log: Path, controllers: str = "external", *flags: str) -> None:
        self._command = [sys.executable, "-m", "tarmac.apps.main", "controllers", "--kubeconfig"]
        self._command += [str(place.controllers), "--leader-elect=false", f"--controllers={controllers}", *flags]
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log)

    def kill(self) -> None:
        """Kill with kill -9."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


@dataclass
class Witness:
    """Sees every change, and records violations."""

    broken: list[str] = field(default_factory=list[str])
    holder: dict[str, str] = field(default_factory=dict[str, str])  # address -> uid of its claim

    def claim_changed(self, old: Item[JsonObject] | None, new: Item[JsonObject] | None) -> None:
        before, after = _addresses(old), _addresses(new)
        if old is not None and new is not None and before and before != after:
            self.broken.append(f"claim {new.key} had {before} and has {after}")
        for address in after if new is not None else ():
            uid = self.holder.setdefault(address, new.metadata.uid)  # type: ignore[union-attr]
            if new is not None and uid != new.metadata.uid:
                self.broken.append(f"{address} is held by {new.key} and by another")

    def address_changed(self, old: Item[JsonObject] | None, new: Item[JsonObject] | None) -> None:
        before, after = _holder(old), _holder(new)
        resting = old is not None and (old.object.get("status") or {}).get("phase") in ("Released", "Quarantined")
        if new is not None and before and after and before != after and not resting:
            self.broken.append(f"{new.key} goes from one claim to another")


def _addresses(item: Item[JsonObject] | None) -> list[str]:
    status = (item.object.get("status") or {}) if item is not None else {}
    return status.get("addresses") or [] if status.get("phase") == "Bound" else []


def _holder(item: Item[JsonObject] | None) -> str:
    return ((item.object["spec"].get("claimRef") or {}) if item is not None else {}).get("uid", "")


def made(kind: str, name: str, spec: JsonObject, namespace: str = "") -> JsonObject:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": metadata, "spec": spec}


def offered(name: str, first: str, last: str, **spec: Any) -> JsonObject:
    ranges = [{"start": first, "end": last}]
    full = {"ranges": ranges, "allowedNamespaces": {"names": ["team"]}, "holdDown": "1h", **spec}
    return made("SourceIPClass", name, full)


def reasons(claims: Iterable[JsonObject]) -> dict[str, str]:
    """Return the reason of each claim's Bound condition, once it has one."""
    found: dict[str, str] = {}
    for each in claims:
        bound = [one for one in (each.get("status") or {}).get("conditions") or () if one["type"] == "Bound"]
        found[each["metadata"]["name"]] = bound[0]["reason"] if bound else ""
    return found


async def until(check: Callable[[], Awaitable[bool]], seconds: float = 60.0) -> None:
    async with asyncio.timeout(seconds):
        while not await check():
            await asyncio.sleep(0.1)


def test_no_address_is_ever_held_twice_whoever_races_and_dies(place: Place, tmp_path: Path) -> None:
    with ExitStack() as stack:
        processes = [Process(place, tmp_path / f"controllers-{number}.log") for number in range(2)]
        for each in processes:
            stack.callback(each.kill)
        asyncio.run(_race(place, processes))


async def _race(place: Place, processes: list[Process]) -> None:
    async with client_of(place.admin) as client, client_of(place.admin) as watching:
        claims, classes = client.resource(CLAIMS), client.resource(CLASSES)
        await client.resource(NAMESPACES).create(
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}}
        )
        await classes.create(offered("free", "192.0.2.1", f"192.0.2.{ADDRESSES}"))
        witness, informers = Witness(), Informers(watching)
        informers.informer(CLAIMS).on_change(witness.claim_changed)
        informers.informer(SOURCE_IPS).on_change(witness.address_changed)
        seen = asyncio.create_task(informers.run())

        async def settled(prefix: str, count: int) -> bool:
            said = reasons((await claims.list("team")).items)
            mine = [reason for name, reason in said.items() if name.startswith(prefix)]
            return len(mine) == count and all(mine)

        for each in processes:
            each.start()
        for number in range(WANTED):
            await claims.create(made("SourceIPClaim", f"c{number:02}", {"className": "free"}, "team"))
        for number in range(KILLS):
            await asyncio.sleep(0.4)  # each kill hits it at another step
            processes[number % 2].kill()
            processes[number % 2].start()
        await until(lambda: settled("c", WANTED))
        await _check_rest(client, witness)

        processes[1].kill()  # of the replicas, one shall lead
        await classes.create(offered("counted", "198.51.100.1", "198.51.100.9", quota={"perNamespace": QUOTA}))
        for number in range(2 * QUOTA):
            await claims.create(made("SourceIPClaim", f"q{number}", {"className": "counted"}, "team"))
        processes[0].kill()
        place.restart()
        processes[0].start()
        await until(lambda: settled("q", 2 * QUOTA))
        said = {name: why for name, why in reasons((await claims.list("team")).items).items() if name[0] == "q"}
        assert said == {f"q{n}": "AddressBound" if n < QUOTA else "QuotaExceeded" for n in range(2 * QUOTA)}

        await claims.delete("c00" if "c00" in _bound(await claims.list("team")) else "c01", "team")
        await until(lambda: _rests(client))
        assert len(_bound(await claims.list("team"))) == ADDRESSES + QUOTA - 1, "another claim got a resting address"
        assert not witness.broken
        seen.cancel()


def _bound(page: Any) -> dict[str, list[str]]:
    found = {each["metadata"]["name"]: each.get("status") or {} for each in page.items}
    return {name: status["addresses"] for name, status in found.items() if status.get("phase") == "Bound"}


async def _rests(client: Client) -> bool:
    found = (await client.resource(SOURCE_IPS).list()).items
    return any((each.get("status") or {}).get("phase") == "Released" for each in found)


async def _check_rest(client: Client, witness: Witness) -> None:
    """Exactly the configured addresses are bound, each by one claim, and claims and addresses agree."""

    async def agreed() -> bool:
        said = _bound(await client.resource(CLAIMS).list("team"))
        held = (await client.resource(SOURCE_IPS).list()).items
        names = {each["spec"]["claimRef"]["name"]: [each["spec"]["address"]] for each in held}
        return names == said and len(held) == ADDRESSES

    await until(agreed)
    said = reasons((await client.resource(CLAIMS).list("team")).items)
    assert sorted(said.values()) == ["AddressBound"] * ADDRESSES + ["PoolExhausted"] * (WANTED - ADDRESSES)
    assert len(witness.holder) == ADDRESSES
    assert not witness.broken
