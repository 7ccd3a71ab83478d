"""Secrets with the passwords of BGPPeers: a node may read those of the peers that it has a session with.

Nodes ask rarely, and only managers create BGPPeers, so all peers are read at each request instead of being indexed.
"""

from __future__ import annotations

from tarmac.api.checks import mapping
from tarmac.api.declare import decode
from tarmac.api.ingress.bgppeer import BGPPeerSpec
from tarmac.api.ingress.names import BGP_PEERS, SECRET_NAMESPACE
from tarmac.decide.ingress.selecting import has_session
from tarmac.server.reader import decode as read
from tarmac.store.interface import Store

_NODES = "core/nodes"


class PeerSecrets:
    """Tells which Secrets of kube-system a node needs for its BGP sessions."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def needed_by(self, node: str, namespace: str, name: str) -> bool:
        """Return True if a BGPPeer that has a session with the node names this Secret."""
        if namespace != SECRET_NAMESPACE:
            return False
        named = name.encode()
        peers = [read(each) for each in self._store.list(BGP_PEERS).entries if named in each.raw]
        peers = [each for each in peers if mapping(each, "spec").get("passwordSecret") == name]
        entry = self._store.head(_NODES, node) if peers else None
        if entry is None:
            return False
        labels = mapping(read(entry), "metadata", "labels")
        return any(has_session(decode(BGPPeerSpec, each["spec"]), labels) for each in peers)
