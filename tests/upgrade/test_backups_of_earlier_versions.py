"""A backup of a version before authentication: its passphrase proves it, or the operator accepts it."""

from __future__ import annotations

import lzma
from pathlib import Path

import pytest

from tarmac.store.backups.file import read_backup
from tests.apps.test_backups import tarmac
from tests.support.kubectl import Kubectl
from tests.support.tarmac_process import TarmacProcess

UNAUTHENTICATED = Path(__file__).parent / "backup-of-format-1.xz"


@pytest.fixture
def backup(tmp_path: Path) -> Path:
    """A backup of tarmac 0.2.0, with sealed keys."""
    file = tmp_path / "backup"
    file.write_bytes(lzma.decompress(UNAUTHENTICATED.read_bytes()))
    (tmp_path / "passphrase").write_text("correct horse battery\n")
    return file


def test_a_new_host_needs_the_passphrase_alone_and_then_the_operators_word(backup: Path, tmp_path: Path) -> None:
    data, server = tmp_path / "data", TarmacProcess(tmp_path / "data", "--controllers=namespace")
    command = ("restore", str(backup), f"--data-dir={data}", "--accept-loss")
    assert read_backup(backup)[0].format == 1
    done = tarmac(*command, f"--passphrase-file={tmp_path / 'passphrase'}")
    assert done.returncode == 0, done.stderr
    with server:
        kubectl = Kubectl(server.kubeconfig, tmp_path)
        assert kubectl("-n", "shop", "get", "secret", "word", "-o", "jsonpath={.data.word}") == "aHVudGVyMmh1bnRlcjI="
        kubectl("-n", "shop", "delete", "secret", "word")
        server.stop()
    before = (data / "store.db").read_bytes()
    refused = tarmac(*command)
    assert refused.returncode == 3
    assert f"error: unauthenticated: {backup}: tarmac 0.2.0 made it without authentication" in refused.stderr
    assert refused.stderr.count("--passphrase-file") == refused.stderr.count("--accept-unauthenticated") == 1
    assert (data / "store.db").read_bytes() == before
    done = tarmac(*command, "--accept-unauthenticated")
    assert done.returncode == 0, done.stderr
    with server:
        kubectl = Kubectl(server.kubeconfig, tmp_path)
        assert kubectl("-n", "shop", "get", "secret", "word", "-o", "jsonpath={.data.word}") == "aHVudGVyMmh1bnRlcjI="


def test_another_cluster_asks_for_the_same_flag_as_for_a_new_backup(backup: Path, tmp_path: Path) -> None:
    with TarmacProcess(tmp_path / "other", "--controllers=namespace") as other:
        other.stop()
    command = ("restore", str(backup), f"--data-dir={other.data_dir}", "--accept-loss")
    passphrase = f"--passphrase-file={tmp_path / 'passphrase'}"
    refused = tarmac(*command, passphrase)
    assert (refused.returncode, "error: cluster: " in refused.stderr) == (3, True)
    vouched = tarmac(*command, "--accept-unauthenticated")
    assert (vouched.returncode, "error: secrets: " in vouched.stderr) == (3, True), "Secrets of another key"
    done = tarmac(*command, passphrase, "--from-another-cluster")
    assert done.returncode == 0, done.stderr


def test_verify_says_that_it_is_not_authenticated(backup: Path) -> None:
    said = tarmac("backup", "verify", str(backup))
    assert (said.returncode, "it is not authenticated" in said.stdout) == (0, True), said.stderr
