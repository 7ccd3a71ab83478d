"""`tarmac restore`: the objects of the backup return, above every revision ever given out; or nothing is changed."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from tarmac.store.interface import FLOOR_STEP
from tests.apps.test_backups import killed_at, tarmac
from tests.support.kubectl import Kubectl
from tests.support.tarmac_process import TarmacProcess

STEPS = ("checks", "keys", "build", "rename")


class World:
    """A server with a backup and later changes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.data = folder / "data"
        self.server = TarmacProcess(self.data, "--controllers=namespace")
        self.file = folder / "backup"
        self.passphrase = folder / "passphrase"
        self.passphrase.write_text("correct horse battery\n")
        with self.server:
            kubectl = Kubectl(self.server.kubeconfig, folder)
            kubectl("create", "namespace", "shop")
            kubectl("-n", "shop", "create", "configmap", "colour", "--from-literal=colour=blue")
            kubectl("-n", "shop", "create", "configmap", "deleted", "--from-literal=a=b")
            kubectl("-n", "shop", "create", "secret", "generic", "word", "--from-literal=word=hunter2hunter2")
            node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1", "annotations": {"x": "y"}}}
            kubectl("create", "-f", "-", stdin=json.dumps(node))
            made = tarmac(
                "backup", "create", str(self.file), f"--passphrase-file={self.passphrase}", f"--data-dir={self.data}"
            )
            assert made.returncode == 0, made.stderr
            kubectl("-n", "shop", "delete", "configmap", "deleted")
            kubectl("-n", "shop", "patch", "configmap", "colour", "-p", '{"data":{"colour":"red"}}')
            kubectl("-n", "shop", "create", "configmap", "newer", "--from-literal=a=b")
            revoked = {"x": json.dumps({"name": "system:node:gone", "before": "2030-01-01T00:00:00Z"})}
            body = {"apiVersion": "v1", "kind": "ConfigMap", "data": revoked}
            body["metadata"] = {"name": "tarmac-revoked", "namespace": "kube-system"}
            kubectl("create", "-f", "-", stdin=json.dumps(body))
            last = json.loads(kubectl("-n", "shop", "get", "configmap", "newer", "-o", "json"))
            self.last = int(last["metadata"]["resourceVersion"])
            self.server.stop()

    def restore(self, *flags: str) -> subprocess.CompletedProcess[str]:
        """Run `tarmac restore`."""
        return tarmac("restore", str(self.file), f"--data-dir={self.data}", *flags)

    def copy(self, folder: Path) -> World:
        """Return a copy in another folder, for a test to change."""
        other = World.__new__(World)
        other.folder, other.data, other.last = folder, folder / "data", self.last
        other.server = TarmacProcess(other.data, "--controllers=namespace")
        other.file, other.passphrase = folder / "backup", folder / "passphrase"
        shutil.copytree(self.data, other.data)
        for name in ("backup", "passphrase"):
            shutil.copy2(self.folder / name, folder / name)
        return other

    def assert_restored(self) -> None:
        """Assert that the server serves the objects of the backup, without later changes."""
        with self.server:
            kubectl = Kubectl(self.server.kubeconfig, self.folder)
            found = json.loads(kubectl("get", "--raw", "/api/v1/namespaces/shop/configmaps"))
            data = {each["metadata"]["name"]: each.get("data") for each in found["items"]}
            assert data.keys() - {"kube-root-ca.crt"} == {"colour", "deleted"}
            assert data["colour"] == {"colour": "blue"}
            assert int(found["metadata"]["resourceVersion"]) > self.last + FLOOR_STEP - 1
            word = kubectl("-n", "shop", "get", "secret", "word", "-o", "jsonpath={.data.word}")
            assert word == "aHVudGVyMmh1bnRlcjI="


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> World:
    """Made once."""
    return World(tmp_path_factory.mktemp("world"))


@pytest.fixture
def world(original: World, tmp_path: Path) -> World:
    """A copy for each test."""
    return original.copy(tmp_path)


def _files(folder: Path) -> dict[str, bytes]:
    ignored = (".lock", ".log")
    files = (path for path in folder.rglob("*") if path.is_file() and not path.name.endswith((*ignored, "-shm")))
    return {str(path): path.read_bytes() for path in files if path.stat().st_size}


