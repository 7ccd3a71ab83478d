"""`tarmac backup create|verify` beside a running server: whole or absent, with an exit code for every fault."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tarmac.store.backups.file import read_backup
from tests.support.kubectl import Kubectl
from tests.support.tarmac_process import TarmacProcess

STEPS = ("copy", "keys", "verify", "rename", "note")


def tarmac(*words: str) -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    command = [sys.executable, "-m", "tarmac.apps.main", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def killed_at(step: str, *words: str) -> None:
    """Kill the command with kill -9 as soon as it reports this step."""
    command = [sys.executable, "-m", "tarmac.apps.main", *words]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if line == f"tarmac: {step}\n":
                process.kill()
                return
    raise AssertionError(f"it never came to {step}")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TarmacProcess]:
    """One server without controllers."""
    with TarmacProcess(tmp_path_factory.mktemp("backups") / "data", "--controllers=namespace") as server:
        kubectl = Kubectl(server.kubeconfig, server.data_dir.parent)
        kubectl("create", "namespace", "shop")
        kubectl("-n", "shop", "create", "secret", "generic", "password", "--from-literal=word=hunter2hunter2")
        yield server


@pytest.fixture
def passphrase(tmp_path: Path) -> Path:
    """A file with a passphrase."""
    path = tmp_path / "passphrase"
    path.write_text("correct horse battery\n")
    return path


def test_a_backup_is_made_noted_and_verified(server: TarmacProcess, tmp_path: Path, passphrase: Path) -> None:
    file = tmp_path / "b.tarmac"
    made = tarmac("backup", "create", str(file), f"--passphrase-file={passphrase}", f"--data-dir={server.data_dir}")
    assert made.returncode == 0, made.stderr
    assert made.stderr == "".join(f"tarmac: {step}\n" for step in STEPS)
    assert file.stat().st_mode & 0o777 == 0o600
    head, rows = read_backup(file)
    assert any((row.bucket, row.name) == ("core/secrets", "shop/password") for row in rows)
    content = file.read_bytes()
    assert b"hunter2hunter2" not in content
    assert b"PRIVATE KEY" not in content
    kubectl = Kubectl(server.kubeconfig, tmp_path)
    note = json.loads(kubectl("-n", "kube-system", "get", "configmap", "tarmac-backups", "-o", "json"))["data"]
    assert note["revision"] == str(head.revision)
    assert note["digest"] == f"sha256:{head.digest}"
    assert note["time"].endswith("Z")

    said = tarmac("backup", "verify", str(file), f"--passphrase-file={passphrase}")
    assert said.returncode == 0, said.stderr
    assert f"is whole: {head.objects} objects at revision {head.revision}" in said.stdout
    assert "the passphrase opens its" in said.stdout

    passphrase.write_text("wrong horse\n")
    wrong = tarmac("backup", "verify", str(file), f"--passphrase-file={passphrase}")
    assert (wrong.returncode, wrong.stdout) == (3, "")
    assert wrong.stderr.startswith("error: passphrase: ")
    file.write_bytes(content[:-4096])
    cut = tarmac("backup", "verify", str(file))
    assert (cut.returncode, cut.stderr.split(": ")[1]) == (3, "length")
    file.write_bytes(content.replace(b'"shop"', b'"shop!'[:6]))
    changed = tarmac("backup", "verify", str(file))
    assert (changed.returncode, changed.stderr.split(": ")[1]) == (3, "content")


def test_killed_at_every_step_the_file_is_whole_or_absent_and_the_same_command_finishes(
    server: TarmacProcess, tmp_path: Path
) -> None:
    file = tmp_path / "b.tarmac"
    command = ("backup", "create", str(file), "--without-keys", f"--data-dir={server.data_dir}")
    for _ in range(3):
        for step in STEPS:
            killed_at(step, *command)
            if file.exists():
                read_backup(file)
    made = tarmac(*command)
    assert made.returncode == 0, made.stderr
    assert [each.name for each in tmp_path.iterdir()] == ["b.tarmac"], "nothing is left beside it"


def test_a_backup_of_a_stopped_server_is_made_too_and_says_that_nobody_knows_of_it(
    tmp_path: Path, passphrase: Path
) -> None:
    with TarmacProcess(tmp_path / "data", "--controllers=namespace") as server:
        server.kill()
    made = tarmac(
        "backup", "create", str(tmp_path / "b"), f"--passphrase-file={passphrase}", f"--data-dir={tmp_path / 'data'}"
    )
    assert made.returncode == 0, made.stderr
    assert "the backup is complete, but its time cannot be recorded" in made.stderr
    with server:  # the server starts after the read
        assert "kube-system" in Kubectl(server.kubeconfig, tmp_path)("get", "namespaces")


def test_impossible_backups_are_refused_with_the_reason(
    server: TarmacProcess, tmp_path: Path, passphrase: Path
) -> None:
    mine = tmp_path / "mine.txt"
    mine.write_text("do not touch")
    here = f"--data-dir={server.data_dir}"
    refused = tarmac("backup", "create", str(mine), "--without-keys", here)
    assert (refused.returncode, mine.read_text()) == (1, "do not touch")
    assert "exists and is no backup of Tarmac: choose another name" in refused.stderr
    store = server.data_dir / "store.db"
    refused = tarmac("backup", "create", str(store), "--without-keys", here)
    assert refused.returncode == 1
    empty = tarmac("backup", "create", str(tmp_path / "b"), "--without-keys", f"--data-dir={tmp_path / 'nothing'}")
    assert empty.returncode == 1
    assert "there is no " in empty.stderr
    passphrase.write_text("\n")
    blank = tarmac("backup", "create", str(tmp_path / "b"), f"--passphrase-file={passphrase}", here)
    assert (blank.returncode, "has no passphrase in its first line" in blank.stderr) == (1, True)
    assert tarmac("backup", "create", str(tmp_path / "b"), here).returncode == 2
    assert tarmac("backup", "verify", str(tmp_path / "absent")).returncode == 1
    assert not (tmp_path / "b").exists()
