"""Subresources: binding, eviction, scale and more."""

from __future__ import annotations

import asyncio
import base64
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tarmac.store.memory import MemoryStore
from tests.server.conftest import Client

PODS = "/api/v1/namespaces/default/pods"
SPEC: Any = {"containers": [{"name": "c", "image": "i"}]}


@pytest.fixture(autouse=True)
async def pod(api: Client) -> Any:
    created = await api.post(PODS, {"metadata": {"name": "p", "labels": {"app": "web"}}, "spec": SPEC})
    assert created.status == 201, created.raw
    return created.json


async def bind(api: Client, **target: Any) -> Any:
    return await api.post(f"{PODS}/p/binding", {"metadata": {"name": "p", "annotations": {"a": "b"}}, "target": target})


async def test_binding_gives_a_pod_its_node(api: Client) -> None:
    bound = await bind(api, kind="Node", name="n1")
    assert (bound.status, bound.json["status"]) == (201, "Success")
    pod = (await api.get(f"{PODS}/p")).json
    assert pod["spec"]["nodeName"] == "n1"
    assert pod["metadata"]["annotations"] == {"a": "b"}
    assert [(one["type"], one["status"]) for one in pod["status"]["conditions"]] == [("PodScheduled", "True")]
    selected = await api.get(f"{PODS}?fieldSelector=spec.nodeName%3Dn1")
    assert len(selected.json["items"]) == 1


async def test_a_pod_is_bound_once(api: Client) -> None:
    await bind(api, name="n1")
    again = await bind(api, name="n2")
    assert again.status == 409
    assert again.message == (
        'Operation cannot be fulfilled on pods/binding "p": pod p is already assigned to node "n1"'
    )


async def test_a_binding_can_name_its_pod_in_the_body(api: Client) -> None:
    body = {"metadata": {"name": "p"}, "target": {"name": "n1"}}
    assert (await api.post("/api/v1/namespaces/default/bindings", body)).status == 201
    assert (await api.get(f"{PODS}/p")).json["spec"]["nodeName"] == "n1"


async def test_a_pod_with_gates_cannot_be_bound(api: Client) -> None:
    await api.post(PODS, {"metadata": {"name": "g"}, "spec": {**SPEC, "schedulingGates": [{"name": "example.com/x"}]}})
    refused = await api.post(f"{PODS}/g/binding", {"metadata": {"name": "g"}, "target": {"name": "n1"}})
    assert "pod g has non-empty .spec.schedulingGates" in refused.message


async def evict(api: Client) -> Any:
    return await api.post(
        f"{PODS}/p/eviction", {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}}
    )


async def run_pod(api: Client) -> None:
    await bind(api, name="n1")
    status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    assert (await api.patch(f"{PODS}/p/status", {"status": status})).status == 200


async def budget(api: Client, allowed: int) -> None:
    url = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}
    assert (await api.post(url, {"metadata": {"name": "b"}, "spec": spec})).status == 201
    counts = {"desiredHealthy": 1, "currentHealthy": 1 + allowed, "expectedPods": 2, "disruptionsAllowed": allowed}
    status = {"observedGeneration": 1, **counts}
    reply = await api.patch(f"{url}/b/status", {"status": status})
    assert reply.status == 200, reply.raw


async def test_evicting_a_pod_deletes_it(api: Client) -> None:
    assert (await evict(api)).status == 201
    assert (await api.get(f"{PODS}/p")).status == 404


async def test_a_budget_that_allows_nothing_refuses(api: Client) -> None:
    await run_pod(api)
    await budget(api, allowed=0)
    refused = await evict(api)
    assert (refused.status, refused.json["reason"]) == (429, "TooManyRequests")
    assert refused.json["details"]["causes"] == [
        {
            "reason": "DisruptionBudget",
            "message": "The disruption budget b needs 1 healthy pods and has 1 currently",
        }
    ]


async def test_an_eviction_is_of_the_pod_in_the_url(api: Client) -> None:
    for metadata in ({"name": "other"}, {"name": "p", "namespace": "other"}):
        refused = await api.post(f"{PODS}/p/eviction", {"metadata": metadata})
        assert refused.status == 400
        assert "does not match" in refused.message
    assert (await api.get(f"{PODS}/p")).status == 200


