"""Addresses are given out once, belong to one holder, and are free again afterwards."""

from __future__ import annotations

import random
from typing import Any, Literal

from tarmac.api.compute.workload import WorkloadDeployment
from tarmac.api.declare import decode
from tarmac.api.networking.interfaces import AttachedInterface, decode_interfaces, encode_interfaces
from tarmac.api.networking.names import ANNOTATION_INTERFACES
from tarmac.api.shared import LocationReference
from tarmac.client.cache import Cache
from tarmac.client.clientmetrics import ClientMetrics
from tarmac.client.envelope import metadata_of
from tarmac.client.targets.target import encode
from tarmac.client.targets.typed import INSTANCES
from tarmac.client.targets.untyped import PODS
from tarmac.client.watch import Change
from tarmac.controllers.context import ControllerContext
from tarmac.controllers.deployment.instancewriter import InstanceWriter
from tarmac.controllers.ipam import AddressBook, Attachment
from tests.controllers.harness import Stage

SMALL = Attachment("eth0", "default/default", 4097, 1460, {"IPv4": "10.0.0.0/28", "IPv6": "fd20::/64"})
DEPLOYMENT = {
    "metadata": {"name": "web-dfw", "namespace": "default", "uid": "web-dfw"},
    "spec": {
        "workloadRef": {"name": "web", "uid": "web"},
        "placementName": "us",
        "cityCode": "DFW",
        "template": {
            "spec": {
                "runtime": {"resources": {"instanceType": "datumcloud/d1-standard-2"}},
                "networkInterfaces": [{"network": {"name": "default"}}],
            }
        },
        "scaleSettings": {"minReplicas": 2},
    },
}
ROOM = 13  # of a /28: without the subnet's own address, its gateway and the broadcast address


class Desk:
    """An address book over caches that a test fills."""

    def __init__(self) -> None:
        informers = Stage().informers
        self.book = AddressBook(informers)
        self.caches: dict[str, Cache[Any]] = {
            "Instance": informers.informer(INSTANCES).cache,
            "Pod": informers.informer(PODS).cache,
        }
        self.version = 0

    def ask(self, name: str) -> list[AttachedInterface]:
        verdict = self.book.assign(f"default/{name}", [SMALL])
        assert verdict.value is not None, verdict.refusals
        return verdict.value

    def appears(self, kind: str, name: str, interfaces: list[AttachedInterface]) -> None:
        self._tell("ADDED", kind, name, interfaces)

    def goes(self, kind: str, name: str, interfaces: list[AttachedInterface]) -> None:
        self._tell("DELETED", kind, name, interfaces)

    def _tell(
        self, type: Literal["ADDED", "DELETED"], kind: str, name: str, interfaces: list[AttachedInterface]
    ) -> None:
        self.version += 1
        annotations = {ANNOTATION_INTERFACES: encode_interfaces(interfaces)} if interfaces else {}
        metadata = {"name": name, "namespace": "default", "uid": name, "annotations": annotations}
        raw = encode({"metadata": {**metadata, "resourceVersion": str(self.version)}})
        self.caches[kind].changed(Change(type, metadata_of(raw), raw))

    @property
    def free(self) -> int:
        """Return the number of addresses that can still be given out, found by trying."""
        count = 0
        while self.book.assign(f"default/probe-{count}", [SMALL]).decided:
            count += 1
        for number in range(count):
            self.book.forget(f"default/probe-{number}")
        return count


def test_each_is_given_once_and_asking_again_gives_the_same() -> None:
    desk = Desk()
    first, second = desk.ask("a"), desk.ask("b")
    assert first[0].addresses == ["10.0.0.2/28", "fd20::2/64"]
    assert second[0].addresses == ["10.0.0.3/28", "fd20::3/64"]
    assert desk.ask("a") == first
    assert desk.free == ROOM - 2


