"""Attempts of a tenant at public addresses of another one, and the decisions that stop them.

Each is made twice: with the defence, where it must fail, and without it, where it must succeed.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from tarmac.api.ingress import strategies
from tarmac.api.ingress.names import ANNOTATION_ADDRESSES, ANNOTATION_SHARED
from tarmac.client.targets.untyped import NAMESPACES, SERVICES
from tarmac.decide.ingress.binding import PoolBook
from tarmac.decide.pooled.pool import HeldAddresses, PooledTake
from tests.attacking import TWICE
from tests.controllers.cities import Cities, play
from tests.controllers.test_public_addresses import ADDRESSES, POOLS, gateway, pool, report, service, status

ADDRESS = "203.0.113.5"
ASKED = {ANNOTATION_ADDRESSES: ADDRESS}
KEY = {ANNOTATION_SHARED: "front"}
Attack = Callable[[Cities], Coroutine[Any, Any, bool]]


def attacked(attack: Attack, defended: bool) -> None:
    """Assert that the attack succeeds only without the defence."""

    async def story(cities: Cities) -> None:
        metadata = {"name": "shop"}
        await cities.user.resource(NAMESPACES).create({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
        await cities.user.resource(POOLS).create(pool(allowedNamespaces={"names": ["default", "shop"]}))
        assert await attack(cities) is not defended

    play("ingress", story, way_in=True)


async def has_it(cities: Cities, namespace: str = "shop", name: str = ADDRESS) -> bool:
    """Return whether a Service of a namespace holds an address."""
    spec = (await cities.user.resource(ADDRESSES).get(name))["spec"]
    every = [spec.get("claimRef") or {}, *spec.get("sharedBy", ())]
    return any(each.get("namespace") == namespace and each.get("uid") for each in every)


@TWICE
def test_t1_a_tenant_asks_for_an_address_that_another_holds(monkeypatch: pytest.MonkeyPatch, defended: bool) -> None:
    async def attack(cities: Cities) -> bool:
        await cities.user.resource(SERVICES).create(service(annotations=ASKED))
        await cities.wait(2)
        assert await has_it(cities, "default")
        await cities.user.resource(SERVICES).create(service("theft", "shop", annotations=ASKED))
        await cities.wait(2)
        return await has_it(cities)

    if not defended:
        monkeypatch.setattr(strategies, "_check_holders", lambda *_: None)
        monkeypatch.setattr(HeldAddresses, "_known_one", lambda _, address, known, wish: _taken(address, known))
    attacked(attack, defended)


@TWICE
def test_t1_a_tenant_asks_for_an_address_that_clients_still_trust(
    monkeypatch: pytest.MonkeyPatch, defended: bool
) -> None:
    async def attack(cities: Cities) -> bool:
        services = cities.user.resource(SERVICES)
        await services.create(service(annotations=ASKED))
        await cities.wait(2)
        await services.delete("web", "default")
        await cities.wait(15)
        assert (await cities.user.resource(ADDRESSES).get(ADDRESS))["status"]["phase"] == "Quarantined"
        await services.create(service("theft", "shop", annotations=ASKED))
        await cities.wait(2)
        return await has_it(cities)

    if not defended:
        monkeypatch.setattr(HeldAddresses, "_resting", lambda _, known, wish: PooledTake(known.address, known.source))
    attacked(attack, defended)


def test_t1_an_address_in_a_status_is_believed_by_no_controller() -> None:
    """Agents read no status of Services: their type of a Service has none."""

    async def story(cities: Cities) -> None:
        await cities.user.resource(POOLS).create(pool())
        await gateway(cities)
        await cities.user.resource(SERVICES).create(service(annotations=ASKED))
        await cities.user.resource(SERVICES).create(service("theft", annotations={ANNOTATION_ADDRESSES: "203.0.113.6"}))
        await cities.wait(2)
        for each in (ADDRESS, "203.0.113.6"):
            await report(cities, each, {"name": "dfw-0", "announcing": True})
        await cities.wait(2)
        lie = {"status": {"loadBalancer": {"ingress": [{"ip": ADDRESS, "ipMode": "VIP"}]}}}
        await cities.user.resource(SERVICES).patch("theft", lie, "default", subresource="status")
        await cities.wait(2)
        assert (await status(cities, "theft"))[0] == ["203.0.113.6"]
        assert (await status(cities))[0] == [ADDRESS]
        assert (await cities.user.resource(ADDRESSES).get(ADDRESS))["spec"]["claimRef"]["name"] == "web"

    play("ingress", story, way_in=True)


@TWICE
def test_t2_a_tenant_shares_the_address_of_another_by_its_key(monkeypatch: pytest.MonkeyPatch, defended: bool) -> None:
    async def attack(cities: Cities) -> bool:
        await cities.user.resource(SERVICES).create(service(annotations=ASKED | KEY))
        await cities.wait(2)
        await cities.user.resource(SERVICES).create(service("theft", "shop", 443, annotations=ASKED | KEY))
        await cities.wait(2)
        return await has_it(cities)

    if not defended:
        monkeypatch.setattr(strategies, "_check_holders", lambda *_: None)
        monkeypatch.setattr(PoolBook, "_share", lambda *_: True)
    attacked(attack, defended)


@TWICE
def test_t2_a_service_takes_the_port_of_another_on_a_shared_address(
    monkeypatch: pytest.MonkeyPatch, defended: bool
) -> None:
    async def attack(cities: Cities) -> bool:
        await cities.user.resource(SERVICES).create(service(annotations=ASKED | KEY))
        await cities.wait(2)
        await cities.user.resource(SERVICES).create(service("theft", annotations=KEY))
        await cities.wait(2)
        return bool((await cities.user.resource(ADDRESSES).get(ADDRESS))["spec"].get("sharedBy"))

    if not defended:
        monkeypatch.setattr(PoolBook, "_share", lambda *_: True)
    attacked(attack, defended)


@TWICE
def test_t10_a_tenant_takes_more_addresses_than_its_quota(monkeypatch: pytest.MonkeyPatch, defended: bool) -> None:
    async def attack(cities: Cities) -> bool:
        await cities.user.resource(POOLS).patch("public", {"spec": {"quota": {"perNamespace": 1}}})
        for number in range(3):
            await cities.user.resource(SERVICES).create(service(f"s{number}"))
        await cities.wait(3)
        return len((await cities.user.resource(ADDRESSES).list()).items) > 1

    if not defended:
        monkeypatch.setattr(HeldAddresses, "_within_quota", lambda *_: None)
    attacked(attack, defended)


def _taken(address: Any, known: Any) -> PooledTake[Any]:
    return PooledTake(address, known.source if known is not None else None)
