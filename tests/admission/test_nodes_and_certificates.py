"""Nodes write only their own objects, and request certificates of their own name only."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from tarmac.api.status import Forbidden
from tarmac.server.security.users import User
from tests.admission.world import World, pod

NODE = User("system:node:n1", groups=("system:nodes", "system:authenticated"))
RESTRICTION = "NodeRestriction"


def node(name: str = "n1", **fields: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, **fields.pop("metadata", {})}, "spec": {}, **fields}


async def test_a_node_changes_itself_only(world: World) -> None:
    world.admit("nodes", node(), RESTRICTION, user=NODE)
    with pytest.raises(Forbidden, match='node "n1" is not allowed to modify node "n2"'):
        world.admit("nodes", node("n2"), RESTRICTION, user=NODE)


@pytest.mark.parametrize(
    ("label", "allowed"),
    [
        ("topology.kubernetes.io/zone", False),
        ("failure-domain.beta.kubernetes.io/region", False),
        ("submariner.io/gateway", False),
        ("example.com/rack", True),
        ("node.kubernetes.io/speed", True),
        ("topology.datum.net/location", False),
        ("sub.topology.datum.net/x", False),
        ("node-role.kubernetes.io/control-plane", False),
        ("node-restriction.kubernetes.io/zone", False),
        ("example.k8s.io/x", False),
    ],
)
async def test_labels_a_node_may_give_itself(world: World, label: str, allowed: bool) -> None:
    obj = node(metadata={"labels": {label: "x"}})
    if allowed:
        world.admit("nodes", obj, RESTRICTION, user=NODE)
    else:
        with pytest.raises(Forbidden, match="not allowed to set the following labels"):
            world.admit("nodes", obj, RESTRICTION, user=NODE)


async def test_a_node_does_not_untaint_itself(world: World) -> None:
    old = node(spec={"taints": [{"key": "a", "effect": "NoSchedule"}]})
    with pytest.raises(Forbidden, match="not allowed to modify taints"):
        world.admit("nodes", node(), RESTRICTION, user=NODE, old=old)


@pytest.mark.parametrize("cordoned", [True, False])
async def test_a_node_does_not_uncordon_itself(world: World, cordoned: bool) -> None:
    old, new = node(spec={"unschedulable": cordoned}), node(spec={"unschedulable": not cordoned})
    with pytest.raises(Forbidden, match=r"not allowed to modify spec\.unschedulable"):
        world.admit("nodes", new, RESTRICTION, user=NODE, old=old)
    world.admit("nodes", old, RESTRICTION, user=NODE, old=old)


async def test_a_node_reports_its_own_pods(world: World) -> None:
    mine, other = pod(nodeName="n1"), pod(nodeName="n2")
    world.admit("pods", mine, RESTRICTION, user=NODE, old=mine, subresource="status")
    with pytest.raises(Forbidden, match=r"can only update pod status for pods with spec.nodeName set to itself"):
        world.admit("pods", other, RESTRICTION, user=NODE, old=other, subresource="status")
    with pytest.raises(Forbidden, match="can only create mirror pods"):
        world.admit("pods", pod(nodeName="n1"), RESTRICTION, user=NODE)


async def test_tokens_are_for_pods_on_the_node(world: World) -> None:
    sources = [{"serviceAccountToken": {"path": "token"}}, {"serviceAccountToken": {"path": "v", "audience": "vault"}}]
    volumes = [{"name": "tokens", "projected": {"sources": sources}}]
    await world.put("pods", pod("here", nodeName="n1", volumes=volumes))
    await world.put("pods", pod("plain", nodeName="n1"))
    await world.put("pods", pod("there", nodeName="n2", volumes=volumes))

    def ask(name: str, *audiences: str) -> None:
        reference = {"kind": "Pod", "apiVersion": "v1", "name": name, "uid": f"uid-{name}"}
        spec = {"boundObjectRef": reference, "audiences": list(audiences)}
        obj = {"metadata": {"name": "default", "namespace": "default"}, "spec": spec}
        world.admit("serviceaccounts", obj, RESTRICTION, user=NODE, operation="CREATE", subresource="token")

    ask("here")
    ask("here", "vault")
    with pytest.raises(Forbidden, match='audience "" not found in pod spec volume'):
        ask("plain")
    with pytest.raises(Forbidden, match='audience "bank" not found in pod spec volume'):
        ask("here", "bank")
    with pytest.raises(Forbidden, match="node may only request 0 or 1 audiences"):
        ask("here", "vault", "bank")
    with pytest.raises(Forbidden, match="bound to a pod scheduled on a different node"):
        ask("there")


async def test_everybody_else_is_not_restricted(world: World) -> None:
    world.admit("nodes", node("n2"), RESTRICTION, user=User("admin"))


def request(organisation: str) -> str:
    name = x509.Name(
        [
            x509.NameAttribute(x509.NameOID.COMMON_NAME, "u"),
            x509.NameAttribute(x509.NameOID.ORGANIZATION_NAME, organisation),
        ]
    )
    signed = x509.CertificateSigningRequestBuilder().subject_name(name).sign(_KEY, hashes.SHA256())
    return base64.b64encode(signed.public_bytes(serialization.Encoding.PEM)).decode()


_KEY = ec.generate_private_key(ec.SECP256R1())
SIGNER = "kubernetes.io/kube-apiserver-client"


async def test_a_request_is_made_in_ones_own_name(world: World) -> None:
    obj = {"metadata": {"name": "c"}, "spec": {"request": request("team"), "signerName": SIGNER, "username": "boss"}}
    user = User("alice", uid="7", groups=("dev",), extra={"scopes": ("a",)})
    spec = (world.admit("certificatesigningrequests", obj, user=user).obj or {})["spec"]
    assert (spec["username"], spec["uid"], spec["groups"], spec["extra"]) == ("alice", "7", ["dev"], {"scopes": ["a"]})


async def test_nobody_becomes_a_master_by_request(world: World) -> None:
    obj = {"metadata": {"name": "c"}, "spec": {"request": request("system:masters"), "signerName": SIGNER}}
    with pytest.raises(Forbidden, match="signer with system:masters group is not allowed"):
        world.admit("certificatesigningrequests", obj)


async def test_approving_takes_a_permission_on_the_signer(world: World) -> None:
    old = {"metadata": {"name": "c"}, "spec": {"signerName": SIGNER}}
    condition = {"type": "Approved", "status": "True"}
    new = {**old, "status": {"conditions": [condition]}}
    how: dict[str, Any] = {"old": old, "subresource": "approval"}
    with pytest.raises(Forbidden, match=f'user not permitted to approve requests with signerName "{SIGNER}"'):
        world.admit("certificatesigningrequests", new, user=User("alice"), **how)
    world.admit("certificatesigningrequests", new, **how)
    assert condition["lastUpdateTime"] == condition["lastTransitionTime"]


async def test_claims_get_the_default_class_and_protection(world: World) -> None:
    default = {"storageclass.kubernetes.io/is-default-class": "true"}
    for name in ("b", "a"):
        await world.put("storageclasses", {"metadata": {"name": name, "annotations": default}, "provisioner": "p"})
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    obj = {"metadata": {"name": "c", "namespace": "default"}, "spec": spec}
    made = world.admit("persistentvolumeclaims", obj).obj or {}
    assert made["spec"]["storageClassName"] == "a"
    assert made["metadata"]["finalizers"] == ["kubernetes.io/pvc-protection"]


async def test_only_a_bound_claim_of_an_expanding_class_grows(world: World) -> None:
    await world.put("storageclasses", {"metadata": {"name": "grows"}, "provisioner": "p", "allowVolumeExpansion": True})

    def claim(size: str, phase: str, name: str = "grows") -> dict[str, Any]:
        spec = {"storageClassName": name, "resources": {"requests": {"storage": size}}}
        return {"metadata": {"name": "c", "namespace": "default"}, "spec": spec, "status": {"phase": phase}}

    world.admit("persistentvolumeclaims", claim("2Gi", "Bound"), old=claim("1Gi", "Bound"))
    with pytest.raises(Forbidden, match="Only bound persistent volume claims can be expanded"):
        world.admit("persistentvolumeclaims", claim("2Gi", "Pending"), old=claim("1Gi", "Pending"))
    with pytest.raises(Forbidden, match="the storageclass that provisions the pvc must support resize"):
        world.admit("persistentvolumeclaims", claim("2Gi", "Bound", "fixed"), old=claim("1Gi", "Bound", "fixed"))
