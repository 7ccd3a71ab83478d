"""`tarmac store migrate`: etcd gets every object of the file, no migration stays half done, no client is misled."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tarmac.api.schema import JsonObject
from tarmac.api.status import Gone
from tarmac.apps.host.configuration import documents_in, replace_field
from tarmac.base.randomness import Randomness
from tarmac.client.client import Client
from tarmac.client.http import HttpTransport
from tarmac.client.kubeconfig import load
from tarmac.client.targets.untyped import NODES
from tarmac.server.security.keys.encryption import SecretSealer
from tarmac.store.copying import contents_of
from tarmac.store.etcd import EtcdStore
from tarmac.store.etcd.fillmark import FillMark
from tarmac.store.interface import FLOOR_STEP, Unavailable
from tarmac.store.open import etcd_settings
from tarmac.store.sqlite import SqliteStore
from tarmac.store.sqlite.marker import marker_path, read_marker
from tests.apps.test_backups import killed_at
from tests.soak import SOAK
from tests.store.conftest import ETCDS, etcd_binary
from tests.support.etcd import EtcdCluster
from tests.support.tarmac_process import TarmacProcess

STEPS = ("checks", "revisions", "objects", "verification", "configuration", "rename")
TIMES = 3 if SOAK else 1
PODS, SECRETS = "core/pods", "core/secrets"


def value(text: str) -> bytes:
    return b'{"metadata":{"name":"%b"},"data":"%b"}' % (text.encode(), text.encode() * 20)


@pytest.fixture(scope="module")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdCluster]:
    cluster = EtcdCluster(etcd_binary(ETCDS[-1]), tmp_path_factory.mktemp("etcd"))
    cluster.start()
    yield cluster
    cluster.stop()


class Moving:
    """A data directory, its configuration, and an etcd to move to."""

    def __init__(self, folder: Path, etcd: EtcdCluster, prefix: str) -> None:
        self.data = folder / "data"
        self.data.mkdir(mode=0o700)
        self.file = self.data / "store.db"
        self.kept = self.data / "store.db.migrated"
        self.url = f"etcd://{etcd.endpoints[0]}?prefix={prefix}&compact=0"
        self.config = folder / "config.yaml"
        self.config.write_text(
            "# mine\napiVersion: config.tarmac.dev/v1alpha1\nkind: ServerConfig  # of this machine\n"
            f"dataDir: {self.data}\nlisten: 127.0.0.1:0\n"
        )
        self.sealer = SecretSealer.from_file(self.data / "secrets.key", Randomness())

    def command(self) -> list[str]:
        return [
            sys.executable, "-m", "tarmac.apps.main", "store", "migrate", f"--to={self.url}", f"--config={self.config}"
        ]  # fmt: skip

    def run(self) -> subprocess.CompletedProcess[str]:
        return subprocess.run(self.command(), check=False, capture_output=True, text=True, timeout=60)

    def kill_at(self, step: str) -> None:
        """Kill the command with kill -9 once it has reported this step."""
        killed_at(step, *self.command()[3:])

    async def fill(self, count: int) -> int:
        store = SqliteStore(self.file, sealer=self.sealer)
        await store.start()
        for start in range(0, count, 500):
            names = [f"ns/{number}" for number in range(start, min(start + 500, count))]
            await asyncio.gather(*(store.create(PODS, name, value(name)) for name in names))
        await store.create(SECRETS, "ns/secret", value("hunter2"))
        revision = store.revision
        await store.close()
        return revision

    def target(self, *, filling: bool = False) -> EtcdStore:
        return EtcdStore(etcd_settings(self.url), sealer=self.sealer, filling=filling)


@pytest.fixture
def moving(tmp_path: Path, etcd: EtcdCluster, request: pytest.FixtureRequest) -> Moving:
    return Moving(tmp_path, etcd, f"/moving/{request.node.name}")


async def _refusal(store: EtcdStore) -> str | None:
    try:
        await store.start()
    except Unavailable as error:
        return str(error)
    return None


@pytest.mark.soak(minutes=1)
@pytest.mark.parametrize("time", range(TIMES))
async def test_killed_at_every_step_the_same_command_goes_on(moving: Moving, time: int) -> None:
    """Until the migration is complete no server starts on the etcd, and the file stays the store; then etcd has all."""
    newest = await moving.fill(1500)
    for step in STEPS:
        moving.kill_at(step)
        switched = documents_in(moving.config)["ServerConfig"].get("store") == moving.url
        store = moving.target()
        if (refusal := await _refusal(store)) is not None:
            assert "interrupted" in refusal
            assert not switched
        else:
            complete = store.mark is not None and store.mark.complete
            assert store.count(PODS) == (1500 if complete else 0)
            await store.close()
    last = moving.run()
    assert last.returncode == 0, last.stderr
    assert moving.kept.exists()
    assert not moving.file.exists()

    store = moving.target()
    await store.start()
    assert store.revision > newest + FLOOR_STEP
    assert store.count(PODS) == 1500
    secret = store.get(SECRETS, "ns/secret")
    assert secret is not None
    assert b"hunter2" in secret.raw
    by_revision = sorted(store.list(PODS).entries, key=lambda entry: entry.revision)
    assert {entry.name for entry in by_revision[:256]} <= {f"ns/{number}" for number in range(512)}, "in their order"
    moved = contents_of(store)
    await store.close()
    kept = SqliteStore(moving.kept, sealer=moving.sealer)
    await kept.start()
    assert contents_of(kept) == moved
    await kept.close()
    assert moving.config.read_text().startswith("# mine\n")
    assert documents_in(moving.config)["ServerConfig"]["store"] == moving.url
    again = moving.run()
    assert (again.returncode, "already migrated" in again.stdout) == (0, True)


async def test_a_copy_is_brought_up_to_date_when_the_file_has_gone_on(moving: Moving) -> None:
    """Objects that changed, appeared or disappeared since the first copy are in the end as in the file."""
    await moving.fill(50)
    moving.kill_at("verification")
    store = SqliteStore(moving.file, sealer=moving.sealer)
    await store.start()
    goes, changes = store.get(PODS, "ns/1"), store.get(PODS, "ns/2")
    assert goes is not None
    assert changes is not None
    await store.delete(PODS, goes.name, goes.revision)
    await store.update(PODS, changes.name, value("changed"), changes.revision)
    await store.create(PODS, "ns/new", value("new"))
    wanted = contents_of(store)
    await store.close()
    done = moving.run()
    assert done.returncode == 0, done.stderr
    assert done.stderr == "".join(f"tarmac: {step}\n" for step in STEPS)
    assert f"moved {wanted.count} objects (sha256:{wanted.digest})" in done.stdout


async def _refused(moving: Moving, *words: str) -> None:
    before = moving.config.read_text()
    refused = moving.run()
    assert refused.returncode == 1, refused
    assert all(word in refused.stderr for word in words), refused.stderr
    assert moving.file.exists()
    assert moving.config.read_text() == before


async def test_foreign_keys_in_etcd_are_left_alone(moving: Moving) -> None:
    """A prefix with objects, one with a copy of another store, and one that servers have written to since."""
    await moving.fill(3)
    target = moving.target()
    await target.start()
    entry = await target.create(PODS, "ns/theirs", value("theirs"))
    await _refused(moving, "there are objects below /moving/", "prefix=")
    await target.mark_filling(FillMark("another"))
    await _refused(moving, "were copied from another store than")
    await target.delete(PODS, "ns/theirs", entry.revision)
    await target.mark_filling(FillMark(_id_of(moving), complete=True, digest="another"))
    await _refused(moving, "servers have written below /moving/")
    await target.close()


def _id_of(moving: Moving) -> str:
    mark, _ = read_marker(marker_path(moving.file))
    assert mark is not None
    return mark.id


async def test_a_server_that_runs_is_not_moved(moving: Moving) -> None:
    await moving.fill(1)
    running = SqliteStore(moving.file, sealer=moving.sealer)
    await running.start()
    await _refused(moving, "is in use by another server")
    await running.close()
    (moving.data / "secrets.key").unlink()
    await _refused(moving, "Secrets cannot be read without it")
    assert not (moving.data / "secrets.key").exists()


def test_other_lines_of_the_configuration_stay(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    header = "apiVersion: config.tarmac.dev/v1alpha1\n"
    agent = f"---\n{header}kind: AgentConfig\nnodeName: n  # a name\n"
    file.write_text(f"# first\n{header}kind: ServerConfig\nstore: sqlite:///x/store.db # old\ntlsSan: [a]\n{agent}")
    replace_field(file, "ServerConfig", "store", "etcd://h:1?prefix=/x")
    assert file.read_text() == (
        f'# first\n{header}kind: ServerConfig\nstore: "etcd://h:1?prefix=/x"\ntlsSan: [a]\n{agent}'
    )
    file.write_text(f"{agent}---\n{header}kind: ServerConfig\nstore: >-\n  sqlite:///x\n  /y\n")
    replace_field(file, "ServerConfig", "store", "etcd://h:1")
    assert documents_in(file)["ServerConfig"] == {"store": "etcd://h:1"}
    assert documents_in(file)["AgentConfig"] == {"nodeName": "n"}


def _node(name: str) -> JsonObject:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}


async def _told_410(client: Client, revisions: Sequence[str]) -> int:
    for revision in revisions:
        with pytest.raises(Gone):
            await _watched(client, revision)
    return len(revisions)


async def _watched(client: Client, revision: str) -> None:
    async with client.resource(NODES).watch(resource_version=revision) as events:
        async for _ in events:
            pass


async def test_clients_that_watch_from_before_are_told_to_list_again(
    moving: Moving, capsys: pytest.CaptureFixture[str]
) -> None:
    """A server on the file, then on etcd: every revision of the former gets 410, from every one on."""
    with TarmacProcess(moving.data) as server:
        client = Client(HttpTransport(load(str(server.kubeconfig)).http))
        nodes = client.resource(NODES)
        made = [await nodes.create(_node(f"n{number}")) for number in range(5)]
        revisions = [each["metadata"]["resourceVersion"] for each in made]
        await client.close()
    moved = moving.run()
    assert moved.returncode == 0, moved.stderr
    with TarmacProcess(moving.data, f"--store={moving.url}") as server:
        client = Client(HttpTransport(load(str(server.kubeconfig)).http))
        count = await _told_410(client, [*revisions, str(int(revisions[-1]) + FLOOR_STEP // 2)])
        found = await client.resource(NODES).list()
        assert {each["metadata"]["name"] for each in found.items} >= {f"n{number}" for number in range(5)}
        await client.close()
    with capsys.disabled():
        print(f"\nmoved to etcd: {count} of {count} watches from before were told 410")
