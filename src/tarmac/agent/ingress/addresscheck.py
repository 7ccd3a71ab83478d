"""Answers checks of public addresses: a connection of this node, made on request."""

from __future__ import annotations

from tarmac.agent.ingress.selftests import TIMEOUT
from tarmac.api.ingress.nodechecks import NodeIngressCheck
from tarmac.base.clock import Clock
from tarmac.datapath.ingress import IngressDatapath, IngressState
from tarmac.decide.reach.marks import node_marks

_MAX_PROBLEM = 400


async def check_address(
    datapath: IngressDatapath, state: IngressState, address: str, port: int, clock: Clock
) -> NodeIngressCheck | None:
    """Connect to an open TCP port of a public address; None if the node's rules have no such port.

    Only what the rules have is dialled: a client of this check must not reach other addresses by it.
    """
    ports = (own for each in state.addresses if each.address == address for own in each.ports)
    found = next((each for each in ports if (each.protocol, each.port) == ("TCP", port)), None)
    if found is None:
        return None
    seen_as, nodes = node_marks(state.node_address)[":" in address], [node for node, _ in found.nodes]
    if not found.admits(state.node_address):
        return NodeIngressCheck("source ranges leave the node out", True, seen_as=seen_as, nodes=nodes)
    begun = clock.monotonic()
    try:
        await datapath.connect(address, port, TIMEOUT)
    except OSError as error:  # a timeout too
        problem = str(error) or "no answer"
        return NodeIngressCheck(problem[:_MAX_PROBLEM], seen_as=seen_as, nodes=nodes)
    return NodeIngressCheck(seconds=clock.monotonic() - begun, seen_as=seen_as, nodes=nodes)