async def test_a_budget_pays_for_each_eviction(api: Client) -> None:
    await run_pod(api)
    await budget(api, allowed=1)
    assert (await evict(api)).status == 201
    status = (await api.get("/apis/policy/v1/namespaces/default/poddisruptionbudgets/b")).json["status"]
    assert status["disruptionsAllowed"] == 0
    assert [(one["type"], one["status"]) for one in status["conditions"]] == [("DisruptionAllowed", "False")]
    assert list(status["disruptedPods"]) == ["p"]
    evicted = (await api.get(f"{PODS}/p")).json
    assert "deletionTimestamp" in evicted["metadata"]
    assert "DisruptionTarget" in [one["type"] for one in evicted["status"]["conditions"]]


async def test_an_eviction_that_means_another_pod_costs_the_budget_nothing(api: Client) -> None:
    await run_pod(api)
    await budget(api, allowed=1)
    body = {"metadata": {"name": "p"}, "deleteOptions": {"preconditions": {"uid": "another"}}}
    assert (await api.post(f"{PODS}/p/eviction", body)).status == 409
    status = (await api.get("/apis/policy/v1/namespaces/default/poddisruptionbudgets/b")).json["status"]
    assert status["disruptionsAllowed"] == 1
    conditions = (await api.get(f"{PODS}/p")).json["status"]["conditions"]
    assert "DisruptionTarget" not in [each["type"] for each in conditions]


async def test_a_pod_that_becomes_ready_while_it_is_evicted_for_free_has_to_be_paid_for(api: Client) -> None:
    await run_pod(api)
    await budget(api, allowed=0)
    counts = {"status": {"currentHealthy": 1, "desiredHealthy": 1}}
    await api.patch("/apis/policy/v1/namespaces/default/poddisruptionbudgets/b/status", counts)
    unready = {"status": {"conditions": [{"type": "Ready", "status": "False"}]}}
    ready = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
    await api.patch(f"{PODS}/p/status", unready)
    evicted, changed = await asyncio.gather(evict(api), api.patch(f"{PODS}/p/status", ready))
    assert (evicted.status, changed.status) == (429, 200)
    assert "deletionTimestamp" not in (await api.get(f"{PODS}/p")).json["metadata"]


async def test_a_pod_that_is_not_ready_goes_for_free_when_enough_others_are(api: Client) -> None:
    await run_pod(api)
    await budget(api, allowed=0)
    await api.patch(f"{PODS}/p/status", {"status": {"conditions": [{"type": "Ready", "status": "False"}]}})
    assert (await evict(api)).status == 201
    assert "deletionTimestamp" in (await api.get(f"{PODS}/p")).json["metadata"]


def deleted_meanwhile(monkeypatch: pytest.MonkeyPatch, bucket: str) -> None:
    """Let another server of the store delete an object of the bucket just before it is updated."""
    update = MemoryStore.update

    async def overtaken(self: MemoryStore, where: str, name: str, value: bytes, expected: int) -> Any:
        if where == bucket:
            await self.delete(where, name, expected)
        return await update(self, where, name, value, expected)

    monkeypatch.setattr(MemoryStore, "update", overtaken)


async def test_a_pod_that_another_server_deletes_cannot_be_bound(api: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    deleted_meanwhile(monkeypatch, "core/pods")
    assert (await bind(api, name="n1")).status == 404


async def test_a_budget_that_another_server_deletes_lets_its_pods_go(
    api: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    await run_pod(api)
    await budget(api, allowed=1)
    deleted_meanwhile(monkeypatch, "policy/poddisruptionbudgets")
    assert (await evict(api)).status == 201


async def test_resizing_changes_what_a_container_asks_for_and_nothing_else(api: Client) -> None:
    resources = {"requests": {"cpu": "100m"}}
    burstable = {"containers": [{"name": "c", "image": "i", "resources": resources}]}
    await api.post(PODS, {"metadata": {"name": "b"}, "spec": burstable})
    larger = {"name": "c", "image": "other", "resources": {"requests": {"cpu": "200m"}}}
    resized = await api.patch(f"{PODS}/b/resize", {"spec": {"containers": [larger]}}, "strategic")
    (container,) = resized.json["spec"]["containers"]
    assert container["image"] == "i"
    assert container["resources"] == {"requests": {"cpu": "200m"}}
    assert resized.json["metadata"]["generation"] == 2
    refused = await api.patch(f"{PODS}/p/resize", {"spec": {"containers": [larger]}}, "strategic")
    assert "Pod QOS Class may not change as a result of resizing" in refused.message


async def test_ephemeral_containers_can_be_added_but_not_removed(api: Client) -> None:
    url = f"{PODS}/p/ephemeralcontainers"
    added = await api.patch(url, {"spec": {"ephemeralContainers": [{"name": "d", "image": "busybox"}]}}, "strategic")
    assert [one["name"] for one in added.json["spec"]["ephemeralContainers"]] == ["d"]
    removed = await api.patch(url, {"spec": {"ephemeralContainers": None}})
    assert 'existing ephemeral containers "d" may not be removed' in removed.message


def certificate_request() -> str:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "somebody")])
    request = x509.CertificateSigningRequestBuilder().subject_name(name).sign(key, hashes.SHA256())
    return base64.b64encode(request.public_bytes(serialization.Encoding.PEM)).decode()


