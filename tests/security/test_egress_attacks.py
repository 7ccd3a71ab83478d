"""Attacks on addresses, services and gateways of other tenants, and the checks that stop them.

Each attack is made twice: with the defence, where it must fail, and without it, where it must succeed. So a test here
cannot pass for another reason than the one it names.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from tarmac.api.egress.names import NAMESPACE
from tarmac.api.schema import JsonObject
from tarmac.api.status import ApiError, Forbidden
from tarmac.client.client import Client
from tarmac.client.targets.target import dynamic
from tarmac.client.targets.untyped import NAMESPACES, NODES
from tarmac.client.targets.untyped import SERVICES as CORE_SERVICES
from tarmac.decide.egress import model, sourceresolution
from tarmac.decide.egress.model import EgressModel
from tarmac.decide.pooled.pool import HeldAddresses, PooledTake
from tarmac.server.admission.addresses.sourceranges import SourceRanges
from tarmac.server.admission.nodes import noderestriction
from tarmac.server.admission.references import egressreferences
from tarmac.server.security.users import User
from tests.attacking import TWICE
from tests.controllers.cities import Cities, condition, play, pod
from tests.controllers.test_external_services import ALL, external, prepare, relays
from tests.controllers.test_source_ip_claims import CLAIMS, CLASSES, SERVICES, SOURCE_IPS, address_class, claim, made

BINDINGS = dynamic("rbac.authorization.k8s.io/v1", "rolebindings", "RoleBinding")
GATEWAYS = dynamic("submariner.io/v1alpha1", "gateways", "Gateway")
MALLORY = User("mallory", groups=("system:authenticated",))
Attack = Callable[[Cities], Coroutine[Any, Any, bool]]


def attacked(attack: Attack, defended: bool) -> None:
    """Assert that the attack succeeds only without the defence."""

    async def story(cities: Cities) -> None:
        assert await attack(cities) is not defended

    play(f"{ALL},clusterrole", story)


async def succeeds(what: Coroutine[Any, Any, object]) -> bool:
    """Return whether the server accepts a write."""
    try:
        await what
    except ApiError:
        return False
    return True


async def shop(cities: Cities) -> Client:
    """Create a second namespace, whose editor is the attacker; return the attacker's client."""
    metadata = {"name": "shop"}
    await cities.user.resource(NAMESPACES).create({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"}
    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": MALLORY.name}
    metadata = {"name": "editor", "namespace": "shop"}
    await cities.user.resource(BINDINGS).create(
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "RoleBinding",
            "metadata": metadata,
            "roleRef": role,
            "subjects": [subject],
        }
    )
    await cities.wait(2)
    return cities.world.reliable(MALLORY)


async def service_of(client: Client, namespace: str, **metadata: Any) -> None:
    spec: JsonObject = {"selector": {"app": "web"}, "ports": [{"port": 80}]}
    body = {"metadata": {"name": "web", "namespace": namespace, **metadata}, "spec": spec}
    await client.resource(CORE_SERVICES).create({"apiVersion": "v1", "kind": "Service", **body})


async def rules(cities: Cities) -> list[str]:
    """Return the source addresses of egress rules, with the namespace of the service."""
    forwarders, _ = await relays(cities)
    return [
        f"{each['spec']['externalService']['namespace']} {rule['gatewayip']}"
        for each in forwarders
        for rule in each["spec"]["egressrules"]
    ]


@TWICE
def test_a_node_labels_itself_a_gateway(monkeypatch: pytest.MonkeyPatch, defended: bool) -> None:
    async def attack(cities: Cities) -> bool:
        node = cities.world.reliable(User("system:node:dfw-2", groups=("system:nodes", "system:authenticated")))
        label = {"metadata": {"labels": {"submariner.io/gateway": "true"}}}
        return await succeeds(node.resource(NODES).patch("dfw-2", label))

    if not defended:
        monkeypatch.setattr(noderestriction, "_is_forbidden", lambda _label: False)
    attacked(attack, defended)


@TWICE
def test_a_node_says_that_another_carries_an_address(monkeypatch: pytest.MonkeyPatch, defended: bool) -> None:
    async def attack(cities: Cities) -> bool:
        await prepare(cities)
        await cities.user.resource(SERVICES).create(external())
        await cities.wait(4)
        node = cities.world.reliable(User("system:node:dfw-0", groups=("system:nodes", "system:authenticated")))
        lie = {"status": {"nodes": [{"name": "dfw-1", "owner": True, "epoch": 99}]}}
        return await succeeds(node.resource(GATEWAYS).patch("192.0.2.5", lie, NAMESPACE, subresource="status"))

    if not defended:
        monkeypatch.setattr(noderestriction, "admit_gateway", lambda *_: None)
    attacked(attack, defended)


@TWICE
def test_a_tenant_writes_down_an_address_that_another_holds(monkeypatch: pytest.MonkeyPatch, defended: bool) -> None:
    async def attack(cities: Cities) -> bool:
        await prepare(cities)
        mallory = await shop(cities)
        allowed = {"spec": {"allowedNamespaces": {"names": ["default", "shop"]}}}
        await cities.user.resource(CLASSES).patch("partner", allowed)
        await service_of(mallory, "shop")
        await mallory.resource(CORE_SERVICES).patch("web", {"spec": {"selector": {"app": "mine"}}}, "shop")
        mine = pod("mine", place="dfw", labels={"app": "mine"})
        mine["metadata"]["namespace"] = "shop"
        await cities.pods.create(mine)
        sources = [{"service": {"name": "web"}, "sourceIP": "192.0.2.5"}]
        await mallory.resource(SERVICES).create(external("theft", "shop", sources=sources))
        await cities.wait(15)
        return "shop 192.0.2.5" in await rules(cities)

    if not defended:
        honest = EgressModel.claim_holding
        monkeypatch.setattr(EgressModel, "claim_holding", lambda world, _, address: honest(world, "default", address))
        monkeypatch.setattr(EgressModel, "users", lambda *_: [])
        monkeypatch.setattr(EgressModel, "authorized", lambda *_: True)
    attacked(attack, defended)


@TWICE
def test_a_tenant_names_the_service_of_another_namespace(monkeypatch: pytest.MonkeyPatch, defended: bool) -> None:
    async def attack(cities: Cities) -> bool:
        await prepare(cities)
        mallory = await shop(cities)
        offered = address_class("shops", ranges=[{"cidr": "192.0.2.16/28"}], allowedNamespaces={"names": ["shop"]})
        await cities.user.resource(CLASSES).create(offered)
        await mallory.resource(CLAIMS).create(claim("mine", "shop", className="shops", address="192.0.2.20"))
        sources = [{"service": {"name": "web", "namespace": "default"}, "sourceIPClaim": {"name": "mine"}}]
        await mallory.resource(SERVICES).create(external("spy", "shop", sources=sources))
        await cities.wait(6)
        return "shop 192.0.2.20" in await rules(cities)

    if not defended:
        monkeypatch.setattr(sourceresolution, "grants", lambda *_: True)
    attacked(attack, defended)


@TWICE
def test_a_tenant_claims_more_than_his_quota(monkeypatch: pytest.MonkeyPatch, defended: bool) -> None:
    async def attack(cities: Cities) -> bool:
        await cities.user.resource(CLASSES).create(address_class(quota={"perNamespace": 1}))
        for name in ("a", "b"):
            await cities.user.resource(CLAIMS).create(claim(name))
        await cities.wait(3)
        return len((await cities.user.resource(SOURCE_IPS).list()).items) > 1

    if not defended:
        monkeypatch.setattr(HeldAddresses, "_within_quota", lambda *_: None)
    attacked(attack, defended)


@TWICE
def test_a_tenant_claims_of_a_class_that_is_not_for_his_namespace(
    monkeypatch: pytest.MonkeyPatch, defended: bool
) -> None:
    async def attack(cities: Cities) -> bool:
        mallory = await shop(cities)
        await cities.user.resource(CLASSES).create(address_class())
        await mallory.resource(CLAIMS).create(claim("mine", "shop"))
        await cities.wait(3)
        return bool((await cities.user.resource(SOURCE_IPS).list()).items)

    if not defended:
        monkeypatch.setattr(model, "allows", lambda *_: True)
    attacked(attack, defended)


@TWICE
def test_claims_need_the_right_to_use_their_class(monkeypatch: pytest.MonkeyPatch, defended: bool) -> None:
    async def attack(cities: Cities) -> bool:
        await shop(cities)
        role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role"}
        rule = {"apiGroups": ["submariner.io"], "resources": ["sourceipclaims"], "verbs": ["create"]}
        roles = dynamic(role["apiVersion"], "roles", "Role")
        metadata = {"name": "writer", "namespace": "shop"}
        await cities.user.resource(roles).create({**role, "metadata": metadata, "rules": [rule]})
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "writer"}
        subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "eve"}
        binding = {"apiVersion": role["apiVersion"], "kind": "RoleBinding", "metadata": metadata}
        await cities.user.resource(BINDINGS).create({**binding, "roleRef": reference, "subjects": [subject]})
        await cities.user.resource(CLASSES).create(address_class(allowedNamespaces={"names": ["shop"]}))
        await cities.wait(2)
        eve = cities.world.reliable(User("eve", groups=("system:authenticated",)))
        return await succeeds(eve.resource(CLAIMS).create(claim("mine", "shop")))

    if not defended:
        monkeypatch.setattr(egressreferences, "may_use", lambda *_: True)
    attacked(attack, defended)


