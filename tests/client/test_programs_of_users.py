"""The client for programs of users: the example runs against a planet, changes are typed and survive a restart."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tarmac.api.compute.workload import Workload
from tarmac.api.networking.location import Location
from tarmac.api.status import Forbidden, NotFound
from tarmac.client.kubeconfig import load
from tarmac.client.targets.typed import LOCATIONS, WORKLOADS
from tarmac.client.targets.untyped import CONFIG_MAPS
from tarmac.client.usercluster import TypedChange, UserCluster
from tests.support.tarmac_process import TarmacProcess
from tools.cache import ROOT

pytestmark = pytest.mark.timeout(120)

EXAMPLE = ROOT / "examples" / "python" / "deploy.py"
_FLAGS = ("--runtime", "sim", "--cities", "DFW,SEA", "--sim-nodes", "1", "--no-kubeconfig")


@pytest.fixture(scope="module")
def planet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TarmacProcess]:
    with TarmacProcess(tmp_path_factory.mktemp("planet") / "data", *_FLAGS, command="up") as process:
        yield process


def connected(planet: TarmacProcess) -> UserCluster:
    return UserCluster.connect(str(planet.kubeconfig))


def manifest(folder: Path, name: str, cpu: str = "100m") -> Path:
    text = (ROOT / "examples" / "web.yaml").read_text()
    assert "cpu: 100m" in text
    file = folder / f"{name}.yaml"
    file.write_text(text.replace("name: web\n", f"name: {name}\n", 1).replace("cpu: 100m", f"cpu: {cpu!r}"))
    return file


def test_the_example_deploys_and_waits(planet: TarmacProcess, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(EXAMPLE), str(manifest(tmp_path, "web"))], capture_output=True, text=True, timeout=90,
        env={**os.environ, "KUBECONFIG": str(planet.kubeconfig)},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("applied web, generation 1\nready: web-dfw-")
    assert "\nready: web-sea-" in done.stdout


async def test_an_explanation_of_a_workload_names_its_cities(planet: TarmacProcess, tmp_path: Path) -> None:
    async with connected(planet) as cluster:
        text = manifest(tmp_path, "big", cpu="64").read_text()
        await cluster.call("POST", WORKLOADS.path("default"), body=text.encode(), headers={
            "content-type": "application/yaml", "accept": "application/json",
        })  # fmt: skip
        async with asyncio.timeout(30):
            while "ready" not in (explanation := await cluster.why(WORKLOADS, "big")).sentence:
                await asyncio.sleep(0.1)
        assert "0 of 2 instances ready" in explanation.sentence
        assert {each.city for each in explanation.verdicts} >= {"DFW", "SEA"}
        await cluster.resource(WORKLOADS).delete("big", "default")
        with pytest.raises(NotFound):
            await cluster.why(WORKLOADS, "nope")


async def test_changes_begin_with_what_is_there_and_are_typed(planet: TarmacProcess) -> None:
    async with connected(planet) as cluster, cluster.changes(LOCATIONS) as changes:
        found: list[TypedChange[Location]] = [await anext(changes), await anext(changes)]
        assert {(each.type, each.object.metadata.name) for each in found} == {("ADDED", "dfw"), ("ADDED", "sea")}
        assert all(isinstance(each.object, Location) for each in found)


async def test_a_refusal_ends_the_iteration(planet: TarmacProcess) -> None:
    context = load(str(planet.kubeconfig))
    async with UserCluster(context) as cluster:
        path = "/api/v1/namespaces/default/serviceaccounts/default/token"
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        token = await cluster.call("POST", path, body=json.dumps(request).encode())
        credentials = type(context.http)(
            context.http.url, ca=context.http.ca, token=json.loads(token.body)["status"]["token"]
        )
    async with UserCluster(replace(context, http=credentials)) as cluster, cluster.changes(WORKLOADS) as changes:
        with pytest.raises(Forbidden):
            await anext(changes)


async def test_changes_survive_a_restarted_server(tmp_path: Path) -> None:
    """Creates and deletes during the outage arrive once the server is back."""
    with TarmacProcess(tmp_path / "data") as server:
        async with UserCluster.connect(str(server.kubeconfig)) as cluster:
            maps = cluster.resource(CONFIG_MAPS)
            await maps.create(
                {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "default"}}
            )
            seen: list[tuple[str, str]] = []
            async with asyncio.timeout(60), cluster.changes(CONFIG_MAPS, "default") as changes:
                async for change in changes:
                    name = change.object["metadata"]["name"]
                    seen.append((change.type, name))
                    if seen[-1] == ("ADDED", "a"):
                        server.kill()
                        server.start()
                        await maps.delete("a", "default")
                    elif seen[-1] == ("DELETED", "a"):
                        break
            assert ("DELETED", "a") in seen


def test_kinds_are_the_declared_classes() -> None:
    assert WORKLOADS.type is Workload
