"""Local disks on real nodes: created on the pod's node, kept over pods, grown on demand, deleted with their claims."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.node.planet import Planet, busybox, eventually, pod

pytestmark = [pytest.mark.root, pytest.mark.timeout(180)]


def claim(size: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "tarmac-local",
            "resources": {"requests": {"storage": size}},
        },
    }


def writer(name: str, **spec: Any) -> dict[str, Any]:
    mounted = busybox(volumeMounts=[{"name": "data", "mountPath": "/data"}])
    return pod(name, mounted, volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}], **spec)


def images(planet: Planet) -> list[Path]:
    """Return the disks of all cities."""
    return sorted(planet.data_dir.rglob("disks/*.img"))


@pytest.fixture(scope="module")
def disk(planet: Planet) -> Iterator[Planet]:
    """A claim of 16 MiB, first used by a pod in LHR."""
    planet.apply(claim("16Mi"), writer("first", nodeSelector={"topology.datum.net/location": "lhr"}))
    planet.wait("pod/first", "condition=Ready")
    yield planet
    planet.remove("first", "second", "third")
    planet.kubectl.run("delete", "pvc", "data", "--ignore-not-found")


def test_a_disk_is_made_where_its_first_pod_goes_and_outlives_it(disk: Planet) -> None:
    disk.exec("first", "sh", "-c", "echo kept > /data/file")
    volume = disk.get("pv", disk.get("pvc", "data")["spec"]["volumeName"])
    assert volume["metadata"]["labels"] == {"compute.datumapis.com/disk-node": "lhr-0"}
    assert [path.stem for path in images(disk)] == [volume["metadata"]["name"]]
    disk.remove("first")
    disk.apply(writer("second"))
    disk.wait("pod/second", "condition=Ready")
    assert disk.get("pod", "second")["spec"]["nodeName"] == "lhr-0"
    assert disk.exec("second", "cat", "/data/file") == "kept\n"


def test_its_size_is_real_and_grows_by_its_next_mount(disk: Planet) -> None:
    full = disk.kubectl.run("exec", "second", "--", "dd", "if=/dev/zero", "of=/data/fill", "bs=1M", "count=20")
    assert "No space left on device" in str(full)
    disk.kubectl("patch", "pvc", "data", "-p", '{"spec":{"resources":{"requests":{"storage":"48Mi"}}}}')

    def grown() -> bool:
        status = disk.get("pvc", "data")["status"]
        return status["capacity"] == {"storage": "48Mi"} and not status.get("conditions")

    # An agent that may not grow a mounted filesystem grows it now; another one has done so before.
    disk.remove("second")
    disk.apply(writer("third"))
    disk.wait("pod/third", "condition=Ready")
    eventually(grown, 30, "the disk's growth")
    disk.exec("third", "dd", "if=/dev/zero", "of=/data/fill", "bs=1M", "count=20")
    assert disk.exec("third", "cat", "/data/file") == "kept\n"


def test_a_disk_is_removed_with_its_claim(disk: Planet) -> None:
    name = disk.get("pvc", "data")["spec"]["volumeName"]
    disk.remove("third")
    disk.kubectl("delete", "pvc", "data", "--wait")
    eventually(lambda: disk.kubectl.run("get", "pv", name).code != 0, 30, "the volume's end")
    assert images(disk) == []