def test_without_accepting_the_loss_it_is_told_and_nothing_is_changed(world: World) -> None:
    before = _files(world.data)
    refused = world.restore()
    assert refused.returncode == 3
    lines = refused.stderr.splitlines()
    assert (
        "error: loss: configmaps: made since (lost): 3, changed since (go back): 1, deleted since (come back): 1"
        in lines
    )
    assert lines[-1].startswith("error: backup: the backup is of ")
    assert _files(world.data) == before


def test_it_serves_what_the_backup_has_above_every_revision_that_was_given_out(world: World) -> None:
    done = world.restore("--accept-loss")
    assert done.returncode == 0, done.stderr
    assert done.stderr == "".join(f"tarmac: {step}\n" for step in STEPS)
    assert (world.data / "store.db.replaced-1").exists()
    world.assert_restored()
    with world.server:
        kubectl = Kubectl(world.server.kubeconfig, world.folder)
        notes = json.loads(kubectl("get", "node", "n1", "-o", "json"))["metadata"]["annotations"]
        assert (notes["x"], notes["tarmac.dev/restored"][-1]) == ("y", "Z")
        revoked = kubectl("-n", "kube-system", "get", "configmap", "tarmac-revoked", "-o", "json")
        assert "system:node:gone" in revoked, "later revocations stay"
        gone = kubectl("get", "--raw", f"/api/v1/namespaces/shop/configmaps?watch=1&resourceVersion={world.last}")
        assert '"code":410' in gone, "a client that watched the lost store lists again"


def test_a_server_that_runs_is_left_alone(world: World) -> None:
    with world.server:
        refused = world.restore("--accept-loss")
        assert refused.returncode == 1
        assert f"is in use by another server (process {world.server.pid}): stop it first" in refused.stderr


def test_killed_at_every_step_the_old_store_or_the_new_one_is_whole(original: World, tmp_path: Path) -> None:
    for time in range(3):
        for step in STEPS:
            folder = tmp_path / f"{step}-{time}"
            folder.mkdir()
            world = original.copy(folder)
            killed_at(step, "restore", str(world.file), f"--data-dir={world.data}", "--accept-loss")
            if time == 0 and step in ("build", "rename"):  # a server starts from any of these states
                with world.server:
                    names = Kubectl(world.server.kubeconfig, folder)("-n", "shop", "get", "configmaps", "-o", "name")
                    assert ("configmap/newer" in names) != ("configmap/deleted" in names)
            if time == 1:
                done = world.restore("--accept-loss")
                assert done.returncode == 0, done.stderr
            if (time, step) == (1, "rename"):
                world.assert_restored()
            shutil.rmtree(folder)


def test_a_new_machine_becomes_the_server_that_was_backed_up(world: World) -> None:
    ca = (world.data / "pki" / "ca.crt").read_bytes()
    shutil.rmtree(world.data)
    refused = world.restore("--accept-loss")
    assert refused.returncode == 3
    assert "ca.key is not here, and the restored server needs it; give --passphrase-file" in refused.stderr
    world.passphrase.write_text("wrong\n")
    wrong = world.restore("--accept-loss", f"--passphrase-file={world.passphrase}")
    assert (wrong.returncode, "error: passphrase: " in wrong.stderr) == (3, True)
    world.passphrase.write_text("correct horse battery\n")
    done = world.restore("--accept-loss", f"--passphrase-file={world.passphrase}")
    assert done.returncode == 0, done.stderr
    assert (world.data / "pki" / "ca.crt").read_bytes() == ca
    assert (world.data / "secrets.key").stat().st_mode & 0o777 == 0o600
    world.last = 1
    world.assert_restored()


def test_a_damaged_store_is_replaced_and_a_damaged_backup_is_not_used(world: World) -> None:
    store = world.data / "store.db"
    content = store.read_bytes().replace(b'"colour":"red"', b'"colour":"rad"')
    store.write_bytes(content)
    refused = world.restore()
    assert (refused.returncode, "which cannot be read: " in refused.stderr) == (3, True)
    backup = world.file.read_bytes()
    world.file.write_bytes(backup[:-1])
    cut = world.restore("--accept-loss")
    assert (cut.returncode, "error: length: " in cut.stderr) == (3, True)
    assert store.read_bytes() == content
    world.file.write_bytes(backup)
    assert world.restore("--accept-loss").returncode == 0
    world.assert_restored()