async def test_approval_changes_conditions_and_nothing_else(api: Client) -> None:
    url = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
    spec = {"request": certificate_request(), "signerName": "example.com/s", "usages": ["client auth"]}
    assert (await api.post(url, {"metadata": {"name": "c"}, "spec": spec})).status == 201
    condition = {"type": "Approved", "status": "True", "reason": "Wanted"}
    approved = await api.patch(f"{url}/c/approval", {"status": {"conditions": [condition], "certificate": "eA=="}})
    assert approved.status == 200, approved.raw
    assert [one["type"] for one in approved.json["status"]["conditions"]] == ["Approved"]
    assert "certificate" not in approved.json["status"]


@pytest.mark.parametrize("subresource", ["log", "exec", "attach", "portforward"])
async def test_without_a_connection_to_the_node_the_answer_says_so(api: Client, subresource: str) -> None:
    unbound = await api.get(f"{PODS}/p/{subresource}")
    if subresource == "log":  # no container has run, so there is no log
        assert (unbound.status, unbound.raw) == (204, b"")
    else:
        assert (unbound.status, unbound.message) == (400, "pod p does not have a host assigned")
    await bind(api, name="n1")
    refused = await api.get(f"{PODS}/p/{subresource}")
    assert (refused.status, refused.json["reason"]) == (503, "ServiceUnavailable")
    assert refused.message == "no connection to node n1: no agent serves it"


