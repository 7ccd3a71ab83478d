"""`tarmac server` as a process: files, ready line, shutdown, and errors at start."""

from __future__ import annotations

import json
import stat
import subprocess
import sys
from pathlib import Path

from tests.support.kubectl import Kubectl
from tests.support.tarmac_process import TarmacProcess


def tarmac(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tarmac.apps.main", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)


def test_it_stops_in_order_and_comes_back_with_what_it_had(tmp_path: Path) -> None:
    server = TarmacProcess(tmp_path / "data")
    with server:
        kubectl = Kubectl(server.kubeconfig, tmp_path)
        kubectl("create", "configmap", "kept", "--from-literal=a=1")
        assert server.stop() == 0
    with server:
        kubectl = Kubectl(server.kubeconfig, tmp_path)
        assert kubectl("get", "configmap", "kept", "-o", "jsonpath={.data.a}") == "1"


def test_key_files_are_private_and_secrets_are_encrypted(tmp_path: Path) -> None:
    with TarmacProcess(tmp_path / "data") as server:
        kubectl = Kubectl(server.kubeconfig, tmp_path)
        kubectl("create", "secret", "generic", "hidden", "--from-literal=word=xyzzy-plugh")
        assert kubectl("get", "secret", "hidden", "-o", "jsonpath={.data.word}") == "eHl6enktcGx1Z2g="
        server.stop()
    for name in ("kubeconfig", "secrets.key", "pki/ca.key", "pki/sa.key", "pki/server.key", "audit.log"):
        mode = stat.S_IMODE((tmp_path / "data" / name).stat().st_mode)
        assert mode == 0o600, f"{name} has mode {mode:o}"
    assert stat.S_IMODE((tmp_path / "data").stat().st_mode) == 0o700
    for path in (tmp_path / "data").glob("store.db*"):
        content = path.read_bytes()
        assert b"eHl6enktcGx1Z2g" not in content
        assert b"xyzzy" not in content
    audit = [json.loads(line) for line in (tmp_path / "data" / "audit.log").read_text().splitlines()]
    created = [line for line in audit if line.get("objectRef", {}).get("name") == "hidden"]
    assert created
    assert "xyzzy" not in (tmp_path / "data" / "audit.log").read_text()


def test_two_servers_cannot_share_one_file(tmp_path: Path) -> None:
    with TarmacProcess(tmp_path / "data"):
        second = tarmac("server", "--data-dir", str(tmp_path / "data"), "--listen", "127.0.0.1:0")
    assert second.returncode == 1
    assert "in use by another server" in second.stderr


def test_a_taken_port_is_said_plainly(tmp_path: Path) -> None:
    with TarmacProcess(tmp_path / "one") as first:
        second = tarmac("server", "--data-dir", str(tmp_path / "two"), "--listen", first.authority)
    assert second.returncode == 1
    assert "in use" in second.stderr
    assert "Traceback" not in second.stderr


def test_a_lost_key_stops_the_start(tmp_path: Path) -> None:
    with TarmacProcess(tmp_path / "data") as server:
        Kubectl(server.kubeconfig, tmp_path)("create", "secret", "generic", "hidden", "--from-literal=word=x")
        server.stop()
    (tmp_path / "data" / "secrets.key").unlink()
    again = tarmac("server", "--data-dir", str(tmp_path / "data"), "--listen", "127.0.0.1:0")
    assert again.returncode == 1
    assert "key" in again.stderr
    assert "Traceback" not in again.stderr


def test_wrong_flags_are_usage_errors(tmp_path: Path) -> None:
    for arguments in (["server", "--listen", "nowhere"], ["fly"], ["server", "--no-such-flag"]):
        assert tarmac(*arguments).returncode == 2
    wrong_store = tarmac("server", "--store", "mysql://x", "--data-dir", str(tmp_path / "data"))
    assert wrong_store.returncode == 1


def test_crds_are_printed_as_yaml() -> None:
    import yaml

    printed = tarmac("crds")
    assert printed.returncode == 0
    documents = [document for document in yaml.safe_load_all(printed.stdout) if document]
    assert {document["kind"] for document in documents} == {"CustomResourceDefinition"}
    assert "workloads.compute.datumapis.com" in {document["metadata"]["name"] for document in documents}
