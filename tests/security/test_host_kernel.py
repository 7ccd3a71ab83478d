"""A tenant who edits one namespace gets guest kernels, and the host's kernel only with the right to use it.

Every user connects over TLS with a token, as tenants do.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tarmac.api.compute.strategies import WorkloadStrategy
from tarmac.api.schema import JsonObject
from tarmac.api.status import AlreadyExists, Forbidden, Invalid
from tarmac.client.client import Client
from tarmac.client.http import HttpConfig, HttpTransport
from tarmac.client.kubeconfig import load
from tarmac.client.targets.target import dynamic
from tarmac.client.targets.untyped import (
    DEPLOYMENTS,
    INSTANCES,
    NAMESPACES,
    PODS,
    RUNTIME_CLASSES,
    SERVICE_ACCOUNTS,
    WORKLOADS,
)
from tests.attacking import TWICE
from tests.client.backends import our_server

COMPUTE = "compute.datumapis.com/v1alpha"
RBAC = "rbac.authorization.k8s.io"
ROLES = dynamic(f"{RBAC}/v1", "clusterroles", "ClusterRole", namespaced=False)
BINDINGS = dynamic(f"{RBAC}/v1", "rolebindings", "RoleBinding")
CLUSTER_BINDINGS = dynamic(f"{RBAC}/v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False)
ON_THE_HOST = {"compute.datumapis.com/runtime-class": "runc"}


@dataclass
class Place:
    """A server with a tenant who has `edit` in the namespace `team`, and an account of `kube-system` with `edit`."""

    stack: AsyncExitStack
    at: HttpConfig
    admin: Client

    async def account(self, namespace: str, name: str) -> Client:
        """Return a client with the token of a new service account."""
        await self.admin.resource(SERVICE_ACCOUNTS).create({"metadata": {"name": name, "namespace": namespace}})
        path = SERVICE_ACCOUNTS.path(namespace, name, "token")
        reply = await self.admin.call("POST", path, None, b'{"spec": {"audiences": [], "expirationSeconds": 600}}')
        token = json.loads(reply.body)["status"]["token"]
        client = Client(HttpTransport(HttpConfig(self.at.url, ca=self.at.ca, token=token)))
        self.stack.push_async_callback(client.close)
        return client

    async def bind(self, role: str, account: str, namespace: str = "") -> None:
        """Bind a ClusterRole to a service account, in a namespace or everywhere."""
        owner, _, name = account.partition("/")
        binding = {
            "metadata": {"name": f"{role}-{name}", **({"namespace": namespace} if namespace else {})},
            "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": role},
            "subjects": [{"kind": "ServiceAccount", "namespace": owner, "name": name}],
        }
        await self.admin.resource(BINDINGS if namespace else CLUSTER_BINDINGS).create(binding)

    async def tenant(self) -> Client:
        """`edit` in `team`, and nothing else."""
        client = await self.account("team", "mallory")
        await self.bind("edit", "team/mallory", "team")
        return client


@asynccontextmanager
async def place(directory: Path) -> AsyncGenerator[Place]:
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(our_server(directory))
        at = load(str(directory / "kubeconfig")).http
        admin = Client(HttpTransport(at))
        stack.push_async_callback(admin.close)
        await admin.resource(NAMESPACES).create({"metadata": {"name": "team"}})
        with suppress(AlreadyExists):  # a controller creates it as well, a moment after the namespace
            await admin.resource(SERVICE_ACCOUNTS).create({"metadata": {"name": "default", "namespace": "team"}})
        yield Place(stack, at, admin)


def pod(name: str = "p", /, **spec: Any) -> JsonObject:
    metadata = {"name": name, "namespace": "team"}
    spec = {"containers": [{"name": "c", "image": "i"}], "automountServiceAccountToken": False, **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def template(annotations: dict[str, str]) -> JsonObject:
    resources = {"instanceType": "datumcloud/d1-standard-2"}
    runtime = {"resources": resources, "sandbox": {"containers": [{"name": "c", "image": "registry.local/i:1"}]}}
    spec = {"runtime": runtime, "networkInterfaces": [{"network": {"name": "default"}}]}
    return {"metadata": {"annotations": annotations}, "spec": spec}


def workload(name: str = "w", annotations: dict[str, str] | None = None) -> JsonObject:
    placement = {"name": "us", "cityCodes": ["DFW"], "scaleSettings": {"minReplicas": 1}}
    return {
        "apiVersion": COMPUTE,
        "kind": "Workload",
        "metadata": {"name": name, "namespace": "team"},
        "spec": {"template": template(annotations or {}), "placements": [placement]},
    }


async def test_a_pod_that_names_no_class_gets_a_kernel_of_its_own(tmp_path: Path) -> None:
    async with place(tmp_path) as world:
        tenant = await world.tenant()
        for client in (tenant, world.admin):
            dry = await client.resource(PODS).create(pod(), dry_run=True)
            assert dry["spec"]["runtimeClassName"] == "gvisor"
        made = await tenant.resource(PODS).create(pod())
        assert made["spec"]["runtimeClassName"] == "gvisor"
        applied = await tenant.resource(PODS).apply(pod("q"), manager="mallory")
        assert applied["spec"]["runtimeClassName"] == "gvisor"
        again = await tenant.resource(PODS).apply(pod("q"), manager="mallory")
        assert again["spec"] == applied["spec"]
        del made["spec"]["runtimeClassName"], made["metadata"]["resourceVersion"]  # `kubectl replace` of a manifest
        assert (await tenant.resource(PODS).update(made))["spec"]["runtimeClassName"] == "gvisor"


async def test_the_hosts_kernel_is_refused_with_what_would_be_accepted(tmp_path: Path) -> None:
    async with place(tmp_path) as world:
        pods = (await world.tenant()).resource(PODS)
        with pytest.raises(Forbidden) as refused:
            await pods.create(pod(runtimeClassName="runc"))
        assert refused.value.message == (
            'pods "p" is forbidden: spec.runtimeClassName asks for the RuntimeClass "runc", which is not known to have '
            'a kernel of its own: user "system:serviceaccount:team:mallory" needs the right "use" on the resource '
            '"runtimeclasses" in API group "node.k8s.io", named "runc", at the cluster scope. Leave '
            'spec.runtimeClassName out to get "gvisor", or ask an administrator for a ClusterRole with this right and '
            "a ClusterRoleBinding"
        )
        with pytest.raises(Forbidden, match='needs the right "use"'):
            await pods.create(pod(runtimeClassName="runc"), dry_run=True)
        with pytest.raises(Forbidden, match='needs the right "use"'):
            await pods.apply(pod(runtimeClassName="runc"), manager="mallory")


async def test_a_running_pod_does_not_change_its_kernel(tmp_path: Path) -> None:
    async with place(tmp_path) as world:
        pods = (await world.tenant()).resource(PODS)
        await pods.create(pod())
        for name in ("runc", "vm"):
            with pytest.raises(Invalid, match="pod updates may not change fields"):
                await pods.patch("p", {"spec": {"runtimeClassName": name}}, "team", type="strategic")
        debugger = {"name": "d", "image": "i"}
        body = {"spec": {"ephemeralContainers": [debugger], "runtimeClassName": "runc"}}
        with pytest.raises(Forbidden):  # `edit` has no such right, as in Kubernetes
            await pods.patch("p", body, "team", type="strategic", subresource="ephemeralcontainers")
        admins = world.admin.resource(PODS)
        told = await admins.patch("p", body, "team", type="strategic", subresource="ephemeralcontainers")
        assert told["spec"]["runtimeClassName"] == "gvisor"


@pytest.mark.parametrize("field", ["hostNetwork", "hostPID", "hostIPC"])
async def test_a_part_of_the_node_is_on_the_hosts_kernel(tmp_path: Path, field: str) -> None:
    async with place(tmp_path) as world:
        tenant = await world.tenant()
        open_to_all = {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "privileged"}}}
        await world.admin.resource(NAMESPACES).patch("team", open_to_all)
        with pytest.raises(Forbidden, match=f'spec.{field} asks for the RuntimeClass "runc"'):
            await tenant.resource(PODS).create(pod(**{field: True}))
        made = await world.admin.resource(PODS).create(pod(**{field: True}))
        assert "runtimeClassName" not in made["spec"]


async def test_every_class_counts_that_is_not_known_to_have_its_own_kernel(tmp_path: Path) -> None:
    async with place(tmp_path) as world:
        pods = (await world.tenant()).resource(PODS)
        for name, handler in (("crun", "crun"), ("friendly", "gvisor"), ("gvisor-2", "runc")):
            await world.admin.resource(RUNTIME_CLASSES).create({"metadata": {"name": name}, "handler": handler})
        for name in ("crun", "gvisor-2"):
            with pytest.raises(Forbidden, match=f'named "{name}"'):
                await pods.create(pod(runtimeClassName=name))
        for name in ("friendly", "gvisor", "vm"):
            await pods.create(pod(runtimeClassName=name), dry_run=True)


async def test_an_annotation_on_a_template_is_no_way_around(tmp_path: Path) -> None:
    async with place(tmp_path) as world:
        tenant = await world.tenant()
        workloads = tenant.resource(WORKLOADS)
        with pytest.raises(
            Forbidden, match=r"the annotation compute\.datumapis\.com/runtime-class asks for"
        ) as refused:
            await workloads.create(workload(annotations=ON_THE_HOST))
        assert 'Leave the annotation compute.datumapis.com/runtime-class out to get "gvisor"' in refused.value.message
        short = workload()
        short["spec"]["template"] = {**template({}), "annotations": ON_THE_HOST}
        del short["spec"]["template"]["metadata"]
        for body in (short, workload(annotations={"compute.datumapis.com/runtime-class": "gone"})):
            with pytest.raises(Forbidden, match='needs the right "use"'):
                await workloads.create(body, dry_run=True)
        await workloads.create(workload())
        for annotated in ({"metadata": {"annotations": ON_THE_HOST}}, {"annotations": ON_THE_HOST}):
            with pytest.raises(Forbidden, match='needs the right "use"'):
                await workloads.patch("w", {"spec": {"template": annotated}}, "team")
        with pytest.raises(Forbidden, match='needs the right "use"'):
            await workloads.apply(workload(annotations=ON_THE_HOST), manager="mallory")


async def test_derived_pods_do_not_bypass_the_host_kernel_check(tmp_path: Path) -> None:
    async with place(tmp_path) as world:
        tenant = await world.tenant()
        rule = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}
        await world.admin.resource(ROLES).create({"metadata": {"name": "everything"}, "rules": [rule]})
        await world.bind("everything", "team/mallory", "team")
        placed = {"workloadRef": {"name": "w", "uid": "u"}, "placementName": "us", "cityCode": "DFW"}
        spec = {**placed, "template": template(ON_THE_HOST), "scaleSettings": {"minReplicas": 1}}
        deployment = {"apiVersion": COMPUTE, "kind": "WorkloadDeployment", "metadata": {"name": "d"}, "spec": spec}
        with pytest.raises(Forbidden, match='needs the right "use"'):
            await tenant.resource(DEPLOYMENTS).create(deployment, namespace="team")
        metadata = {"name": "i", "namespace": "team", "annotations": ON_THE_HOST}
        instance = {"apiVersion": COMPUTE, "kind": "Instance", "metadata": metadata, "spec": {}}
        with pytest.raises(Forbidden, match="create a Workload instead"):
            await tenant.resource(INSTANCES).create(instance)


@TWICE
async def test_a_rollback_leads_to_no_invented_template(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, defended: bool
) -> None:
    """Controllers roll back to the template in the status, and may use every class."""
    if not defended:
        monkeypatch.setattr(WorkloadStrategy, "validate_status_update", lambda *_: None)
    async with place(tmp_path) as world:
        tenant = await world.tenant()
        rule = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}
        await world.admin.resource(ROLES).create({"metadata": {"name": "everything"}, "rules": [rule]})
        await world.bind("everything", "team/mallory", "team")
        await tenant.resource(WORKLOADS).create(workload())
        packed = base64.b64encode(zlib.compress(json.dumps(template(ON_THE_HOST)).encode(), 9)).decode()
        assert packed.startswith("eN")
        moment = "2026-11-17T00:00:00Z"
        revision = {"number": 1, "templateHash": "x", "created": moment, "completed": moment, "template": packed}
        refused = "must be the name of a ControllerRevision"
        with pytest.raises(Invalid, match=refused) if defended else nullcontext():
            said = {"status": {"revisions": [revision]}}
            await tenant.resource(WORKLOADS).patch("w", said, "team", subresource="status")
        kept = (await tenant.resource(WORKLOADS).get("w", "team")).get("status") or {}
        assert (packed in str(kept)) is not defended
        named = {"status": {"revisions": [revision | {"template": "w-1"}]}}
        await tenant.resource(WORKLOADS).patch("w", named, "team", subresource="status")


async def test_the_right_is_one_on_the_whole_cluster(tmp_path: Path) -> None:
    async with place(tmp_path) as world:
        tenant = await world.tenant()
        rule = {
            "apiGroups": ["node.k8s.io"],
            "resources": ["runtimeclasses"],
            "resourceNames": ["runc"],
            "verbs": ["use"],
        }
        await world.admin.resource(ROLES).create({"metadata": {"name": "use-runc"}, "rules": [rule]})
        await world.bind("use-runc", "team/mallory", "team")
        with pytest.raises(Forbidden, match="at the cluster scope"):
            await tenant.resource(PODS).create(pod(runtimeClassName="runc"))
        await world.bind("use-runc", "team/mallory")
        made = await tenant.resource(PODS).create(pod(runtimeClassName="runc"))
        assert made["spec"]["runtimeClassName"] == "runc"
        await tenant.resource(WORKLOADS).create(workload(annotations=ON_THE_HOST))
        await world.admin.resource(CLUSTER_BINDINGS).delete("use-runc-mallory")
        grown = {"spec": {"template": {"metadata": {"labels": {"a": "b"}}}}}
        await tenant.resource(WORKLOADS).patch("w", grown, "team")  # the existing class stays


async def test_administrators_and_the_system_have_it(tmp_path: Path) -> None:
    async with place(tmp_path) as world:
        await world.admin.resource(PODS).create(pod("a", runtimeClassName="runc"))
        await world.admin.resource(WORKLOADS).create(workload("a", ON_THE_HOST))
        system = await world.account("kube-system", "operator")
        await world.bind("edit", "kube-system/operator")
        made = await system.resource(PODS).create(pod("s", runtimeClassName="runc"))
        assert made["spec"]["runtimeClassName"] == "runc"
        await system.resource(WORKLOADS).create(workload("s", ON_THE_HOST))
        other = await world.account("team", "kube-system")
        await world.bind("edit", "team/kube-system", "team")
        with pytest.raises(Forbidden, match='needs the right "use"'):
            await other.resource(PODS).create(pod("t", runtimeClassName="runc"))
