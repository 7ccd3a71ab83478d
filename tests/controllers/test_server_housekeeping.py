"""The controllers on whole servers: cascades, namespaces and accounts, with one result on ours and on the real one."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Awaitable, Callable
from typing import Any

from cryptography import x509

from tarmac.api.status import NotFound
from tarmac.client.client import Client
from tarmac.client.resourceclient import ResourceClient
from tarmac.client.targets.untyped import (
    CERTIFICATE_REQUESTS,
    CONFIG_MAPS,
    NAMESPACES,
    SECRETS,
    SERVICE_ACCOUNTS,
    TOKEN_REVIEWS,
    VOLUME_CLAIMS,
)
from tarmac.controllers.certificates.requests import KUBELET_CLIENT
from tarmac.controllers.clusterrole.controller import CLUSTER_ROLES
from tests.controllers.test_certificates import csr_pem

Json = dict[str, Any]


async def eventually(check: Callable[[], Awaitable[bool]], seconds: float = 40.0) -> None:
    async with asyncio.timeout(seconds):
        while not await check():
            await asyncio.sleep(0.05)


async def exists(resource: ResourceClient[Json], name: str, namespace: str = "") -> bool:
    try:
        await resource.get(name, namespace)
    except NotFound:
        return False
    return True


async def gone(resource: ResourceClient[Json], name: str, namespace: str = "") -> None:
    async def check() -> bool:
        return not await exists(resource, name, namespace)

    await eventually(check)


async def new_namespace(client: Client) -> str:
    name = f"order-{client.randomness.suffix(10)}"
    await client.resource(NAMESPACES).create({"metadata": {"name": name}})
    return name


async def family(
    client: Client, namespace: str, **child_metadata: Any
) -> tuple[ResourceClient[Json], ResourceClient[Json]]:
    """Create a ConfigMap that owns a Secret."""
    maps, secrets = client.resource(CONFIG_MAPS), client.resource(SECRETS)
    owner = await maps.create({"metadata": {"name": "owner", "namespace": namespace}})
    reference = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "name": "owner",
        "uid": owner["metadata"]["uid"],
        "blockOwnerDeletion": True,
    }
    metadata = {"name": "child", "namespace": namespace, "ownerReferences": [reference], **child_metadata}
    await secrets.create({"metadata": metadata})
    return maps, secrets


async def test_background_deletion_takes_dependents_along(served: Client) -> None:
    namespace = await new_namespace(served)
    maps, secrets = await family(served, namespace)
    await maps.delete("owner", namespace, propagation="Background")
    await gone(secrets, "child", namespace)


async def test_foreground_deletion_waits_for_dependents(served: Client) -> None:
    namespace = await new_namespace(served)
    maps, secrets = await family(served, namespace, finalizers=["example.com/hold"])
    await maps.delete("owner", namespace, propagation="Foreground")

    async def child_is_going() -> bool:
        return "deletionTimestamp" in (await secrets.get("child", namespace))["metadata"]

    await eventually(child_is_going)
    assert (await maps.get("owner", namespace))["metadata"]["finalizers"] == ["foregroundDeletion"]
    await secrets.patch("child", {"metadata": {"finalizers": None}}, namespace)
    await gone(maps, "owner", namespace)
    assert not await exists(secrets, "child", namespace)


async def test_orphans_are_released(served: Client) -> None:
    namespace = await new_namespace(served)
    maps, secrets = await family(served, namespace)
    await maps.delete("owner", namespace, propagation="Orphan")
    await gone(maps, "owner", namespace)
    assert "ownerReferences" not in (await secrets.get("child", namespace))["metadata"]


async def test_a_namespace_goes_with_its_contents_and_says_what_it_waits_for(served: Client) -> None:
    namespaces = served.resource(NAMESPACES)
    namespace = await new_namespace(served)
    _, secrets = await family(served, namespace, finalizers=["example.com/hold"])
    await namespaces.delete(namespace)

    async def explained() -> bool:
        status = (await namespaces.get(namespace))["status"]
        told = {each["type"]: each for each in status.get("conditions") or []}
        held = told.get("NamespaceFinalizersRemaining", {}).get("message", "")
        return status["phase"] == "Terminating" and "example.com/hold in 1 resource instances" in held

    await eventually(explained)
    await secrets.patch("child", {"metadata": {"finalizers": None}}, namespace)
    await gone(namespaces, namespace)


async def test_a_namespace_without_finalizers_is_emptied_all_the_same(served: Client) -> None:
    namespaces = served.resource(NAMESPACES)
    namespace = await new_namespace(served)
    _, secrets = await family(served, namespace)
    bare = {**await namespaces.get(namespace), "spec": {"finalizers": []}}
    await namespaces.update(bare, subresource="finalize")
    await namespaces.delete(namespace)
    await gone(namespaces, namespace)
    assert not await exists(secrets, "child", namespace)


async def test_a_namespace_gets_its_account_and_the_ca_back(served: Client) -> None:
    accounts, maps = served.resource(SERVICE_ACCOUNTS), served.resource(CONFIG_MAPS)
    namespace = await new_namespace(served)
    await eventually(lambda: exists(accounts, "default", namespace))
    await eventually(lambda: exists(maps, "kube-root-ca.crt", namespace))
    first = await accounts.get("default", namespace)
    await accounts.delete("default", namespace, uid=first["metadata"]["uid"])
    await eventually(lambda: exists(accounts, "default", namespace))


async def test_a_nodes_certificate_request_is_approved_and_signed(served: Client) -> None:
    requests = served.resource(CERTIFICATE_REQUESTS)
    name = f"node-{served.randomness.suffix(10)}"
    spec = {
        "request": base64.b64encode(csr_pem("system:node:n1").encode()).decode(),
        "signerName": KUBELET_CLIENT,
        "usages": ["digital signature", "client auth"],
        "expirationSeconds": 7200,
    }
    document = {"apiVersion": requests.target.api_version, "kind": requests.target.kind}
    await requests.create({**document, "metadata": {"name": name}, "spec": spec})

    async def signed() -> bool:
        return bool((await requests.get(name)).get("status", {}).get("certificate"))

    await eventually(signed)
    status = (await requests.get(name))["status"]
    assert [(each["type"], each["reason"]) for each in status["conditions"]] == [("Approved", "AutoApproved")]
    certificate = x509.load_pem_x509_certificate(base64.b64decode(status["certificate"]))
    assert "CN=system:node:n1" in certificate.subject.rfc4514_string()


async def test_a_deleted_claim_goes_once_nothing_uses_it(served: Client) -> None:
    claims = served.resource(VOLUME_CLAIMS)
    namespace = await new_namespace(served)
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    created = await claims.create({"metadata": {"name": "disk", "namespace": namespace}, "spec": spec})
    assert created["metadata"]["finalizers"] == ["kubernetes.io/pvc-protection"]
    await claims.delete("disk", namespace)
    await gone(claims, "disk", namespace)


async def test_an_aggregated_role_shows_the_rules_it_gathers(served: Client) -> None:
    """Rules are gathered over two steps, without rules of other writers, and removed when a role stops matching."""
    roles = served.resource(CLUSTER_ROLES)
    mark = f"gather-{served.randomness.suffix(10)}"
    pods, nodes, made_up = ({"apiGroups": [""], "resources": [each], "verbs": ["get"]} for each in ("a", "b", "c"))
    gathering = {"clusterRoleSelectors": [{"matchLabels": {mark: "inner"}}]}
    await roles.create({"metadata": {"name": f"{mark}-inner", "labels": {mark: "outer"}}, "aggregationRule": gathering})
    gathering = {"clusterRoleSelectors": [{"matchLabels": {mark: "outer"}}]}
    await roles.create({"metadata": {"name": f"{mark}-outer"}, "aggregationRule": gathering, "rules": [made_up]})
    await roles.create({"metadata": {"name": f"{mark}-2", "labels": {mark: "inner"}}, "rules": [pods, nodes]})
    await roles.create({"metadata": {"name": f"{mark}-1", "labels": {mark: "inner"}}, "rules": [nodes]})

    async def shown(*rules: Json) -> bool:
        both = [(await roles.get(f"{mark}-{each}")).get("rules") or [] for each in ("inner", "outer")]
        return both == [list(rules), list(rules)]

    await eventually(lambda: shown(nodes, pods))
    await roles.patch(f"{mark}-2", {"metadata": {"labels": {mark: None}}})
    await eventually(lambda: shown(nodes))
    owner = [entry["manager"] for entry in (await roles.get(f"{mark}-outer"))["metadata"]["managedFields"]]
    assert "clusterrole-aggregation-controller" in owner
    await roles.delete(f"{mark}-1")
    await eventually(shown)
    for each in ("2", "inner", "outer"):
        await roles.delete(f"{mark}-{each}")


def token_secret(namespace: str, account: str, **content: Any) -> Json:
    return {
        "metadata": {
            "name": "app-token",
            "namespace": namespace,
            "annotations": {"kubernetes.io/service-account.name": account},
        },
        "type": "kubernetes.io/service-account-token",
        **content,
    }


async def filled(client: Client, namespace: str) -> Json:
    async def check() -> bool:
        return bool((await client.resource(SECRETS).get("app-token", namespace)).get("data", {}).get("token"))

    await eventually(check)
    return await client.resource(SECRETS).get("app-token", namespace)


async def speaks_for(client: Client, secret: Json) -> str:
    """Return the user of the token in a Secret; empty when the server rejects it."""
    spec = {"token": base64.b64decode(secret["data"]["token"]).decode()}
    review = await client.resource(TOKEN_REVIEWS).create({"metadata": {}, "spec": spec})
    return (review["status"].get("user") or {}).get("username", "") if review["status"].get("authenticated") else ""


async def test_a_secret_gets_the_token_of_its_account_and_both_end_with_it(served: Client) -> None:
    namespace = await new_namespace(served)
    accounts, secrets = served.resource(SERVICE_ACCOUNTS), served.resource(SECRETS)
    made = await accounts.create({"metadata": {"name": "app", "namespace": namespace}})
    await secrets.create(token_secret(namespace, "app"))
    first = await filled(served, namespace)
    assert base64.b64decode(first["data"]["namespace"]).decode() == namespace
    maps = served.resource(CONFIG_MAPS)
    await eventually(lambda: exists(maps, "kube-root-ca.crt", namespace))  # the order of both is undefined
    authority = (await maps.get("kube-root-ca.crt", namespace))["data"]["ca.crt"]
    assert base64.b64decode(first["data"]["ca.crt"]).decode() == authority
    assert first["metadata"]["annotations"]["kubernetes.io/service-account.uid"] == made["metadata"]["uid"]
    await eventually(lambda: is_believed(served, first, "app"))  # kube-apiserver may see it later
    # Removing a token from its Secret revokes it, and the Secret gets a new one.
    await secrets.patch("app-token", {"data": {"token": None}}, namespace)
    second = await filled(served, namespace)
    await eventually(lambda: refuses(served, first))
    await eventually(lambda: is_believed(served, second, "app"))
    await accounts.delete("app", namespace)
    await eventually(lambda: refuses(served, second))
    await gone(secrets, "app-token", namespace)


async def is_believed(client: Client, secret: Json, account: str) -> bool:
    expected = f"system:serviceaccount:{secret['metadata']['namespace']}:{account}"
    return await speaks_for(client, secret) == expected


async def refuses(client: Client, secret: Json) -> bool:
    return await speaks_for(client, secret) == ""


async def test_an_account_that_comes_again_is_another(served: Client) -> None:
    namespace = await new_namespace(served)
    accounts, secrets = served.resource(SERVICE_ACCOUNTS), served.resource(SECRETS)
    await accounts.create({"metadata": {"name": "app", "namespace": namespace}})
    await secrets.create(token_secret(namespace, "app"))
    first = await filled(served, namespace)
    await accounts.delete("app", namespace)
    await accounts.create({"metadata": {"name": "app", "namespace": namespace}})
    await gone(secrets, "app-token", namespace)
    await eventually(lambda: refuses(served, first))
    # Put the old Secret back unchanged: its account no longer exists.
    kept = {name: first["metadata"][name] for name in ("name", "namespace", "annotations")}
    await secrets.create({"metadata": kept, "type": first["type"], "data": first["data"]})
    await gone(secrets, "app-token", namespace)
    assert await refuses(served, first)


async def test_a_secret_of_nobodys_account_goes(served: Client) -> None:
    namespace = await new_namespace(served)
    await served.resource(SECRETS).create(token_secret(namespace, "nobody"))
    await gone(served.resource(SECRETS), "app-token", namespace)


async def test_a_token_that_is_there_is_left_alone(served: Client) -> None:
    namespace = await new_namespace(served)
    secrets = served.resource(SECRETS)
    await served.resource(SERVICE_ACCOUNTS).create({"metadata": {"name": "app", "namespace": namespace}})
    mine = base64.b64encode(b"mine").decode()
    await secrets.create(token_secret(namespace, "app", data={"token": mine}))

    async def check() -> bool:
        return "namespace" in (await secrets.get("app-token", namespace))["data"]

    await eventually(check)
    assert (await secrets.get("app-token", namespace))["data"]["token"] == mine
