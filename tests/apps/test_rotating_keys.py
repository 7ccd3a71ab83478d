"""New keys for a working cluster: old credentials work until the old keys are retired; kill -9 loses nothing."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tarmac.client.targets.untyped import CONFIG_MAPS, SECRETS
from tarmac.http.bundles import certificates_in
from tests.store.conftest import ETCDS, etcd_binary
from tests.support.etcd import EtcdCluster
from tests.support.kubectl import Kubectl
from tests.support.logged_in import Load, client_of, under_load
from tests.support.tarmac_process import TarmacProcess


def rotate(server: TarmacProcess, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tarmac.apps.main", "rotate", *words, f"--kubeconfig={server.kubeconfig}"]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


async def status(server: TarmacProcess, what: str) -> dict[str, Any]:
    client = client_of(server.kubeconfig)
    try:
        return json.loads((await client.call("GET", f"/tarmac/v1/rotations/{what}")).body)
    finally:
        await client.close()


async def reached(server: TarmacProcess, what: str, *stages: str) -> dict[str, Any]:
    async with asyncio.timeout(90):
        while (found := await status(server, what))["stage"] not in stages:
            await asyncio.sleep(0.2)
    return found


def kept_kubeconfig(server: TarmacProcess, folder: Path) -> Path:
    """Return a copy of the kubeconfig from before the rotation."""
    return Path(shutil.copy(server.kubeconfig, folder / "before.kubeconfig"))


async def secrets_of(kubeconfig: Path) -> dict[str, str]:
    client = client_of(kubeconfig)
    try:
        listed = (await client.resource(SECRETS).list("default")).items
        return {each["metadata"]["name"]: each["data"]["word"] for each in listed}
    finally:
        await client.close()


async def make_secrets(kubeconfig: Path, count: int) -> None:
    client = client_of(kubeconfig)
    try:
        for number in range(count):
            metadata = {"name": f"s{number}", "namespace": "default"}
            word = {"word": f"d29y{number:04d}"}
            await client.resource(SECRETS).create(
                {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": word}
            )
    finally:
        await client.close()


def trusted(server: TarmacProcess) -> list[str]:
    return certificates_in((server.data_dir / "pki" / "ca.crt").read_text())


async def trust_only_the_new_one(one: TarmacProcess, other: TarmacProcess) -> None:
    """Wait until both files hold one and the same authority: each server follows the store at its own pace."""
    async with asyncio.timeout(30):
        while len(trusted(one)) != 1 or trusted(one) != trusted(other):
            await asyncio.sleep(0.1)


async def run(server: TarmacProcess, *words: str) -> subprocess.CompletedProcess[str]:
    """Run in a thread, while clients of the loop continue."""
    return await asyncio.to_thread(rotate, server, *words)


async def killed(server: TarmacProcess) -> None:
    server.kill()
    await asyncio.to_thread(server.start)


async def goes_on(load_made: Load) -> None:
    done, seen = load_made.done, load_made.seen
    async with asyncio.timeout(30):
        while load_made.done < done + 10 or load_made.seen < seen + 10:
            await asyncio.sleep(0.05)
    assert load_made.refusals == [], "no client lost its login"


async def is_refused(load_made: Load) -> None:
    async with asyncio.timeout(30):
        while not load_made.refusals:
            await asyncio.sleep(0.05)


@pytest.mark.timeout(240)
async def test_an_old_kubeconfig_works_until_the_old_authority_is_retired(tmp_path: Path) -> None:
    with TarmacProcess(tmp_path / "data") as server:
        before = kept_kubeconfig(server, tmp_path)
        kubectl = Kubectl(before, tmp_path)
        (first,) = trusted(server)
        async with under_load(before) as load_made:
            begun = await run(server, "ca")
            assert (begun.returncode, begun.stderr) == (0, "")
            assert "join tokens name the authority" in begun.stdout
            await killed(server)  # just after the start
            await reached(server, "ca", "signing")
            await killed(server)  # just after the switch
            second = trusted(server)[0]
            assert trusted(server) == [second, first]
            assert "kube-system" in kubectl("get", "namespaces"), "by the certificate in the chain"
            refused = await run(server, "ca", "--retire")
            assert refused.returncode == 3
            assert "in the last 7 days: kubernetes-admin" in refused.stderr
            await goes_on(load_made)
            assert await root_ca(server, first, second), "pods get both authorities"
            retired = await run(server, "ca", "--retire", "--force")
            assert retired.stdout.startswith("settled: "), retired.stderr
            await is_refused(load_made)
        await killed(server)  # just after the end of the old one
        assert trusted(server) == [second]
        assert "certificate" in kubectl.fails("get", "namespaces")
        assert await secrets_of(server.kubeconfig) == {}, "the server's own kubeconfig is of the new one"
        told = await run(server, "ca", "--status", "-o", "json")
        assert json.loads(told.stdout)["stage"] == "settled"


async def root_ca(server: TarmacProcess, *wanted: str) -> bool:
    client = client_of(server.kubeconfig)
    try:
        async with asyncio.timeout(30):
            while True:
                found = await client.resource(CONFIG_MAPS).get("kube-root-ca.crt", "default")
                if set(certificates_in(found["data"]["ca.crt"])) == {*wanted}:
                    return True
                await asyncio.sleep(0.2)
    finally:
        await client.close()


@pytest.mark.timeout(240)
async def test_secrets_are_read_before_during_and_after_their_key_is_rotated(tmp_path: Path) -> None:
    with TarmacProcess(tmp_path / "data", "--controllers=-*") as server:
        file = server.data_dir / "secrets.key"
        first = file.read_text().split()[0]
        await make_secrets(server.kubeconfig, 60)
        known = await secrets_of(server.kubeconfig)
        async with under_load(server.kubeconfig) as load_made:
            assert (await run(server, "encryption")).returncode == 0
            early = await run(server, "encryption", "--retire", "--force")
            assert early.returncode in (0, 3), early.stderr
            if early.returncode == 3:  # else it was faster than the second command
                assert "Secrets would be lost" in early.stderr
                await killed(server)
                assert await secrets_of(server.kubeconfig) == known
                await reached(server, "encryption", "sealing", "sealed")
                await killed(server)
                assert await secrets_of(server.kubeconfig) == known
                found = await reached(server, "encryption", "sealed")
                assert found["waiting"] == []
                await killed(server)
                assert (await run(server, "encryption", "--retire")).stdout.startswith("settled: ")
            await goes_on(load_made)
        async with asyncio.timeout(20):
            while len(file.read_text().splitlines()) > 1:
                await asyncio.sleep(0.1)
        assert first not in file.read_text()
        server.kill()
        server.start()  # it opens every row that there is, and has the new key only
        assert await secrets_of(server.kubeconfig) == known


@pytest.fixture
def two(tmp_path: Path) -> Iterator[list[TarmacProcess]]:
    """Two servers on one etcd, each with files of its own, as on two machines."""
    (tmp_path / "etcd").mkdir()
    etcd = EtcdCluster(etcd_binary(ETCDS[-1]), tmp_path / "etcd")
    etcd.start()
    store = f"--store=etcd://{etcd.endpoints[0]}?prefix=/two"
    try:
        with TarmacProcess(tmp_path / "one", store) as one:
            (tmp_path / "two").mkdir()
            shutil.copytree(one.data_dir / "pki", tmp_path / "two" / "pki", ignore=shutil.ignore_patterns("server.*"))
            shutil.copy(one.data_dir / "secrets.key", tmp_path / "two")
            with TarmacProcess(tmp_path / "two", store) as other:
                yield [one, other]
    finally:
        etcd.stop()


@pytest.mark.timeout(300)
async def test_two_servers_rotate_together_and_one_that_was_away_follows(
    two: list[TarmacProcess], tmp_path: Path
) -> None:
    one, other = two
    before = kept_kubeconfig(other, tmp_path)
    await make_secrets(one.kubeconfig, 20)
    known = await secrets_of(other.kubeconfig)
    async with under_load(before) as load_made:
        for what in ("ca", "encryption"):
            assert (await run(one, what)).returncode == 0
        await killed(one)
        await reached(one, "ca", "signing")
        await goes_on(load_made)
        assert await secrets_of(other.kubeconfig) == known
        await reached(other, "encryption", "sealing", "sealed")
        await killed(one)
        await reached(other, "encryption", "sealed")
        assert [await secrets_of(each.kubeconfig) for each in two] == [known, known]
        await goes_on(load_made)
        other.kill()
        assert (await run(one, "ca", "--retire", "--force")).returncode == 0
        await asyncio.to_thread(other.start)  # away when the old authority was retired
        await is_refused(load_made)
    await trust_only_the_new_one(one, other)
    assert (await run(other, "encryption", "--retire")).stdout.startswith("settled: ")
    assert [await secrets_of(each.kubeconfig) for each in two] == [known, known]
    await killed(other)
    assert await secrets_of(other.kubeconfig) == known
