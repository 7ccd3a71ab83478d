"""The Pod and the claims of an Instance."""

from __future__ import annotations

from typing import Any

from tarmac.api.compute.instance import Instance
from tarmac.api.declare import decode
from tarmac.api.schema import JsonObject
from tarmac.base.quantity import Quantity
from tarmac.decide.derived.pods import pod_of
from tarmac.decide.derived.requiredsources import ObjectSource, sources
from tarmac.decide.derived.volumes import claims

WHOLE = {"cpu": Quantity.parse("2"), "memory": Quantity.parse("2Gi")}
GPU = "datumcloud.com/nvidia-tesla-a100"
OWNER = {"apiVersion": "c/v1", "kind": "WorkloadDeployment", "name": "web-dfw", "uid": "d", "controller": True}


def instance(*containers: JsonObject, **spec: Any) -> Instance:
    runtime = {"resources": {"instanceType": "datumcloud/d1-standard-2"}, **spec.pop("runtime", {})}
    if containers:
        runtime["sandbox"] = {"containers": list(containers), **spec.pop("sandbox", {})}
    metadata = {
        "name": "web-dfw-0",
        "namespace": "default",
        "uid": "i",
        "labels": {"app": "web", "compute.datumapis.com/instance-index": "0"},
        "annotations": spec.pop("annotations", {}),
        "ownerReferences": [OWNER],
    }
    nics = [{"name": "eth0", "network": {"name": "default"}}]
    made = {"runtime": runtime, "networkInterfaces": nics, "location": {"name": "dfw"}, **spec}
    return decode(Instance, {"metadata": metadata, "spec": made})


def container(name: str = "main", **fields: Any) -> JsonObject:
    return {"name": name, "image": f"example.com/{name}:1", **fields}


def spec_of(made: Instance, **more: Quantity) -> JsonObject:
    return pod_of(made, {**WHOLE, **more})["spec"]


def test_an_only_container_has_everything_devices_included() -> None:
    (made,) = spec_of(instance(container()), **{GPU: Quantity.parse("1")})["containers"]
    everything = {"cpu": "2", "memory": "2Gi", GPU: "1"}
    assert made["resources"] == {"requests": everything, "limits": everything}


def test_several_containers_share_what_the_pod_as_a_whole_has() -> None:
    limits = {"resources": {"requests": {"cpu": "500m"}, "limits": {"cpu": "1", "memory": "1Gi"}}}
    spec = spec_of(instance(container("a", **limits), container("b")))
    amounts = {"cpu": "2", "memory": "2Gi"}
    assert spec["resources"] == {"requests": amounts, "limits": amounts}
    first, second = spec["containers"]
    assert first["resources"] == {"requests": {"cpu": "500m"}, "limits": {"cpu": "1", "memory": "1Gi"}}
    assert "resources" not in second, "only the pod's limits apply"


def test_a_device_goes_to_the_container_that_asks_for_it() -> None:
    wants = {"resources": {"requests": {GPU: "1"}}}
    spec = spec_of(instance(container("a", **wants), container("b")), **{GPU: Quantity.parse("1")})
    assert spec["containers"][0]["resources"] == {"requests": {GPU: "1"}, "limits": {GPU: "1"}}
    assert GPU not in spec["resources"]["requests"]


def test_init_containers_count_as_company() -> None:
    spec = spec_of(instance(container(), sandbox={"initContainers": [container("first")]}))
    assert [each["name"] for each in spec["initContainers"]] == ["first"]
    assert spec["resources"]["limits"] == {"cpu": "2", "memory": "2Gi"}


def test_the_pod_is_its_instances_and_held_to_its_place() -> None:
    pod = pod_of(instance(container()), WHOLE)
    assert pod["metadata"]["name"] == "web-dfw-0"
    assert [(each["kind"], each["uid"], each["controller"]) for each in pod["metadata"]["ownerReferences"]] == [
        ("Instance", "i", True)
    ]
    assert pod["spec"]["nodeSelector"] == {"topology.datum.net/location": "dfw"}
    assert (pod["spec"]["schedulerName"], pod["spec"]["runtimeClassName"]) == ("tarmac", "gvisor")
    annotated = instance(container(), annotations={"compute.datumapis.com/runtime-class": "runc"})
    assert spec_of(annotated)["runtimeClassName"] == "runc"


