"""Every transcript has the same output on Tarmac as on the real kube-apiserver."""

from __future__ import annotations

import difflib
import os
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.support.kubectl import kubectl_path
from tests.support.peer import Peer
from tests.support.tarmac_process import TarmacProcess
from tests.transcripts.replaying import CASES, SERVER_FLAGS, parse, prepare_namespace, render, replay

ALL = sorted(CASES.glob("*.txt"))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Generator[TarmacProcess]:
    with TarmacProcess(tmp_path_factory.mktemp("transcripts") / "data", *SERVER_FLAGS) as process:
        yield process


def check(path: Path, kubectl: str, kubeconfig: Path, directory: Path) -> None:
    """Replay one file and show the difference, if there is one, in a readable form."""
    transcript = parse(path)
    config = prepare_namespace(transcript.namespace, kubectl, kubeconfig, directory)
    seen = render(replay(transcript, kubectl, config, directory)).splitlines()
    expected = render(transcript).splitlines()
    difference = "\n".join(difflib.unified_diff(expected, seen, "expected", "seen", lineterm="", n=6))
    assert not difference, f"{path.name} reads differently now:\n{difference}"


@pytest.mark.timeout(120)
@pytest.mark.parametrize("path", ALL, ids=lambda path: path.stem)
def test_session_on_tarmac(path: Path, server: TarmacProcess, tmp_path: Path) -> None:
    check(path, kubectl_path(), server.kubeconfig, tmp_path)


@pytest.mark.peers
@pytest.mark.parametrize("path", [path for path in ALL if not parse(path).only_tarmac], ids=lambda path: path.stem)
def test_session_on_the_real_server(path: Path, peer: Peer, tmp_path: Path) -> None:
    check(path, os.environ.get("TARMAC_PEER_KUBECTL") or kubectl_path(), peer.kubeconfig, tmp_path)
