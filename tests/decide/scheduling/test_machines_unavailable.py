"""A machine that no node accepts: the refusal names the condition with the cause, and the remedy."""

from __future__ import annotations

from .world import World, node, pod


def test_a_machine_that_no_node_offers_is_refused_with_the_condition_and_the_command() -> None:
    verdict = World(node("n", handlers=["gvisor", "runc"])).choose(pod("p", runtimeClassName="vm"), handler="vm")
    head, kind = verdict.refusals
    assert (head.reason, head.message) == ("RuntimeUnavailable", "0/1 nodes: 1 no virtual machines.")
    assert head.change == "Run apt install tarmac-machines on n, and restart its agent."
    assert kind.message == "Node n runs no virtual machines; its condition MachinesReady has the cause."
