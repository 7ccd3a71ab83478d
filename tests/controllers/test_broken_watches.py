"""A controller with a broken watch does not declare nodes silent."""

from __future__ import annotations

from tarmac.base.clock import rfc3339_micro
from tarmac.client.targets.untyped import LEASES
from tarmac.controllers.node.heartbeats import LEASE_NAMESPACE, Heartbeats
from tests.controllers.harness import Stage


async def test_a_node_is_called_silent_only_when_the_server_has_heard_nothing_either() -> None:
    stage = Stage()
    heard = Heartbeats(stage.client, stage.informers, grace=40.0)  # its informers never run: it receives no events
    leases = stage.client.resource(LEASES)
    spec = {"holderIdentity": "a", "leaseDurationSeconds": 40, "renewTime": rfc3339_micro(stage.clock.now())}
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "spec": spec}
    await leases.create({**lease, "metadata": {"name": "a", "namespace": LEASE_NAMESPACE}})
    assert heard.silent_in("a") == 40.0
    stage.clock.advance(41)
    assert heard.silent_in("a") < 0
    assert not await heard.confirm_silent("a")
    stage.clock.advance(41)
    assert await heard.confirm_silent("a")
