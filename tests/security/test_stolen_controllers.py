"""The stolen certificate of kube-controller-manager, as `tarmac up --with-kubernetes-controllers` issues it.

It gets tokens of the nine accounts and their rights, which run workloads of users. It reads no Secret, gets no other
account, and creates no Pod of its own invention: in `kube-system` that Pod could use an account that writes cluster
roles.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from tarmac.client.targets.target import dynamic
from tarmac.client.targets.untyped import SERVICE_ACCOUNTS
from tarmac.server.admission.controllers import stockrestriction
from tarmac.server.security.authorization.stockcontrollers import STOCK_PROCESS, STOCK_ROLES, STOCK_USERS
from tests.attacking import TWICE
from tests.security.tenants import pod, tenant
from tests.security.wire import Attacker, Json, Wire, serving

SYSTEM = "/api/v1/namespaces/kube-system"
APPS = "/apis/apps/v1/namespaces/kube-system"
ACCOUNTS = sorted(name.rpartition(":")[2] for name in STOCK_USERS)
DEPLOYMENTS = dynamic("apps/v1", "deployments", "Deployment")
REPLICA_SETS = dynamic("apps/v1", "replicasets", "ReplicaSet")
LABELS = {"app": "x"}


@pytest.fixture
async def wire(tmp_path: Path) -> AsyncGenerator[Wire]:
    async with serving(tmp_path) as running:
        for namespace, name in [("kube-system", each) for each in (*ACCOUNTS, "tarmac-clusterrole")]:
            body: Json = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}}
            body["metadata"]["namespace"] = namespace
            await running.admin.resource(SERVICE_ACCOUNTS).apply(body, manager="test")
        yield running


def thief(wire: Wire) -> Attacker:
    return wire.attacker(wire.pki.client(STOCK_PROCESS))


async def token(wire: Wire, account: str) -> Attacker:
    """Return a client of the thief with a token of one of the accounts."""
    body: Json = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    answer = await thief(wire).post(f"{SYSTEM}/serviceaccounts/{account}/token", body)
    assert answer.status == 201, answer
    return wire.attacker(token=answer.body["status"]["token"])


async def test_it_gets_tokens_of_the_nine_accounts_only(wire: Wire) -> None:
    assert len(ACCOUNTS) == 9
    for account in ACCOUNTS:
        await token(wire, account)
    evil = await tenant(wire, "evil")
    namesake: Json = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": ACCOUNTS[0]}}
    assert (await evil.post("/api/v1/namespaces/evil/serviceaccounts", namesake)).status == 201
    for path in (
        f"{SYSTEM}/serviceaccounts/tarmac-clusterrole",
        f"/api/v1/namespaces/evil/serviceaccounts/{ACCOUNTS[0]}",
    ):
        assert (await thief(wire).post(f"{path}/token", {"spec": {}})).status == 403
        assert (await thief(wire).get(path)).status == 403


READS = (
    "/api/v1/secrets",
    f"{SYSTEM}/secrets",
    f"{SYSTEM}/configmaps",
    "/api/v1/namespaces",
    "/api/v1/serviceaccounts",
    "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "/apis/certificates.k8s.io/v1/certificatesigningrequests",
    "/apis/compute.datumapis.com/v1alpha/workloads",
    "/apis/networking.datumapis.com/v1alpha/podendpoints",
)


async def test_it_reads_no_secrets_with_any_of_its_identities(wire: Wire) -> None:
    for attacker in [thief(wire), *[await token(wire, account) for account in ACCOUNTS]]:
        found = {path: (await attacker.get(path)).status for path in READS}
        assert set(found.values()) == {403}, found


def invented(**more: Any) -> Json:
    """A Pod that would take control of the cluster: its account may write any ClusterRole."""
    body = pod("x", labels=LABELS, serviceAccountName="tarmac-clusterrole", **more)
    body["metadata"] |= {"namespace": "kube-system"}
    return body


def templated(kind: str, **more: Any) -> Json:
    spec: Json = {"selector": {"matchLabels": LABELS}, "template": {"metadata": {"labels": LABELS}}} | more
    spec["template"]["spec"] = invented()["spec"]
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": "x", "namespace": "kube-system"}, "spec": spec}


@TWICE
async def test_it_runs_nothing_of_its_own(wire: Wire, monkeypatch: pytest.MonkeyPatch, defended: bool) -> None:
    if not defended:
        monkeypatch.setattr(stockrestriction, "STOCK_USERS", frozenset())
    job: Json = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "x", "namespace": "kube-system"}}
    job["spec"] = {"template": {"spec": {**invented()["spec"], "restartPolicy": "Never"}}}
    requests: tuple[tuple[str, Json], ...] = (
        (f"{SYSTEM}/pods", invented()),
        (f"{SYSTEM}/pods", invented(hostNetwork=True, runtimeClassName="runc")),
        (f"{APPS}/replicasets", templated("ReplicaSet")),
        (f"{APPS}/deployments", templated("Deployment")),
        (f"{APPS}/statefulsets", templated("StatefulSet")),
        (f"{APPS}/daemonsets", templated("DaemonSet")),
        ("/apis/batch/v1/namespaces/kube-system/jobs", job),
    )
    ways, attempts = 0, 0
    for account in ACCOUNTS:
        attacker = await token(wire, account)
        for number, (path, body) in enumerate(requests):
            name = f"{account}-{number}"
            answer = await attacker.post(path, {**body, "metadata": {**body["metadata"], "name": name}})
            assert answer.status in (201, 403), answer
            ways, attempts = ways + (answer.status == 201), attempts + 1
    assert attempts == 63
    assert (ways == 0) is defended, ways
    assert defended or ways == 12


@TWICE
async def test_it_changes_no_image_of_a_pod(wire: Wire, monkeypatch: pytest.MonkeyPatch, defended: bool) -> None:
    if not defended:
        monkeypatch.setattr(stockrestriction, "STOCK_USERS", frozenset())
    admin = wire.attacker(wire.pki.admin())
    body = pod("running", labels=LABELS)
    body["metadata"]["namespace"] = "kube-system"
    assert (await admin.post(f"{SYSTEM}/pods", body)).status == 201
    changed = 0
    for account in ACCOUNTS:
        attacker = await token(wire, account)
        for patch in ({"spec": {"containers": [{"name": "c", "image": f"evil.example/{account}:1"}]}},):
            answer = await attacker.patch(f"{SYSTEM}/pods/running", patch, "strategic-merge-patch")
            assert answer.status in (200, 403), answer
            changed += answer.status == 200
    assert (changed == 0) is defended
    assert defended or changed == 5


@TWICE
async def test_a_tenant_writes_no_controller_revision(
    wire: Wire, monkeypatch: pytest.MonkeyPatch, defended: bool
) -> None:
    """Even an account with all rights in its namespace; it could create a Pod on the host's kernel."""
    if not defended:
        monkeypatch.setattr(stockrestriction.StockControllerRestriction, "_check_author", lambda *_: None)
    evil = await tenant(wire, "evil", role="cluster-admin")
    patch: Json = {"template": {"$patch": "replace", "spec": {"runtimeClassName": "runc"}}}
    body: Json = {"apiVersion": "apps/v1", "kind": "ControllerRevision", "metadata": {"name": "x"}, "revision": 1}
    answer = await evil.post("/apis/apps/v1/namespaces/evil/controllerrevisions", {**body, "data": {"spec": patch}})
    assert answer.status == (403 if defended else 201), answer


def test_no_role_of_a_controller_has_rights_that_it_does_not_use() -> None:
    """The rights that the sources of kube-controller-manager 1.35 use."""
    granted = {
        (verb, resource)
        for rules in STOCK_ROLES.values()
        for rule in rules
        for verb in rule["verbs"]
        for resource in rule["resources"]
    }
    for verb, resource in (
        ("delete", "persistentvolumeclaims"),
        ("create", "pods/binding"),
        ("update", "deployments"),
        ("update", "cronjobs"),
        ("update", "jobs"),
        ("create", "pods/exec"),
        ("impersonate", "serviceaccounts"),
    ):
        assert (verb, resource) not in granted
    assert not {resource for _, resource in granted} & {"secrets", "configmaps", "roles", "clusterroles"}
