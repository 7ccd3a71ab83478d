"""The pair of servers on which the cases run."""

from __future__ import annotations

import json
from collections.abc import Generator, Iterable
from dataclasses import dataclass

import pytest

from tarmac.api.catalog import build_catalog
from tarmac.api.crds import crd_documents
from tests.differential.playing import wait_until_served
from tests.differential.servers import Server
from tests.differential.shared import CLUSTER_OBJECTS, WORKLOADS
from tests.support.peer import Peer
from tests.support.tarmac_process import TarmacProcess

_CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


@dataclass(frozen=True)
class Pair:
    """The real server and ours."""

    real: Server
    ours: Server


@pytest.fixture(scope="session")
def pair(peer: Peer, tmp_path_factory: pytest.TempPathFactory) -> Generator[Pair]:
    """Both servers without controllers, our kinds as CRDs on the real one, and the same locations on both."""
    with TarmacProcess(tmp_path_factory.mktemp("tarmac") / "data", "--controllers=-*") as tarmac:
        ca = (tarmac.data_dir / "pki" / "ca.crt").read_text()
        real = Server("kube-apiserver", peer.url, peer.ca, token=peer.token)
        ours = Server("tarmac", tarmac.url, ca, tarmac.client_context())
        _install(real, ((_CRDS, crd) for crd in crd_documents(build_catalog())))
        wait_until_served(real, WORKLOADS.replace("$ns", "default"))
        for server in (real, ours):
            for path, _ in CLUSTER_OBJECTS:
                wait_until_served(server, path)
            _install(server, CLUSTER_OBJECTS)
        yield Pair(real, ours)


def _install(server: Server, objects: Iterable[tuple[str, object]]) -> None:
    for path, body in objects:
        made = server.send("POST", path, {"Content-Type": "application/json"}, json.dumps(body).encode(), True)
        assert made.status in (201, 409), (server.name, path, made.body)