def test_a_promise_ends_with_the_object_that_keeps_it() -> None:
    desk = Desk()
    desk.appears("Instance", "a", desk.ask("a"))
    assert desk.free == ROOM - 1
    held = desk.ask("b")
    desk.book.forget("default/b")
    assert desk.ask("c") == held
    desk.goes("Instance", "a", [])
    assert desk.free == ROOM - 1


def test_an_attempt_that_went_through_after_all_leaks_nothing() -> None:
    desk = Desk()
    lost = desk.ask("a")
    desk.book.forget("default/a")
    desk.ask("other")
    again = desk.ask("a")
    assert again != lost
    desk.appears("Instance", "a", again)
    assert desk.free == ROOM - 2


def test_a_pod_that_is_slow_to_die_keeps_its_addresses() -> None:
    desk = Desk()
    held = desk.ask("a")
    desk.appears("Instance", "a", held)
    desk.appears("Pod", "a", held)
    desk.goes("Instance", "a", held)
    assert desk.free == ROOM - 1
    desk.goes("Pod", "a", held)
    assert desk.free == ROOM


def test_a_full_subnet_gives_nothing_and_says_which() -> None:
    desk = Desk()
    for number in range(ROOM):
        desk.ask(str(number))
    verdict = desk.book.assign("default/one-too-many", [SMALL])
    assert not verdict.decided
    assert verdict.refusals[0].reason == "AddressPoolExhausted"
    assert "10.0.0.0/28" in verdict.refusals[0].message


def test_no_address_is_ever_held_twice_nor_lost() -> None:
    for seed in range(30):
        rng, desk = random.Random(seed), Desk()
        promised: dict[str, list[AttachedInterface]] = {}
        living: dict[tuple[str, str], list[AttachedInterface]] = {}
        for step in range(120):
            action = rng.random()
            if action < 0.4 and len({*promised, *(name for _, name in living)}) < ROOM:
                promised[f"n{step}"] = desk.ask(f"n{step}")
            elif action < 0.6 and promised:
                name = rng.choice(sorted(promised))
                living["Instance", name] = promised.pop(name)
                desk.appears("Instance", name, living["Instance", name])
            elif action < 0.7 and promised:
                name = rng.choice(sorted(promised))
                del promised[name]
                desk.book.forget(f"default/{name}")
            elif action < 0.8 and living:
                _, name = rng.choice(sorted(living))
                interfaces = living.get(("Instance", name)) or living["Pod", name]
                living["Pod", name] = interfaces
                desk.appears("Pod", name, interfaces)
            elif living:
                kind, name = rng.choice(sorted(living))
                desk.goes(kind, name, living.pop((kind, name)))
            holders = {
                **promised,
                **{name: made for (_, name), made in living.items()},
            }
            addresses = [address for made in holders.values() for nic in made for address in nic.addresses]
            assert len(addresses) == len(set(addresses)), f"seed {seed}"
            assert desk.free == ROOM - len(holders), f"seed {seed}"


async def test_an_instance_whose_making_was_not_answered_keeps_its_addresses() -> None:
    """The Instance exists, though no cache has it: a retry finds it, and the next Instance gets other addresses."""
    stage = Stage()
    book = AddressBook(stage.informers)  # its informers never run: the caches stay empty
    instances = InstanceWriter(ControllerContext("deployment", stage.informers, ClientMetrics(), lambda: book, []))
    deployment = decode(WorkloadDeployment, DEPLOYMENT)
    for ordinals in ((0,), (0,), (1,)):
        await instances.make(deployment, LocationReference("dfw"), "hash", ordinals, [SMALL])
    held = set[str]()
    for ordinal in (0, 1):
        raw = await stage.client.resource(INSTANCES.unread).get(f"web-dfw-{ordinal}", "default")
        [interface] = decode_interfaces((metadata_of(raw).annotations or {})[ANNOTATION_INTERFACES])
        held.update(interface.addresses)
    assert held == {"10.0.0.2/28", "fd20::2/64", "10.0.0.3/28", "fd20::3/64"}