@pytest.mark.parametrize("subresource", ["log", "exec", "attach", "portforward", "proxy/"])
async def test_without_a_connection_to_a_simulated_node_the_answer_says_so(api: Client, subresource: str) -> None:
    await bind(api, name="n1")
    node = {"metadata": {"name": "n1"}, "status": {"nodeInfo": {"containerRuntimeVersion": "sim://1"}}}
    await api.post("/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", **node})
    patch = {"status": {"podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}]}}
    await api.patch(f"{PODS}/p/status", patch)
    refused = await api.get(f"{PODS}/p/{subresource}")
    assert (refused.status, refused.json["reason"]) == (503, "ServiceUnavailable")
    assert refused.message == (
        "no connection to node n1: it is simulated, and is down, cut off, or not part of a running `tarmac up`"
    )


async def test_a_pod_without_an_address_is_not_proxied(api: Client) -> None:
    await bind(api, name="n1")
    refused = await api.get(f"{PODS}/p/proxy/")
    assert (refused.status, refused.message) == (400, "address not allowed")


def workload(name: str, *placements: dict[str, Any]) -> dict[str, Any]:
    container = {"name": "main", "image": "registry.example/app:1"}
    runtime = {"resources": {"instanceType": "datumcloud/d1-standard-2"}, "sandbox": {"containers": [container]}}
    template = {"spec": {"runtime": runtime, "networkInterfaces": [{"network": {"name": "default"}}]}}
    kind = {"apiVersion": "compute.datumapis.com/v1alpha", "kind": "Workload"}
    return {**kind, "metadata": {"name": name}, "spec": {"template": template, "placements": placements}}


def placement(name: str, **settings: Any) -> dict[str, Any]:
    return {"name": name, "cityCodes": ["DFW"], "scaleSettings": {"minReplicas": 1, **settings}}


async def test_a_workload_with_one_placement_is_scaled_and_another_says_why_not(api: Client) -> None:
    url = "/apis/compute.datumapis.com/v1alpha/namespaces/default/workloads"
    assert (await api.post(url, workload("one", placement("all")))).status == 201
    assert (await api.get(f"{url}/one/scale")).json["spec"] == {"replicas": 1}
    scaled = await api.patch(f"{url}/one/scale", {"spec": {"replicas": 5}})
    assert (scaled.status, scaled.json["spec"]) == (200, {"replicas": 5})
    found = (await api.get(f"{url}/one")).json["spec"]["placements"][0]["scaleSettings"]
    assert found["minReplicas"] == 5
    assert (await api.post(url, workload("two", placement("a"), placement("b")))).status == 201
    target = {"type": "Utilization", "averageUtilization": 50}
    metric = {"type": "Resource", "resource": {"name": "cpu", "target": target}}
    made = await api.post(url, workload("driven", placement("all", maxReplicas=9, metrics=[metric])))
    assert made.status == 201, made.raw
    for name, why in (("two", "has 2 placements"), ("driven", "is scaled by its metrics")):
        for reply in (await api.get(f"{url}/{name}/scale"), await api.patch(f"{url}/{name}/scale", {"spec": {}})):
            assert (reply.status, why in reply.message) == (400, True), reply.raw


async def test_scale_shows_and_sets_replicas(api: Client) -> None:
    url = "/apis/compute.datumapis.com/v1alpha/namespaces/default/workloaddeployments"
    version = "compute.datumapis.com/v1alpha"
    body: Any = {"apiVersion": version, "kind": "WorkloadDeployment", "metadata": {"name": "d"}}
    body["spec"] = {"workloadRef": {"name": "w", "uid": "1"}, "placementName": "x", "cityCode": "DFW", "replicas": 2}
    body["spec"]["scaleSettings"] = {
        "minReplicas": 1,
        "maxReplicas": 6,
        "metrics": [{"resource": {"name": "cpu", "target": {"averageUtilization": 50}}}],
    }
    body["spec"]["template"] = {
        "spec": {"runtime": {"resources": {"instanceType": "datumcloud/d1-standard-2"}, "sandbox": {"containers": [
            {"name": "c", "image": "i"}]}}, "networkInterfaces": [{"network": {"name": "default"}}]}
    }  # fmt: skip
    created = await api.post(url, body)
    assert created.status == 201, created.raw
    scale = (await api.get(f"{url}/d/scale")).json
    assert (scale["kind"], scale["apiVersion"], scale["spec"]) == ("Scale", "autoscaling/v1", {"replicas": 2})
    scaled = await api.patch(f"{url}/d/scale", {"spec": {"replicas": 5}})
    assert (scaled.json["spec"], scaled.warnings) == ({"replicas": 5}, [])
    assert (await api.get(f"{url}/d")).json["spec"]["replicas"] == 5
    table = (await api.get(f"{url}/d/scale", accept="application/json;as=Table;v=v1;g=meta.k8s.io")).json
    assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "Desired", "Available", "Age"]
    assert table["rows"][0]["cells"] == ["d", 5, 0, "0s"]
    for asked, warning in (
        (0, "spec.replicas: 0 is less than minReplicas, so 1 will run"),
        (7, "spec.replicas: 7 is more than maxReplicas, so 6 will run"),
    ):
        beyond = await api.patch(f"{url}/d/scale", {"spec": {"replicas": asked}})
        assert (beyond.status, beyond.json["spec"].get("replicas", 0)) == (200, asked), "kept as requested"
        assert beyond.warnings == [f'299 - "{warning}"']
    nonsense = await api.patch(f"{url}/d/scale", {"spec": {"replicas": "many"}})
    assert "cannot unmarshal string into Go struct field ScaleSpec.spec.replicas of type int32" in nonsense.message
    refused = await api.patch(f"{url}/d/scale", {"spec": {"replicas": -1}})
    assert ".spec.replicas: Invalid value: -1: should be a non-negative integer" in refused.message


async def test_reviews_and_tokens_are_answered_and_not_stored(api: Client) -> None:
    review = await api.post("/apis/authentication.k8s.io/v1/selfsubjectreviews", {})
    assert (review.status, review.json["status"]["of"]) == (201, "admin")
    token = await api.post("/api/v1/namespaces/default/serviceaccounts/s/token", {"spec": {"audiences": []}})
    assert (token.status, token.json["status"]["token"]) == (201, "default/s")


async def test_usage_is_empty_without_a_source(api: Client) -> None:
    nodes = await api.get("/apis/metrics.k8s.io/v1beta1/nodes")
    assert (nodes.json["kind"], nodes.json["items"]) == ("NodeMetricsList", [])
    assert (await api.get("/apis/metrics.k8s.io/v1beta1/namespaces/default/pods/p")).status == 404


async def test_a_malformed_selector_of_usage_is_a_bad_request(api: Client) -> None:
    refused = await api.get("/apis/metrics.k8s.io/v1beta1/pods?labelSelector=((")
    assert (refused.status, refused.json["reason"]) == (400, "BadRequest")
