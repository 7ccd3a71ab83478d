"""Warns of nodes with an address in the range of an existing Network, by an event on the Node."""

from __future__ import annotations

from collections.abc import Iterable

from tarmac.api.schema import JsonObject
from tarmac.client.events import InvolvedObject, Recorder
from tarmac.client.informer import Informer
from tarmac.decide.addresses import NodeAddresses


class NodeWarnings:
    """Remembers the nodes it has warned of: at most one event per change of a node's addresses."""

    def __init__(self, recorder: Recorder, nodes: Informer[JsonObject]) -> None:
        self._recorder = recorder
        self._known = nodes
        self._warned: set[str] = set()

    def forget(self, node: str) -> None:
        """Allow another warning: the addresses of a node have changed."""
        self._warned.discard(node)

    def check(self, network: str, ranges: Iterable[str], nodes: NodeAddresses) -> None:
        """Warn of the first node in each range of a Network."""
        for each in filter(None, ranges):
            node = nodes.first_in(each)
            known = self._known.get(node) if node and node not in self._warned else None
            if known is not None:
                self._warned.add(node)
                self._warn(known, each, network)

    def _warn(self, node: JsonObject, cidr: str, network: str) -> None:
        metadata = node["metadata"]
        message = (
            f"The node has an address in the range {cidr} of Network {network}: pods of that Network do not reach the "
            "node there. Give the node another address, or use a Network with another range."
        )
        about = InvolvedObject("v1", "Node", metadata["name"], uid=metadata["uid"])
        self._recorder.event(about, "Warning", "AddressInNetwork", message)
