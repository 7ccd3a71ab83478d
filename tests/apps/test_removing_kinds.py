"""`tarmac crds --remove` is bounded and names remaining objects; with it, the plain manifests leave nothing."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.kubectl import Kubectl
from tests.support.peer import Peer, running_peer
from tests.support.tarmac_process import TarmacProcess
from tools.kubernetes_manifests import FOLDER

_LOCATION = """
apiVersion: networking.datumapis.com/v1alpha
kind: Location
metadata: {name: dfw, finalizers: [networking.datumapis.com/location]}
spec:
  locationClassName: self-managed
  topology: {topology.datum.net/city-code: DFW}
  provider: {nodes: {}}
"""


def removed(kubeconfig: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tarmac.apps.main", "crds", "--remove", f"--kubeconfig={kubeconfig}", *flags]
    return subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)


@pytest.fixture
def peer() -> Iterator[Peer]:
    """A server of its own, since the kinds of the others are removed."""
    with running_peer() as found:
        yield found


@pytest.mark.peers
@pytest.mark.timeout(240)
def test_a_removal_names_objects_that_are_left_and_then_removes_every_kind(peer: Peer, tmp_path: Path) -> None:
    kubectl = Kubectl(peer.kubeconfig, tmp_path)
    assert removed(peer.kubeconfig).returncode == 0, "nothing is installed"
    kubectl("apply", "--server-side", "-k", str(FOLDER))
    kubectl("wait", "crds", "--all", "--for=condition=Established", "--timeout=25s")
    kubectl("create", "-f", "-", stdin=_LOCATION)

    left = removed(peer.kubeconfig, "--timeout=1s")
    assert left.returncode == 1
    assert "deleting objects: 1 Location" in left.stdout
    assert "Location dfw (finalizers: networking.datumapis.com/location); check that the controllers run" in left.stderr
    assert len(kubectl("get", "crds", "-o", "name").split()) == 22, "definitions stay while objects are left"

    kubectl("patch", "location/dfw", "--type=merge", "-p", '{"metadata":{"finalizers":null}}')
    done = removed(peer.kubeconfig)
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("removed: no object and no definition of Tarmac's kinds is left\n")
    assert kubectl("get", "crds", "-o", "name") == ""
    kubectl("delete", "-k", str(FOLDER), "--ignore-not-found")
    kinds = "clusterroles,clusterrolebindings,serviceaccounts,deployments,leases"
    assert "tarmac" not in kubectl("get", kinds, "-A", "-o", "name")
    assert kubectl("get", "runtimeclasses", "-o", "name") == ""


def test_a_removal_is_refused_by_tarmacs_own_server(tmp_path: Path) -> None:
    with TarmacProcess(tmp_path / "data", "--controllers=") as server:
        done = removed(server.kubeconfig)
    assert done.returncode == 1
    assert "the server has no CustomResourceDefinitions" in done.stderr


def test_a_removal_ends_at_its_timeout_without_a_server(tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(
        '{"clusters":[{"name":"c","cluster":{"server":"http://127.0.0.1:1"}}],"users":[],'
        '"contexts":[{"name":"c","context":{"cluster":"c"}}],"current-context":"c"}'
    )
    done = removed(kubeconfig, "--timeout=1s")
    assert done.returncode == 1
    assert done.stdout.startswith("retrying: ")
    assert "127.0.0.1:1" in done.stderr
