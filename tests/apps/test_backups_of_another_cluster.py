"""`tarmac restore` of a backup of another cluster: rejected, or its objects under the keys of this one."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from tarmac.api.status import Unauthorized
from tarmac.client.errors import ClientError
from tarmac.client.kubeconfig import load
from tests.apps.test_backups import killed_at, tarmac
from tests.apps.test_restoring import STEPS, World
from tests.apps.test_rotations_in_between import connected
from tests.support.kubectl import Kubectl
from tests.support.tarmac_process import TarmacProcess

pytestmark = pytest.mark.timeout(120)
ANYWAY = ("--accept-loss", "--from-another-cluster")


class Here:
    """A server with a Secret of its own, stopped, and the backup of another cluster."""

    def __init__(self, folder: Path, their: World) -> None:
        self.folder, self.data, self.their = folder, folder / "here", their
        self.server = TarmacProcess(self.data, "--controllers=namespace")
        self.passphrase = f"--passphrase-file={their.passphrase}"

    def make(self) -> None:
        with self.server:
            kubectl = Kubectl(self.server.kubeconfig, self.folder)
            kubectl("create", "secret", "generic", "own", "--from-literal=word=mine")
            self.server.stop()

    def copy(self, folder: Path) -> Here:
        other = Here(folder, self.their)
        shutil.copytree(self.data, other.data)
        return other

    def command(self, *flags: str) -> tuple[str, ...]:
        return ("restore", str(self.their.file), f"--data-dir={self.data}", *flags)

    def keys(self) -> dict[str, bytes]:
        """Return the files that identify the cluster."""
        names = ("pki/ca.crt", "pki/ca.key", "pki/sa.key", "secrets.key")
        return {name: (self.data / name).read_bytes() for name in names}

    def word(self, namespace: str, name: str) -> str:
        """Return the Secret as this cluster's administrator reads it."""
        kubectl = Kubectl(self.server.kubeconfig, self.folder)
        return kubectl("-n", namespace, "get", "secret", name, "-o", "jsonpath={.data.word}")


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Here:
    here = Here(tmp_path_factory.mktemp("here"), World(tmp_path_factory.mktemp("their")))
    here.make()
    return here


@pytest.fixture
def here(original: Here, tmp_path: Path) -> Here:
    return original.copy(tmp_path)


def test_it_is_refused_with_both_ways_on_and_nothing_is_changed(here: Here) -> None:
    keys, store = here.keys(), (here.data / "store.db").read_bytes()
    for passphrase in ((), (here.passphrase,)):
        refused = tarmac(*here.command("--accept-loss", *passphrase))
        assert refused.returncode == 3
        [_, line] = refused.stderr.splitlines()
        assert line.startswith(f"error: cluster: {here.their.file} is of another cluster than {here.data / 'pki'}")
        assert f"move {here.data / 'pki'} and {here.data / 'secrets.key'} away and give --passphrase-file" in line
        assert line.endswith("give --from-another-cluster")
    assert (here.keys(), (here.data / "store.db").read_bytes()) == (keys, store)


def test_its_objects_are_taken_on_demand_and_the_keys_of_this_cluster_stay(here: Here) -> None:
    keys = here.keys()
    blind = tarmac(*here.command(*ANYWAY))
    assert (blind.returncode, blind.stderr.endswith("; give --passphrase-file\n")) == (3, True), (
        "Secrets cannot be decrypted"
    )
    done = tarmac(*here.command(*ANYWAY, here.passphrase))
    assert done.returncode == 0, done.stderr
    assert here.keys() == keys
    with here.server:
        assert here.word("shop", "word") == "aHVudGVyMmh1bnRlcjI="
        assert "own" not in Kubectl(here.server.kubeconfig, here.folder)("get", "secrets", "-o", "name")
        assert here.keys() == keys, "the server follows no record of the other cluster's keys"


async def test_administrators_of_the_other_cluster_are_not_administrators_here(here: Here) -> None:
    done = tarmac(*here.command(*ANYWAY, here.passphrase))
    assert done.returncode == 0, done.stderr
    with here.server:
        own, their = (load(str(each.server.kubeconfig)).http for each in (here, here.their))
        for ca in (own.ca, their.ca):
            async with connected(replace(their, url=own.url, ca=ca, servers=())) as client:
                with pytest.raises((ClientError, Unauthorized)):
                    await client.call("GET", "/api/v1/namespaces")


def test_killed_at_every_step_this_cluster_or_the_restored_one_is_whole(original: Here, tmp_path: Path) -> None:
    keys = original.keys()
    for step in STEPS:
        folder = tmp_path / step
        folder.mkdir()
        here = original.copy(folder)
        killed_at(step, *here.command(*ANYWAY, here.passphrase))
        assert here.keys() == keys
        with here.server:
            if step in ("checks", "keys"):
                assert here.word("default", "own") == "bWluZQ=="
            else:
                names = Kubectl(here.server.kubeconfig, folder)("get", "secrets", "-A", "-o", "name")
                assert ("secret/own" in names) != ("secret/word" in names)


def test_a_host_that_was_set_up_too_early_becomes_the_server_that_was_backed_up(here: Here) -> None:
    """The error suggests it: a host without keys of its own is new."""
    (here.data / "pki").rename(here.folder / "moved")
    (here.data / "secrets.key").rename(here.folder / "moved.key")
    done = tarmac(*here.command("--accept-loss", here.passphrase))
    assert done.returncode == 0, done.stderr
    assert here.keys()["pki/ca.key"] == (here.their.data / "pki" / "ca.key").read_bytes()
    with here.server:
        assert here.word("shop", "word") == "aHVudGVyMmh1bnRlcjI="
