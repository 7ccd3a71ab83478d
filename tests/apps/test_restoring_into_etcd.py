"""`tarmac restore` into an etcd that two servers share, killed at every step: the old objects or the new ones, whole.

Servers are stopped meanwhile. A server that starts after the kill finishes the restore or serves the old objects; the
same command finishes it, too. Every step runs three times in a soak.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tarmac.store.backups.file import read_backup
from tarmac.store.interface import FLOOR_STEP
from tests.apps.test_backups import STEPS as BACKUP_STEPS
from tests.apps.test_backups import killed_at, tarmac
from tests.apps.test_restoring import STEPS
from tests.soak import SOAK
from tests.store.conftest import ETCDS, etcd_binary
from tests.support.etcd import EtcdCluster
from tests.support.kubectl import Kubectl
from tests.support.tarmac_process import TarmacProcess

TIMES = 3 if SOAK else 1
OLD, NEW = {"configmap/kept", "configmap/newer"}, {"configmap/kept", "configmap/deleted"}


class Shared:
    """A data directory whose server keeps its objects in etcd, with a backup and later changes."""

    def __init__(self, folder: Path, etcd: EtcdCluster) -> None:
        self.folder, self.file, data = folder, folder / "backup", folder / "data"
        store = f"--store=etcd://{etcd.endpoints[0]}?prefix=/restoring&compact=0"
        self.server = TarmacProcess(data, store, "--controllers=namespace")
        self.command = ("restore", str(self.file), f"--data-dir={data}", store, "--accept-loss")
        with self.server:
            self._make("kept", "deleted")
            self._kubectl("create", "secret", "generic", "word", "--from-literal=word=hunter2hunter2")
            made = tarmac("backup", "create", str(self.file), "--without-keys", f"--data-dir={data}", store)
            assert made.returncode == 0, made.stderr
            running = tarmac(*self.command)
            assert running.returncode == 1, "a server writes there"
            assert "servers write below /restoring: stop all of them first" in running.stderr
            self.change()
            self.server.stop()

    def change(self) -> None:
        """Make the backup look old."""
        self._kubectl("delete", "configmap", "deleted")
        self._make("newer")

    def _make(self, *names: str) -> None:
        for name in names:
            self._kubectl("create", "configmap", name, "--from-literal=a=b")

    def _kubectl(self, *words: str) -> str:
        return Kubectl(self.server.kubeconfig, self.folder)(*words)

    def served(self) -> set[str]:
        """Return the objects that a server serves that starts now."""
        names = self._kubectl("get", "configmaps", "-o", "name").split()
        assert self._kubectl("get", "secret", "word", "-o", "jsonpath={.data.word}") == "aHVudGVyMmh1bnRlcjI="
        return set(names) - {"configmap/kube-root-ca.crt"}

    def revision(self) -> int:
        """Return the newest revision."""
        return int(json.loads(self._kubectl("get", "--raw", "/api/v1/configmaps"))["metadata"]["resourceVersion"])


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shared]:
    folder = tmp_path_factory.mktemp("shared")
    (folder / "etcd").mkdir()
    etcd = EtcdCluster(etcd_binary(ETCDS[-1]), folder / "etcd")
    etcd.start()
    try:
        yield Shared(folder, etcd)
    finally:
        etcd.stop()


@pytest.mark.soak(minutes=1)
@pytest.mark.timeout(120 * TIMES)
def test_a_backup_of_it_that_is_killed_at_every_step_is_whole_or_absent(shared: Shared, tmp_path: Path) -> None:
    file = tmp_path / "b.tarmac"
    command = ("backup", "create", str(file), "--without-keys", *shared.command[2:4])
    for step in BACKUP_STEPS * TIMES:
        killed_at(step, *command)
        if file.exists():
            read_backup(file)
    assert [each.name for each in tmp_path.iterdir() if each != file] == [], "nothing is left beside it"


@pytest.mark.soak(minutes=1)
@pytest.mark.timeout(120 * TIMES)
def test_killed_at_every_step_servers_find_the_old_objects_or_the_new(shared: Shared) -> None:
    before = 0
    for step in STEPS * TIMES:
        killed_at(step, *shared.command)
        if step not in ("build", "rename"):  # nothing of the store is touched before
            continue
        with shared.server:
            served = shared.served()
            assert served in (OLD, NEW), f"killed at {step}: a part of both"
            if served == NEW:
                shared.change()
            before = shared.revision()
            shared.server.stop()
    done = tarmac(*shared.command)
    assert done.returncode == 0, done.stderr
    assert done.stderr == "".join(f"tarmac: {step}\n" for step in STEPS)
    with shared.server:
        assert shared.served() == NEW
        assert shared.revision() > before + FLOOR_STEP, "every client is told to list again"
        shared.server.stop()