@TWICE
def test_an_address_that_partners_still_trust_is_asked_for_by_another(
    monkeypatch: pytest.MonkeyPatch, defended: bool
) -> None:
    async def attack(cities: Cities) -> bool:
        mallory, claims = await shop(cities), cities.user.resource(CLAIMS)
        both = {"names": ["default", "shop"]}
        await cities.user.resource(CLASSES).create(address_class(allowedNamespaces=both, holdDown="1h"))
        await claims.create(claim("c", address="192.0.2.5"))
        await cities.wait(3)
        await claims.delete("c", "default")
        await cities.wait(20)
        await mallory.resource(CLAIMS).create(claim("mine", "shop", address="192.0.2.5"))
        await cities.wait(3)
        found = await mallory.resource(CLAIMS).get("mine", "shop")
        return condition(found, "Bound")["status"] == "True"

    if not defended:
        monkeypatch.setattr(HeldAddresses, "_resting", lambda _, held, _wish: PooledTake(held.address, held.source))
    attacked(attack, defended)


@TWICE
def test_a_class_is_made_smaller_under_an_address_that_is_held(monkeypatch: pytest.MonkeyPatch, defended: bool) -> None:
    async def attack(cities: Cities) -> bool:
        await cities.user.resource(CLASSES).create(address_class())
        await cities.user.resource(CLAIMS).create(claim("c", address="192.0.2.5"))
        await cities.wait(3)
        smaller = {"spec": {"ranges": [{"cidr": "192.0.2.8/30"}]}}
        return await succeeds(cities.user.resource(CLASSES).patch("partner", smaller))

    if not defended:
        monkeypatch.setattr(SourceRanges, "dropped", lambda *_: [])
    attacked(attack, defended)


