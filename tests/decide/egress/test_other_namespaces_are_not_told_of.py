"""Objects of other namespaces without a grant: status, plan and explanation treat them as missing."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tarmac.api.egress.externalservice import ExternalService
from tarmac.decide.egress.compiling import Compiled
from tarmac.decide.egress.sources import first_place, resolve
from tarmac.decide.egress.status import Observed, roll_up
from tarmac.decide.explain.externalservices import explain_service
from tarmac.decide.plans.egress import plan_service
from tests.decide.egress.making import address_class, service
from tests.decide.egress.worlds import Plain, web

THEIRS = {"service": {"name": "web", "namespace": "shop"}, "sourceIPClaim": {"name": "c"}}


def shop(granted: str | None = "") -> Plain:
    """Return a world with a Service of the namespace `shop` and its pod; None: without."""
    world = Plain()
    if granted is not None:
        world.services["shop/web"], world.granted["shop/web"] = web("x", namespace="shop"), granted
        world.put_pod("x", 2, namespace="shop")
    return world


def everything_told(wanted: ExternalService, world: Plain) -> Any:
    """Return status, conditions, plan and explanation of an ExternalService."""
    found, seen = resolve(wanted, world), Observed()
    told = (
        roll_up(found, Compiled(), "", seen),
        plan_service(found, world),
        explain_service(found, Compiled(), "", seen),
    )
    return msgspec.to_builtins(told)


@pytest.mark.parametrize("granted", ["", "shop", "team/other"])
def test_a_service_that_grants_nothing_looks_like_one_that_does_not_exist(granted: str) -> None:
    wanted = service(sources=[THEIRS])
    assert everything_told(wanted, shop(granted)) == everything_told(wanted, shop(None))
    assert everything_told(wanted, shop("team")) != everything_told(wanted, shop(None))


def test_endpoints_of_a_service_that_grants_nothing_are_not_read() -> None:
    world = shop()
    resolve(service(sources=[THEIRS]), world)
    first_place(service(sources=[THEIRS]), address_class(), world)
    assert world.looked_into == []


def test_the_place_of_an_address_tells_nothing_about_pods_that_are_not_granted() -> None:
    two = address_class(locations=[{"name": "dfw"}, {"name": "ams"}])
    assert first_place(service(sources=[THEIRS]), two, shop()) == ""
    assert first_place(service(sources=[THEIRS]), two, shop("team")) == "dfw"


def test_a_target_is_compared_with_networks_of_granted_pods_and_of_the_own_namespace() -> None:
    for granted, networks in (("", ["team/*"]), ("team", ["shop/default", "team/*"])):
        world = shop(granted)
        resolve(service(sources=[THEIRS]), world)
        assert world.looked_at == networks


def test_users_of_a_shared_address_in_other_namespaces_are_not_named() -> None:
    theirs = service("secret", "shop", created="2026-11-16T09:00:00Z", sources=[THEIRS])
    world = shop("team")
    world.others = [theirs, service()]
    assert "secret" not in str(everything_told(service(), world)), "an exclusive address"
    world.classes["partner"] = address_class(
        sharing="Class", inbound={"policy": "FromTarget"}, allowedNamespaces={"names": ["team", "shop"]}
    )
    world.claims["shop/c"] = msgspec.structs.replace(
        world.claims["team/c"], metadata=msgspec.structs.replace(world.claims["team/c"].metadata, namespace="shop")
    )
    (source,) = resolve(service(), world).sources
    assert [each.reason for each in source.remarks] == ["InboundConflict"]
    assert "leads the target to a Service of another namespace already" in source.remarks[0].message
