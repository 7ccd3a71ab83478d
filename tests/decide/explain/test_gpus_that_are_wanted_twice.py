"""The smallest change for a Workload that waits for a GPU: it names a pod to delete, and no unrelated one."""

from __future__ import annotations

from typing import Any

import pytest

from tarmac.api.schema import JsonObject
from tarmac.decide.explain import EXPLAINERS
from tarmac.decide.snapshot.snapshot import NODES, WORKLOADS
from tests.decide.explain.world import LOCATION, Scene, workload

GPU = "datumcloud.com/nvidia-h200"


def wants_a_gpu(name: str, replicas: int = 1, **metadata: Any) -> JsonObject:
    """Return a Workload in one city, with instances that request one GPU each and name no class."""
    found = workload("DFW", name=name, replicas=replicas)
    found["metadata"].update(metadata)
    found["spec"]["template"]["spec"]["runtime"]["resources"]["requests"][GPU] = "1"
    return found


@pytest.fixture
def scene() -> Scene:
    """Return a scene of one node with one GPU."""
    made = Scene()
    made.place("DFW", nodes=0)
    labels = {"kubernetes.io/hostname": "dfw-0", LOCATION: "dfw"}
    amounts = {"cpu": "16", "memory": "64Gi", "pods": "110", GPU: "1"}
    devices = {"node.tarmac/devices": f'{{"resources":["{GPU}"],"handlers":["","runc","gvisor","gvisor-nvidia"]}}'}
    metadata = {"name": "dfw-0", "labels": labels, "annotations": devices}
    made.put(NODES.resource, {"metadata": metadata, "spec": {}, "status": {"allocatable": amounts}})
    return made


def smallest_change(scene: Scene, key: str) -> str:
    found = EXPLAINERS[WORKLOADS.resource](scene.world, key)
    assert found is not None
    return found.change


def test_the_change_names_the_pod_that_has_the_only_gpu(scene: Scene) -> None:
    holder = scene.instance(scene.deploy(wants_a_gpu("first"))["DFW"], 0, "dfw-0")
    scene.instance(scene.deploy(wants_a_gpu("second"))["DFW"], 0, reason="Pending", ready=False)
    expected = f"Free 1 {GPU} on dfw-0 (delete {holder.metadata.name})."
    assert smallest_change(scene, "default/second") == expected


def test_the_change_does_not_name_pods_of_other_namespaces(scene: Scene) -> None:
    scene.instance(scene.deploy(wants_a_gpu("first", namespace="other"))["DFW"], 0, "dfw-0")
    scene.instance(scene.deploy(wants_a_gpu("second"))["DFW"], 0, reason="Pending", ready=False)
    assert smallest_change(scene, "default/second") == f"Free 1 {GPU} on dfw-0."


def test_the_change_does_not_name_an_instance_of_the_same_deployment(scene: Scene) -> None:
    deployment = scene.deploy(wants_a_gpu("first", replicas=2))["DFW"]
    scene.instance(deployment, 0, "dfw-0")
    scene.instance(deployment, 1, reason="Pending", ready=False)
    assert smallest_change(scene, "default/first") == f"Free 1 {GPU} on dfw-0."
