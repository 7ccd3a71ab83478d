"""One server goes from the previous version to this one, and back by the backup made in between."""

from __future__ import annotations

import json
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

from tarmac import __version__
from tarmac.store.interface import FLOOR_STEP
from tarmac.store.sqlite import SqliteStore
from tarmac.store.sqlite.format import FORMAT
from tests.apps.test_backups import tarmac
from tests.support.kubectl import Kubectl
from tests.support.tarmac_process import TarmacProcess

WORD = "aHVudGVyMmh1bnRlcjI="


def colour(kubectl: Kubectl) -> str:
    return kubectl("-n", "shop", "get", "configmap", "settings", "-o", "jsonpath={.data.colour}")


def test_data_of_the_previous_version_is_served_and_a_restore_leads_back(previous: Path, tmp_path: Path) -> None:
    """The backup is made by the new version while the old one serves: installing it has started nothing."""
    server, file = TarmacProcess(tmp_path / "data", python=previous), tmp_path / "backup"
    here = f"--data-dir={server.data_dir}"
    with server:
        kubectl = Kubectl(server.kubeconfig, tmp_path)
        kubectl("create", "namespace", "shop")
        kubectl("-n", "shop", "create", "configmap", "settings", "--from-literal=colour=blue")
        kubectl("-n", "shop", "create", "secret", "generic", "word", "--from-literal=word=hunter2hunter2")
        made = tarmac("backup", "create", str(file), "--without-keys", here)
        assert made.returncode == 0, made.stderr
        server.stop()
    server.python = Path(sys.executable)
    with server:
        kubectl = Kubectl(server.kubeconfig, tmp_path)
        assert f"+tarmac-{__version__}" in kubectl("get", "--raw", "/version")
        assert colour(kubectl) == "blue"
        assert kubectl("-n", "shop", "get", "secret", "word", "-o", "jsonpath={.data.word}") == WORD
        kubectl("-n", "shop", "patch", "configmap", "settings", "-p", '{"data":{"colour":"red"}}')
        last = int(kubectl("-n", "shop", "get", "configmap", "settings", "-o", "jsonpath={.metadata.resourceVersion}"))
        server.stop()
    restored = tarmac("restore", str(file), here, "--accept-loss")
    assert restored.returncode == 0, restored.stderr
    server.python = previous
    with server:
        kubectl = Kubectl(server.kubeconfig, tmp_path)
        assert "+tarmac-" not in kubectl("get", "--raw", "/version"), "this is the old one again"
        assert colour(kubectl) == "blue"
        assert kubectl("-n", "shop", "get", "secret", "word", "-o", "jsonpath={.data.word}") == WORD
        found = json.loads(kubectl("get", "--raw", "/api/v1/namespaces/shop/configmaps"))
        assert int(found["metadata"]["resourceVersion"]) > last + FLOOR_STEP - 1, "revisions never go back"
        gone = kubectl("get", "--raw", f"/api/v1/namespaces/shop/configmaps?watch=1&resourceVersion={last}")
        assert '"code":410' in gone, "a watcher of the new server lists again"


async def test_a_store_that_is_too_new_is_refused_with_both_ways_on(tmp_path: Path) -> None:
    file = tmp_path / "store.db"
    store = SqliteStore(file)
    await store.start()
    await store.close()
    with closing(sqlite3.connect(file)) as database:
        database.execute(f"PRAGMA user_version = {FORMAT + 1}")
    before = file.read_bytes()
    refused = tarmac("server", f"--data-dir={tmp_path}", "--listen=127.0.0.1:0")
    assert refused.returncode == 1
    assert (
        f"the store has format {FORMAT + 1}, tarmac {__version__} knows up to {FORMAT}: "
        "install the newer version or restore a backup"
    ) in refused.stderr
    assert file.read_bytes() == before
