"""The servers for tests of client libraries: Tarmac always, the real kube-apiserver with PEERS=1."""

from __future__ import annotations

import gc
import os
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.support.peer import running_peer
from tests.support.tarmac_process import TarmacProcess


@pytest.fixture(scope="package", params=["tarmac", pytest.param("real", marks=pytest.mark.peers)])
def kubeconfig(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Generator[Path]:
    if request.param == "real":
        if os.environ.get("PEERS") != "1":
            pytest.skip("NOT RUN: the real kube-apiserver is only there with PEERS=1")
        with running_peer() as peer:
            yield peer.kubeconfig
    else:
        with TarmacProcess(tmp_path_factory.mktemp("clients") / "data") as server:
            yield server.kubeconfig
    gc.collect()  # sockets that the libraries left open must not fail a later test
