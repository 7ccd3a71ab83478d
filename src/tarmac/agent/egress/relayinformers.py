"""The Forwarders and Gateways that concern this node.

They come from the API server, or from a checkpoint while it is unreachable. The checkpoint also holds the pods that the
rules refer to, so an agent that starts without the server computes the same state that the kernel has, and changes
nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import msgspec

from tarmac.agent.egress.compiling import concerns, used_gateways, wanted_pods
from tarmac.agent.egress.leases.checkpoint import replace_file
from tarmac.api.declare import decoder
from tarmac.api.egress.forwarding import Forwarder, Gateway
from tarmac.api.egress.names import LABEL_NODE, NAMESPACE, node_label
from tarmac.api.schema import JsonObject
from tarmac.base.log import log
from tarmac.client.cache import Item
from tarmac.client.informer import Informers
from tarmac.client.targets.typed import FORWARDERS, GATEWAYS
from tarmac.client.targets.untyped import PODS
from tarmac.decide.egress.syncing import sync_pairs
from tarmac.decide.reach.members import member_of

_log = log("external")


class EgressCheckpoint(msgspec.Struct):
    """Content of the checkpoint."""

    forwarders: list[msgspec.Raw] = []
    gateways: list[msgspec.Raw] = []
    pods: dict[str, list[tuple[str, str]]] = {}
    partner: str = ""


@dataclass(frozen=True, slots=True)
class EgressObjects:
    """The objects that concern this node by name.

    `places` are the Networks and addresses of the pods that rules refer to, by uid.
    """

    forwarders: Mapping[str, Forwarder]
    gateways: Mapping[str, Gateway]
    places: Mapping[str, Set[tuple[str, str]]]
    partner: str = ""
    """Name of the gateway that shares its connections with this node."""

    @property
    def empty(self) -> bool:
        """True if this node has no part in external services."""
        return not self.forwarders and not self.gateways


_forwarder, _gateway = decoder(Forwarder), decoder(Gateway)
_read = msgspec.json.Decoder(EgressCheckpoint).decode


class EgressObjectSource:
    """Watches these objects and calls `changed` whenever some of them may differ."""

    def __init__(self, informers: Informers, node: str, path: Path, changed: Callable[[], None]) -> None:
        self._node, self._path, self._changed = node, path, changed
        selector = f"{LABEL_NODE}={node_label(node)}"
        self._forwarders = informers.informer(FORWARDERS, namespace=NAMESPACE, labels=selector)
        self._gateways = informers.informer(GATEWAYS, namespace=NAMESPACE)
        self._pods = informers.informer(PODS, fields=f"spec.nodeName={node}")
        self._forwarders.on_change(lambda *_: changed())
        self._gateways.on_change(lambda *_: changed())
        self._pods.on_change(self._pod_changed)
        self._wanted: set[str] = set()
        self._saved = b""  # digest of the checkpoint's content

    @property
    def synced(self) -> bool:
        """True if all informers have synced."""
        return self._forwarders.has_synced and self._gateways.has_synced and self._pods.has_synced

    async def wait(self) -> None:
        """Wait until all informers have synced."""
        await self._forwarders.synced()
        await self._gateways.synced()
        await self._pods.synced()

    def current(self) -> tuple[EgressObjects, EgressCheckpoint]:
        """Return the objects as the server has them, and the checkpoint to write."""
        # Decoded here and not by the caches, which would keep the result: thousands of rules are read once per change.
        forwarders = [
            (each, made) for each in self._forwarders.cache.items() if self._is_own(made := _forwarder(each.raw))
        ]
        known = [made for _, made in forwarders]
        used = used_gateways(known)
        every = [(each, _gateway(each.raw)) for each in self._gateways.cache.items()]
        gateways = [(each, made) for each, made in every if concerns(made, self._node, used)]
        # Set together with the forwarders: `_pod_changed` compares later changes with it.
        self._wanted = wanted_pods(known)
        places = self._places() if self._wanted else {}
        objects = EgressObjects(
            {each.metadata.name: each for each in known},
            {made.metadata.name: made for _, made in gateways},
            places,
            sync_pairs(made for _, made in every).get(self._node, ""),
        )
        kept = EgressCheckpoint(
            [msgspec.Raw(each.raw) for each, _ in sorted(forwarders, key=lambda pair: pair[0].key)],
            [msgspec.Raw(each.raw) for each, _ in sorted(gateways, key=lambda pair: pair[0].key)],
            {uid: sorted(of) for uid, of in sorted(places.items())},
            objects.partner,
        )
        return objects, kept

    def load_checkpoint(self) -> EgressObjects:
        """Return the objects of the checkpoint; empty if there is none."""
        try:
            found = _read(self._path.read_bytes())
            forwarders, gateways = map(_forwarder, found.forwarders), map(_gateway, found.gateways)
            return EgressObjects(
                {each.metadata.name: each for each in forwarders},
                {each.metadata.name: each for each in gateways},
                {uid: {(network, address) for network, address in of} for uid, of in found.pods.items()},
                found.partner,
            )
        except FileNotFoundError:
            return EgressObjects({}, {}, {})
        except (OSError, ValueError) as error:
            _log.warning("checkpoint of external services cannot be read", file=str(self._path), why=str(error))
            return EgressObjects({}, {}, {})

    async def save(self, checkpoint: EgressCheckpoint) -> None:
        """Write the checkpoint, or remove it if this node has no part in external services."""
        if not checkpoint.forwarders and not checkpoint.gateways:
            # Before the rules are removed: after a kill in between the next agent removes them once it has synced.
            self._path.unlink(missing_ok=True)
            self._saved = b""
            return
        # Encoded before the thread starts: the objects may change while it writes.
        content = msgspec.json.encode(checkpoint)
        if (kept := sha256(content).digest()) != self._saved:
            # A cancellation does not stop the thread: it still replaces the file, but as a whole.
            await asyncio.to_thread(replace_file, self._path, content)
            # Only after the write: the next pass repeats a failed one.
            self._saved = kept

    def _is_own(self, forwarder: Forwarder) -> bool:
        return forwarder.spec.node_name == self._node

    def _places(self) -> dict[str, Set[tuple[str, str]]]:
        found: dict[str, Set[tuple[str, str]]] = {}
        for item in self._pods.cache.items():
            if item.metadata.uid in self._wanted and (pod := member_of(item.raw)) is not None:
                found[pod.uid] = {
                    (own.network, address.partition("/")[0]) for own in pod.interfaces for address in own.addresses
                }
        return found

    def _pod_changed(self, old: Item[JsonObject] | None, new: Item[JsonObject] | None) -> None:
        item = new or old
        if item is not None and self._wanted and item.metadata.uid in self._wanted:
            self._changed()