def test_security_is_strict_unless_the_manifest_asks_for_less() -> None:
    spec = spec_of(instance(container()))
    assert spec["securityContext"] == {"seccompProfile": {"type": "RuntimeDefault"}}
    assert spec["automountServiceAccountToken"] is spec["enableServiceLinks"] is False
    strict = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["NET_RAW"]}}
    assert spec["containers"][0]["securityContext"] == strict
    asked = {"capabilities": {"add": ["NET_RAW"], "drop": ["CHOWN"]}, "allowPrivilegeEscalation": True}
    (made,) = spec_of(instance(container(securityContext=asked)))["containers"]
    assert made["securityContext"] == asked


def test_probes_hooks_and_how_a_container_starts_and_ends_are_carried_as_written() -> None:
    stated: JsonObject = {
        "readinessProbe": {"httpGet": {"port": "http", "path": "/ready"}, "periodSeconds": 2},
        "livenessProbe": {"tcpSocket": {"port": 80}, "terminationGracePeriodSeconds": 5},
        "startupProbe": {"exec": {"command": ["test", "-e", "/up"]}},
        "lifecycle": {"postStart": {"exec": {"command": ["true"]}}, "preStop": {"sleep": {"seconds": 3}}},
        "imagePullPolicy": "Never",
        "workingDir": "/srv",
    }
    spec = spec_of(instance(container(**stated), sandbox={"terminationGracePeriodSeconds": 0}))
    assert {name: spec["containers"][0][name] for name in stated} == stated
    assert spec["terminationGracePeriodSeconds"] == 0, "zero differs from unset"


def test_omitted_fields_are_left_to_kubernetes() -> None:
    spec = spec_of(instance(container()))
    assert "terminationGracePeriodSeconds" not in spec
    said = {"name", "image", "resources", "securityContext", "terminationMessagePolicy"}
    assert set(spec["containers"][0]) == said


def test_a_claim_belongs_to_the_deployment_unless_it_is_to_be_kept() -> None:
    def disk(**spec: Any) -> JsonObject:
        return {"template": {"spec": {"resources": {"requests": {"storage": "10Gi"}}, **spec}}}

    volumes = [{"name": "a", "disk": disk()}, {"name": "b", "disk": disk(retain=True)}]
    first, kept = claims(instance(container(), volumes=volumes))
    assert first["metadata"]["name"] == "web-dfw-0-a"
    assert [each["uid"] for each in first["metadata"]["ownerReferences"]] == ["d"]
    assert kept["metadata"]["ownerReferences"] == []
    assert kept["metadata"]["labels"] == {"compute.datumapis.com/instance-index": "0"}


def test_volumes_keep_their_meaning() -> None:
    volumes = [
        {"name": "settings", "configMap": {"name": "settings", "items": [{"key": "a", "path": "b"}]}},
        {"name": "keys", "secret": {"secretName": "keys", "defaultMode": 0o400}},
        {"name": "self", "downwardAPI": {"items": [{"path": "name", "fieldRef": {"fieldPath": "metadata.name"}}]}},
        {"name": "fast", "memory": {"sizeLimit": "64Mi"}},
    ]
    mounts = [{"name": each["name"], "mountPath": f"/{each['name']}"} for each in volumes]
    spec = spec_of(instance(container(volumeAttachments=mounts), volumes=volumes))
    settings, keys, own, fast = spec["volumes"]
    assert settings["configMap"] == {"name": "settings", "items": [{"key": "a", "path": "b"}]}
    assert keys["secret"] == {"secretName": "keys", "defaultMode": 0o400}
    assert own["downwardAPI"]["items"][0]["fieldRef"] == {"fieldPath": "metadata.name"}
    assert fast["emptyDir"] == {"medium": "Memory", "sizeLimit": "64Mi"}
    assert spec["containers"][0]["volumeMounts"] == mounts


def test_optional_sources_are_not_waited_for() -> None:
    env = [
        {"name": "A", "valueFrom": {"configMapKeyRef": {"name": "one", "key": "a"}}},
        {"name": "B", "valueFrom": {"secretKeyRef": {"name": "two", "key": "a", "optional": True}}},
    ]
    needs = container(env=env, envFrom=[{"secretRef": {"name": "three"}}])
    volumes = [{"name": "v", "configMap": {"name": "four", "optional": True}}]
    made = instance(needs, volumes=volumes)
    assert set(sources(made.spec)) == {ObjectSource("ConfigMap", "one"), ObjectSource("Secret", "three")}
