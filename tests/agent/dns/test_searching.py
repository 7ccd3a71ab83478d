"""With our own resolvers, pods find instances of their namespace by short names too."""

from __future__ import annotations

from tarmac.agent.environment.resolving import Resolving, resolving
from tarmac.agent.model.pod import AgentPod
from tarmac.api.networking.names import RESOLVERS


def test_instances_are_searched_where_they_are_known() -> None:
    pod = AgentPod({"metadata": {"name": "web", "namespace": "shop", "uid": "u"}, "spec": {"containers": []}})
    ours = resolving(pod, Resolving(), RESOLVERS, "cluster.local")
    assert ours.servers == RESOLVERS
    assert ours.searches == (
        "shop.svc.cluster.local",
        "shop.inst.cluster.local",
        "svc.cluster.local",
        "cluster.local",
    )
    assert "inst" not in " ".join(resolving(pod, Resolving(), ("10.96.0.10",), "cluster.local").searches)
