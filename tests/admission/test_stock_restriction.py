"""The controllers of kube-controller-manager create only objects that users have described."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from tarmac.api.identities import controller_user, user_name
from tarmac.api.kubernetes.core.pods.defaults import default_pod_spec
from tarmac.api.status import Forbidden
from tarmac.server.admission.controllers.stockrestriction import StockControllerRestriction
from tarmac.server.security.authorization.stockcontrollers import STOCK_USERS
from tarmac.server.security.users import User
from tests.admission.test_pod_templates import JANE
from tests.admission.world import Object, World

PLUGIN = StockControllerRestriction.name
GROUPS = ("system:serviceaccounts", "system:serviceaccounts:kube-system", "system:authenticated")
SPEC: Object = {
    "containers": [
        {
            "name": "c",
            "image": "registry.example/app:1",
            "env": [{"name": "A", "value": "1"}],
            "ports": [{"containerPort": 80}],
            "resources": {"limits": {"cpu": "1"}},
        }
    ],
    "volumes": [{"name": "v", "emptyDir": {}}],
    "nodeSelector": {},
    "hostNetwork": False,
}
LABELS = {"app": "x"}
METADATA: Object = {"name": "x", "namespace": "default", "uid": "u"}
SELECTED: Object = {"selector": {"matchLabels": LABELS}}
TEMPLATE: Object = {"metadata": {"labels": LABELS}, "spec": SPEC}
OWNERS: dict[str, tuple[str, str, Object]] = {
    "daemonsets": ("apps/v1", "DaemonSet", SELECTED | {"template": TEMPLATE}),
    "deployments": ("apps/v1", "Deployment", SELECTED | {"template": TEMPLATE}),
    "replicasets": ("apps/v1", "ReplicaSet", SELECTED | {"template": TEMPLATE}),
    "statefulsets": ("apps/v1", "StatefulSet", SELECTED | {"template": TEMPLATE}),
    "cronjobs": ("batch/v1", "CronJob", {"schedule": "@daily", "jobTemplate": {"spec": {"template": TEMPLATE}}}),
    "jobs": ("batch/v1", "Job", {"template": TEMPLATE}),
    "replicationcontrollers": ("v1", "ReplicationController", {"selector": LABELS, "template": TEMPLATE}),
}
MADE = (
    ("replicaset-controller", "replicasets", "pods"),
    ("replication-controller", "replicationcontrollers", "pods"),
    ("daemon-set-controller", "daemonsets", "pods"),
    ("job-controller", "jobs", "pods"),
    ("statefulset-controller", "statefulsets", "pods"),
    ("deployment-controller", "deployments", "replicasets"),
    ("cronjob-controller", "cronjobs", "jobs"),
    ("statefulset-controller", "statefulsets", "controllerrevisions"),
    ("daemon-set-controller", "daemonsets", "controllerrevisions"),
)


def account(name: str) -> User:
    assert user_name(name) in STOCK_USERS
    return User(user_name(name), groups=GROUPS)


async def owned_by(world: World, plural: str) -> Object:
    """Store an owner; return the metadata of an object that it controls."""
    version, kind, spec = OWNERS[plural]
    await world.put(plural, {"metadata": {**METADATA}, "spec": copy.deepcopy(spec)})
    reference = {"apiVersion": version, "kind": kind, "name": "x", "uid": "u", "controller": True}
    return {"name": "made", "namespace": "default", "ownerReferences": [reference]}


def made(plural: str, metadata: Object, **changes: Any) -> Object:
    """Return the object that a controller makes of the template. Go leaves empty values out."""
    spec = {key: value for key, value in copy.deepcopy(SPEC).items() if value} | changes
    if plural == "pods":
        return {"metadata": metadata, "spec": spec}
    template: Object = {"metadata": {"labels": LABELS}, "spec": spec}
    if plural == "controllerrevisions":
        default_pod_spec(spec)  # a copy of the stored template
        return {"metadata": metadata, "revision": 1, "data": {"spec": {"template": {**template, "$patch": "replace"}}}}
    return {"metadata": metadata, "spec": (SELECTED if plural == "replicasets" else {}) | {"template": template}}


CONTAINER = SPEC["containers"][0]
INVENTED: tuple[Object, ...] = (
    {"containers": [{**CONTAINER, "image": "registry.example/evil:1"}]},
    {"containers": [{**CONTAINER, "command": ["sh"]}]},
    {"containers": [{**CONTAINER, "env": [{"name": "LD_PRELOAD", "value": "/v/x.so"}]}]},
    {"containers": [{**CONTAINER, "securityContext": {"privileged": True}}]},
    {"containers": [{**CONTAINER, "securityContext": {"runAsUser": 0}}]},
    {"containers": [CONTAINER, {"name": "d", "image": "registry.example/evil:1"}]},
    {"initContainers": [{"name": "d", "image": "registry.example/evil:1"}]},
    {"serviceAccountName": "tarmac-clusterrole"},
    {"automountServiceAccountToken": False},
    {"runtimeClassName": "runc"},
    {"hostNetwork": True},
    {"hostPID": True},
    {"nodeName": "n1"},
    {"priorityClassName": "system-node-critical"},
    {"volumes": [{"name": "v", "hostPath": {"path": "/"}}]},
    {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "of-another"}}]},
    {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "zone"}]}}},
)


@pytest.mark.parametrize(("controller", "owner", "plural"), MADE)
async def test_a_controller_creates_what_a_template_describes(
    world: World, controller: str, owner: str, plural: str
) -> None:
    metadata = await owned_by(world, owner)
    world.admit(plural, made(plural, metadata), PLUGIN, user=account(controller))


@pytest.mark.parametrize(("controller", "owner", "plural"), MADE)
async def test_a_controller_creates_nothing_else(world: World, controller: str, owner: str, plural: str) -> None:
    metadata = await owned_by(world, owner)
    for invented in INVENTED:
        with pytest.raises(Forbidden, match="is not as in the template of"):
            world.admit(plural, made(plural, metadata, **copy.deepcopy(invented)), PLUGIN, user=account(controller))


@pytest.mark.parametrize(("controller", "owner", "plural"), MADE)
async def test_without_its_owner_nothing_is_created(world: World, controller: str, owner: str, plural: str) -> None:
    metadata = await owned_by(world, owner)
    (reference,) = metadata["ownerReferences"]
    for wrong in ({"uid": "v"}, {"name": "y"}, {"controller": False}, {"kind": "Node"}, {"apiVersion": "x.example/v1"}):
        body = made(plural, {**metadata, "ownerReferences": [reference | wrong]})
        with pytest.raises(Forbidden, match="names no controller of this namespace"):
            world.admit(plural, body, PLUGIN, user=account(controller))
    for elsewhere in ({"ownerReferences": []}, {"namespace": "kube-system"}):
        with pytest.raises(Forbidden, match="names no controller of this namespace"):
            world.admit(plural, made(plural, metadata | elsewhere), PLUGIN, user=account(controller))


async def test_a_pod_of_a_daemon_set_or_job_may_differ_where_its_controller_adds_fields(world: World) -> None:
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}
    added = {"affinity": affinity, "tolerations": [{"key": "node.kubernetes.io/not-ready", "operator": "Exists"}]}
    body = made("pods", await owned_by(world, "daemonsets"), **added)
    world.admit("pods", body, PLUGIN, user=account("daemon-set-controller"))
    index = {"name": "JOB_COMPLETION_INDEX", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['x']"}}}
    container = {**CONTAINER, "env": [*CONTAINER["env"], index]}
    body = made("pods", await owned_by(world, "jobs"), hostname="made-0", containers=[container])
    world.admit("pods", body, PLUGIN, user=account("job-controller"))


async def test_a_pod_of_a_stateful_set_has_its_claims_and_no_others(world: World) -> None:
    version, kind, spec = OWNERS["statefulsets"]
    claims = {"volumeClaimTemplates": [{"metadata": {"name": "data"}}]}
    await world.put("statefulsets", {"metadata": {**METADATA}, "spec": copy.deepcopy(spec) | claims})
    reference = {"apiVersion": version, "kind": kind, "name": "x", "uid": "u", "controller": True}
    metadata = {"name": "x-0", "namespace": "default", "ownerReferences": [reference]}
    for claim, allowed in (("data-x-0", True), ("data-x-1", False)):
        volumes = [*SPEC["volumes"], {"name": "data", "persistentVolumeClaim": {"claimName": claim}}]
        body = made("pods", metadata, hostname="x-0", subdomain="s", volumes=volumes)
        if allowed:
            world.admit("pods", body, PLUGIN, user=account("statefulset-controller"))
        else:
            with pytest.raises(Forbidden, match="volumes is not as in the template"):
                world.admit("pods", body, PLUGIN, user=account("statefulset-controller"))


async def test_a_pod_of_an_earlier_revision_is_as_in_its_controller_revision(world: World) -> None:
    metadata = await owned_by(world, "statefulsets")
    old = {"containers": [{**CONTAINER, "image": "registry.example/app:0"}]}
    revision = made("controllerrevisions", {**metadata, "name": "x-old"}, **copy.deepcopy(old))
    labelled = {**metadata, "labels": {"controller-revision-hash": "x-old"}}
    with pytest.raises(Forbidden):
        world.admit(
            "pods", made("pods", labelled, **copy.deepcopy(old)), PLUGIN, user=account("statefulset-controller")
        )
    await world.put("controllerrevisions", revision)
    world.admit("pods", made("pods", labelled, **copy.deepcopy(old)), PLUGIN, user=account("statefulset-controller"))
    evil = made("pods", labelled, **copy.deepcopy(INVENTED[0]))
    with pytest.raises(Forbidden):
        world.admit("pods", evil, PLUGIN, user=account("statefulset-controller"))


@pytest.mark.parametrize(
    "data",
    [
        {"spec": {"template": {"spec": SPEC}, "replicas": 9}},
        {"spec": {"template": {"SPEC": {"runtimeClassName": "runc"}, "spec": SPEC}}},
        {"spec": {"template": {"spec": {**SPEC, "RuntimeClassName": "runc"}}}},
        {"spec": {"template": SPEC}},
        {"spec": "x"},
        {"spec": {"template": []}},
        "x",
        [],
        {},
    ],
)
async def test_a_controller_revision_of_another_form_is_rejected(world: World, data: Any) -> None:
    metadata = await owned_by(world, "statefulsets")
    body = {"metadata": metadata, "revision": 1, "data": copy.deepcopy(data)}
    with pytest.raises(Forbidden, match="is not as in the template"):
        world.admit("controllerrevisions", body, PLUGIN, user=account("statefulset-controller"))


async def test_a_pods_spec_stays_when_its_controller_changes_its_metadata(world: World) -> None:
    metadata = await owned_by(world, "replicasets")
    old = made("pods", metadata)
    world.resource("pods").strategy.default(old)
    adopted = copy.deepcopy(old) | {"metadata": metadata | {"labels": {"a": "b"}}}
    world.admit("pods", adopted, PLUGIN, old=old, user=account("replicaset-controller"))
    for invented in INVENTED:
        changed = copy.deepcopy(old)
        changed["spec"] |= copy.deepcopy(invented)
        with pytest.raises(Forbidden, match="it changes "):
            world.admit("pods", changed, PLUGIN, old=old, user=account("replicaset-controller"))


@pytest.mark.parametrize("plural", ["deployments", "replicasets", "cronjobs", "jobs"])
async def test_a_template_stays_when_a_controller_writes_the_object(world: World, plural: str) -> None:
    spec = copy.deepcopy(OWNERS[plural][2])
    old: Object = {"metadata": {**METADATA}, "spec": spec}
    world.resource(plural).strategy.default(old)
    new = copy.deepcopy(old)
    new["spec"]["replicas"] = 7
    world.admit(plural, new, PLUGIN, old=old, user=account("deployment-controller"))
    inside = new["spec"].get("jobTemplate", new)["spec"]["template"]["spec"]
    inside["containers"][0]["image"] = "registry.example/evil:1"
    with pytest.raises(Forbidden, match="it changes containers"):
        world.admit(plural, new, PLUGIN, old=old, user=account("deployment-controller"))
    world.admit(plural, new, PLUGIN, old=old, user=JANE)


async def test_controller_revisions_are_for_controllers(world: World) -> None:
    """A StatefulSet's controller would create Pods from that of an attacker, and may use every class."""
    metadata = await owned_by(world, "statefulsets")
    body = made("controllerrevisions", metadata)
    with pytest.raises(Forbidden, match='the right "create" on controllerrevisions in all namespaces'):
        world.admit("controllerrevisions", body, PLUGIN, user=JANE)
    with pytest.raises(Forbidden, match='the right "update" on controllerrevisions in all namespaces'):
        world.admit("controllerrevisions", body, PLUGIN, user=JANE, old=copy.deepcopy(body))
    world.admit("controllerrevisions", body, PLUGIN)


async def test_garbage_collection_removes_owners_of_controller_revisions(world: World) -> None:
    """The account may patch objects of every kind, and update none."""
    old = made("controllerrevisions", await owned_by(world, "statefulsets"))
    new = copy.deepcopy(old)
    new["metadata"]["ownerReferences"] = []
    collector = User(controller_user("garbage"))
    rule = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["patch"]}
    await world.put("clusterroles", {"metadata": {"name": "garbage"}, "rules": [rule]})
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "garbage"}
    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": collector.name}
    await world.put("clusterrolebindings", {"metadata": {"name": "garbage"}, "roleRef": role, "subjects": [subject]})
    world.admit("controllerrevisions", new, PLUGIN, user=collector, old=old)
    with pytest.raises(Forbidden, match="controllerrevisions in all namespaces"):
        world.admit("controllerrevisions", new, PLUGIN, user=collector)
