"""A user's own image: an archive is loaded into the cities, runs there, and is replaced by the next."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tarmac.runtimes.parts import find_parts
from tests.node.planet import Planet, eventually
from tools.oci import Entry, Image, write_image

pytestmark = [pytest.mark.root, pytest.mark.timeout(240)]

NAME = "docker.io/library/mine"


def tarmac(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tarmac.apps.main", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def archive(folder: Path, tag: str) -> Path:
    """Write an image of a program that prints its version, with the files of the platform's busybox."""
    script = f"#!/bin/sh\necho this is version {tag}\ntrap 'exit 0' TERM\nsleep 3600 & wait\n"
    layers = [list(platform_files()), [Entry("app", script.encode())]]
    target = folder / f"mine-{tag}.tar"
    write_image(Image(f"{NAME}:{tag}", layers, entrypoint=("/app",), environment={"PATH": "/bin"}), target)
    return target


def platform_files() -> Iterator[Entry]:
    """Yield the files of the platform's busybox image."""
    path = next(each for each in find_parts().images if "busybox" in each.name)
    with tarfile.open(path) as outer:
        manifest = json.loads(
            content(outer, f"blobs/{digest(json.loads(content(outer, 'index.json'))['manifests'][0])}")
        )
        for layer in manifest["layers"]:
            with tarfile.open(fileobj=io.BytesIO(content(outer, f"blobs/{digest(layer)}")), mode="r:gz") as inner:
                for member in inner.getmembers():
                    yield entry(inner, member)


def entry(layer: tarfile.TarFile, member: tarfile.TarInfo) -> Entry:
    inside = content(layer, member.name) if member.isreg() else None
    hard, symbolic = member.linkname if member.islnk() else "", member.linkname if member.issym() else ""
    return Entry(member.name, inside, member.mode, hard, symbolic)


def content(archive: tarfile.TarFile, name: str) -> bytes:
    file = archive.extractfile(name)
    assert file is not None, name
    return file.read()


def digest(descriptor: dict[str, Any]) -> str:
    return descriptor["digest"].replace(":", "/")


def workload(tag: str) -> dict[str, Any]:
    runtime = {
        "resources": {"instanceType": "datumcloud/d1-custom", "requests": {"cpu": "100m", "memory": "64Mi"}},
        "sandbox": {"containers": [{"name": "main", "image": f"{NAME}:{tag}"}]},
    }
    template = {"spec": {"runtime": runtime, "networkInterfaces": [{"network": {"name": "default"}}]}}
    placement = {"name": "all", "cityCodes": ["DFW", "LHR"], "scaleSettings": {"minReplicas": 1}}
    return {
        "apiVersion": "compute.datumapis.com/v1alpha",
        "kind": "Workload",
        "metadata": {"name": "mine", "namespace": "default"},
        "spec": {"template": template, "placements": [placement]},
    }


def says(planet: Planet, text: str) -> bool:
    names = planet.kubectl("get", "instances", "-o", "name").split()
    return len(names) == 2 and all(
        text in planet.kubectl.run("logs", each.replace("instance.compute.datumapis.com", "pod")).out for each in names
    )


def test_an_archive_is_loaded_runs_in_two_cities_and_is_updated(planet: Planet, tmp_path: Path) -> None:
    data = ("--data-dir", str(planet.data_dir))
    loaded = tarmac("image", "load", str(archive(tmp_path, "1")), *data)
    assert (loaded.returncode, loaded.stdout) == (0, f"DFW: {NAME}:1\nLHR: {NAME}:1\n"), loaded.stderr
    try:
        planet.apply(workload("1"))
        eventually(lambda: says(planet, "this is version 1"), 90, "version 1 in two cities")
        second = archive(tmp_path, "2")
        one = tarmac("image", "load", str(second), "--city", "dfw", *data)
        assert one.stdout == f"DFW: {NAME}:2\n", one.stderr
        rows = [line.split() for line in tarmac("image", "list", *data).stdout.splitlines()]
        cities = {row[0]: row[-1] for row in rows}
        assert (cities[f"{NAME}:1"], cities[f"{NAME}:2"]) == ("DFW,LHR", "DFW")
        assert tarmac("image", "load", str(second), *data).returncode == 0
        planet.apply(workload("2"))
        eventually(lambda: says(planet, "this is version 2"), 120, "version 2 in two cities")
    finally:
        planet.kubectl.run("delete", "workload", "mine", "--wait=true")


def test_an_image_that_cannot_be_loaded_is_refused_with_a_message(planet: Planet, tmp_path: Path) -> None:
    data = ("--data-dir", str(planet.data_dir))
    path = tmp_path / "app.tar"
    path.write_bytes(b"nothing of the kind")
    assert "is no archive of images" in tarmac("image", "load", str(path), *data).stderr
    assert "no such file or directory" in tarmac("image", "load", str(tmp_path / "none.tar"), *data).stderr
    wrong = tarmac("image", "list", "--city", "OSL", *data)
    assert (wrong.returncode, wrong.stderr) == (
        1,
        f"error: OSL: no such city in {planet.data_dir}, which has DFW, LHR\n",
    )
    nowhere = tarmac("image", "list", "--data-dir", str(tmp_path / "nowhere"))
    assert "no cities with real containers" in nowhere.stderr