@TWICE
def test_a_service_points_at_a_node(monkeypatch: pytest.MonkeyPatch, defended: bool) -> None:
    """The server rejects it, and the controller would make no rule of such an object."""

    async def attack(cities: Cities) -> bool:
        await prepare(cities)
        inside = (await cities.nodes.get("lhr-0"))["status"]["addresses"][0]["address"]
        if not await succeeds(cities.user.resource(SERVICES).create(external(targetIP=inside))):
            return False
        await cities.wait(6)
        return bool(await rules(cities))

    plugin = egressreferences.ExternalReferences
    if not defended:
        monkeypatch.setattr(plugin, "_of_platform", lambda *_: None)
        monkeypatch.setattr(EgressModel, "is_of_a_node", lambda *_: False)
        monkeypatch.setattr("tarmac.controllers.egress.cachedmodel.CachedEgressModel.is_of_a_node", lambda *_: False)
    attacked(attack, defended)


def test_a_service_that_points_at_a_node_that_came_later_is_not_carried_out(monkeypatch: pytest.MonkeyPatch) -> None:
    async def attack(cities: Cities) -> bool:
        await prepare(cities)
        inside = (await cities.nodes.get("lhr-0"))["status"]["addresses"][0]["address"]
        await cities.user.resource(SERVICES).create(external(targetIP=inside))
        await cities.wait(6)
        found = condition(await cities.user.resource(SERVICES).get("db", "default"), "Accepted")
        assert found["reason"] == "TargetInsidePlatform"
        return bool(await rules(cities))

    monkeypatch.setattr(egressreferences.ExternalReferences, "_of_platform", lambda *_: None)
    attacked(attack, defended=True)


def test_l3_a1_tenants_write_neither_rules_nor_what_controllers_say() -> None:
    async def story(cities: Cities) -> None:
        await prepare(cities)
        mallory = await shop(cities)
        await mallory.resource(CLAIMS).create(claim("mine", "shop"))
        bound = {"status": {"phase": "Bound", "addresses": ["192.0.2.5"], "sourceIPNames": ["192.0.2.5"]}}
        with pytest.raises(Forbidden):
            await mallory.resource(CLAIMS).patch("mine", bound, "shop", subresource="status")
        await cities.user.resource(SERVICES).create(external())
        await cities.wait(6)
        for kind, plural in (("Gateway", "gateways"), ("Forwarder", "forwarders")):
            target = dynamic("submariner.io/v1alpha1", plural, kind)
            theirs, every = mallory.resource(target), (await cities.user.resource(target).list()).items
            name = every[0]["metadata"]["name"]
            assert {each["metadata"]["namespace"] for each in every} == {NAMESPACE}, "none lies in a user's namespace"
            for attempt in (
                theirs.get(name, NAMESPACE),
                theirs.list(NAMESPACE),
                theirs.list("shop"),
                theirs.create(made(kind, "x", {}, NAMESPACE)),
                theirs.create(made(kind, "x", {}, "shop")),
                theirs.patch(name, {"spec": {"egressrules": []}}, NAMESPACE),
                theirs.patch(name, {"status": {}}, NAMESPACE, subresource="status"),
                theirs.delete(name, NAMESPACE),
            ):
                with pytest.raises(Forbidden):
                    await attempt
        with pytest.raises(Forbidden):
            await mallory.resource(SOURCE_IPS).patch("192.0.2.5", {"spec": {"claimRef": None}})
        # Even with a forged status of the claim, the address itself does not agree.
        await cities.user.resource(CLAIMS).patch("mine", bound, "shop", subresource="status")
        sources = [{"service": {"name": "web"}, "sourceIPClaim": {"name": "mine"}}]
        await service_of(mallory, "shop")
        await mallory.resource(SERVICES).create(external("theft", "shop", sources=sources))
        await cities.wait(6)
        assert not [each for each in await rules(cities) if each.startswith("shop")]

    play(f"{ALL},clusterrole", story)
