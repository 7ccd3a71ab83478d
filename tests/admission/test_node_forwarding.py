"""A node reports only its own state in Forwarders and Gateways."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from tarmac.api.status import Forbidden
from tarmac.decide.egress.lease.epochs import highest_epoch
from tarmac.server.security.users import User
from tests.admission.world import Object, World

NODE = User("system:node:dfw-0", groups=("system:nodes",))
METADATA = {"name": "192.0.2.7", "namespace": "external-services"}


def gateway(*said: Object, **more: Any) -> Object:
    spec = {"candidates": [{"name": "dfw-0"}, {"name": "dfw-1"}], "voters": [{"name": "ams-0"}]}
    return {"metadata": {**METADATA, **more}, "spec": spec, "status": {"nodes": list(said)}}


def forwarder(node: str, **status: Any) -> Object:
    return {"metadata": dict(METADATA), "spec": {"nodeName": node}, "status": status}


def write(world: World, plural: str, new: Object, old: Object, subresource: str = "status", user: User = NODE) -> None:
    world.admit(plural, copy.deepcopy(new), "NodeRestriction", old=old, subresource=subresource, user=user)


OTHER = {"name": "dfw-1", "owner": True, "epoch": 3}


async def test_its_own_entry_of_a_gateway_that_names_it(world: World) -> None:
    write(world, "gateways", gateway(OTHER, {"name": "dfw-0", "owner": True, "epoch": 4}), gateway(OTHER))
    write(world, "gateways", gateway(OTHER), gateway(OTHER, {"name": "dfw-0"}))
    write(world, "gateways", gateway({"name": "ams-0"}), gateway(), user=User("system:node:ams-0", groups=NODE.groups))


@pytest.mark.parametrize(
    "new",
    [
        gateway(),
        gateway({**OTHER, "owner": False}),
        gateway(OTHER, {"name": "ams-0", "owner": True}),
        {**gateway(OTHER), "status": {"nodes": [OTHER], "conditions": [{"type": "Programmed", "status": "True"}]}},
        gateway(OTHER, labels={"submariner.io/class": "mine"}),
    ],
)
async def test_nothing_else_of_a_gateway(world: World, new: Object) -> None:
    with pytest.raises(Forbidden):
        write(world, "gateways", new, gateway(OTHER))


@pytest.mark.parametrize("epoch", [2**62, 2**63 - 1, highest_epoch(1_800_000_000) + 1])
async def test_no_epoch_that_an_address_cannot_have_reached(world: World, epoch: int) -> None:
    """Every candidate would continue above it, and messages cannot hold a higher number."""
    with pytest.raises(Forbidden, match=r"status.nodes\[dfw-0\].epoch: \d+ is more changes of owner"):
        write(world, "gateways", gateway(OTHER, {"name": "dfw-0", "owner": True, "epoch": epoch}), gateway(OTHER))


async def test_the_highest_epoch_leaves_room_for_the_next_owner(world: World) -> None:
    highest = {"name": "dfw-0", "owner": True, "epoch": highest_epoch(1_800_000_000)}
    write(world, "gateways", gateway(OTHER, highest), gateway(OTHER))
    world.clock.advance(1)
    other = User("system:node:dfw-1", groups=NODE.groups)
    after = {**OTHER, "epoch": highest_epoch(1_800_000_000) + 1}
    write(world, "gateways", gateway(after, highest), gateway(OTHER, highest), user=other)


async def test_an_epoch_of_an_earlier_version_stays_until_its_node_changes_it(world: World) -> None:
    before = {"name": "dfw-0", "owner": True, "epoch": 2**62}
    write(world, "gateways", gateway({**before, "appliedGeneration": 4}), gateway(before))
    write(world, "gateways", gateway({"name": "dfw-0", "owner": False}), gateway(before))
    with pytest.raises(Forbidden):
        write(world, "gateways", gateway({**before, "epoch": 2**62 + 1}), gateway(before))


@pytest.mark.parametrize("said", [{"owner": True}, {"epoch": 5}, {"owner": True, "epoch": 5}])
async def test_a_voter_is_no_owner_and_has_no_epoch(world: World, said: Object) -> None:
    voter = User("system:node:ams-0", groups=NODE.groups)
    with pytest.raises(Forbidden, match=r"spec\.candidates or spec\.leaving"):
        write(world, "gateways", gateway({"name": "ams-0", **said}), gateway(), user=voter)
    former = gateway({"name": "ams-0", **said})
    write(world, "gateways", gateway({"name": "ams-0", **said, "appliedGeneration": 2}), former, user=voter)
    write(world, "gateways", gateway({"name": "ams-0", "appliedGeneration": 2}), former, user=voter)


async def test_no_gateway_that_does_not_name_it_and_no_spec(world: World) -> None:
    stranger = User("system:node:lhr-0", groups=("system:nodes",))
    with pytest.raises(Forbidden, match="candidate or voter"):
        write(world, "gateways", gateway({"name": "lhr-0", "owner": True}), gateway(), user=stranger)
    with pytest.raises(Forbidden, match="only update the status"):
        write(world, "gateways", gateway(), gateway(), subresource="")


async def test_the_status_of_forwarders_of_its_own(world: World) -> None:
    write(world, "forwarders", forwarder("dfw-0", appliedGeneration=2), forwarder("dfw-0"))
    with pytest.raises(Forbidden, match="set to itself"):
        write(world, "forwarders", forwarder("dfw-1", appliedGeneration=2), forwarder("dfw-1"))
    with pytest.raises(Forbidden, match="only update the status"):
        write(world, "forwarders", forwarder("dfw-0"), forwarder("dfw-0"), subresource="")
