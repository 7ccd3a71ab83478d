"""A server starts with SQLite, moves to an etcd elsewhere, and a second one joins: the first may then be lost.

A second one that is killed at any step of joining is removed again by force, and leaves nothing. (Tests without
machines show that the same command continues after a kill at each step.)
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tarmac.client.kubeconfig import with_servers
from tests.apps.test_one_more_server import STEPS
from tests.machines.boxes import Box, boxes, until
from tests.soak import SOAK
from tests.store.conftest import ETCDS, etcd_binary

pytestmark = [pytest.mark.root, pytest.mark.timeout(600 if SOAK else 180)]

ALPHA, BETA, STORE = "https://198.18.0.1:6443", "https://198.18.0.2:6443", "etcd://198.18.0.3:2379?compact=0"
KUBECONFIG = ("--kubeconfig", "/var/lib/tarmac/kubeconfig")


@contextmanager
def etcd_on(box: Box, log: Path) -> Generator[None]:
    url = "http://198.18.0.3:2379"
    flags = ["--data-dir=/var/lib/tarmac/etcd-data", f"--listen-client-urls={url}", f"--advertise-client-urls={url}"]
    with log.open("w") as out:
        process = subprocess.Popen(box.command(str(etcd_binary(ETCDS[-1])), *flags), stdout=out, stderr=out)
    try:
        yield
    finally:
        process.terminate()
        process.wait(20)


def server_token(box: Box) -> str:
    made = box.run("token", "create", "--server", *KUBECONFIG)
    assert made.returncode == 0, made.stderr
    return made.stdout.strip()


def test_a_second_server_takes_over_from_the_first(tmp_path: Path) -> None:
    with boxes(tmp_path, "alpha", "beta", "gamma") as (alpha, beta, gamma), etcd_on(gamma, tmp_path / "etcd.log"):
        init = ("init", "--foreground", "--listen", "198.18.0.1:6443")
        first = alpha.start(*init)
        first.until_said("join another machine")
        assert "created" in alpha.kubectl("create", "configmap", "kept", "--from-literal=a=b")
        refused = beta.run("join", "--server", "198.18.0.1", "--token", server_token(alpha))
        assert refused.returncode == 1
        assert "the server uses SQLite, which one server can use: tarmac store migrate" in refused.stderr
        assert "is in use by another server" in alpha.run("store", "migrate", "--to", STORE).stderr
        first.stop()

        moved = alpha.run("store", "migrate", "--to", STORE)
        assert moved.returncode == 0, moved.stderr
        second = alpha.start(*init)
        second.until_said("join another machine")
        assert "already initialized (CA sha256:" in second.said
        joining = ("join", "--server", "198.18.0.1", "--listen", "198.18.0.2:6443", "--token", server_token(alpha))
        beta.start(*joining, "--foreground").until_said("joined as server beta")
        slices = ("get", "endpointslices", "kubernetes", "-o", "json")
        until(lambda: len(json.loads(beta.kubectl(*slices))["endpoints"]) == 2)
        until(lambda: ALPHA in beta.path("/var/lib/tarmac/kubeconfig").read_text(), 70)
        assert "b" in beta.kubectl("get", "configmap", "kept", "-o", "jsonpath={.data.a}")

        # The state after a minute with only alpha; then alpha is gone, and its address does not respond.
        known = with_servers(alpha.path("/var/lib/tarmac/kubeconfig").read_text(), [ALPHA, BETA])
        beta.path("/var/lib/tarmac/alphas.kubeconfig").write_text(known)
        alpha.pull_the_plug()
        listed = beta.run("token", "list", "--kubeconfig", "/var/lib/tarmac/alphas.kubeconfig")
        assert listed.returncode == 0, listed.stderr
        assert "(server)" in listed.stdout
        assert "created" in beta.kubectl("create", "configmap", "after", "--from-literal=a=b")
        left = beta.run("leave", "--force", "--delete-data")
        assert left.returncode == 0, left.stderr
        assert not beta.path("/var/lib/tarmac/pki").exists()
        assert not beta.path("/var/lib/tarmac/join.key").exists()


@pytest.mark.soak(minutes=1, only=True)
def test_a_server_killed_on_its_way_in_leaves_nothing_when_forced(tmp_path: Path) -> None:
    with boxes(tmp_path, "alpha", "beta", "gamma") as (alpha, beta, gamma), etcd_on(gamma, tmp_path / "etcd.log"):
        init = ("init", "--foreground", "--listen", "198.18.0.1:6443", "--store", STORE)
        alpha.start(*init).until_said("join another machine")
        for step in 3 * STEPS:
            token = server_token(alpha)
            joining = ("join", "--server", "198.18.0.1", "--listen", "198.18.0.2:6443", "--token", token)
            started = beta.start(*joining, "--foreground")
            started.until_said(f"tarmac: {step}\n")
            started.kill()
            left = beta.run("leave", "--force", "--delete-data")
            assert left.returncode == 0, left.stderr
            assert not any(beta.leftovers().values()), (step, beta.leftovers())
