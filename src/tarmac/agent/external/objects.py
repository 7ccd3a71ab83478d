"""The Forwarders and Gateways that concern this node: as the API server says, or while it is away as it said last.

They are kept in a file together with the pods that their rules were about, so that an agent which starts without the
server makes the very state that the kernel has, and changes nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import msgspec

from tarmac.agent.external.compiling import concerns, used_gateways, wanted_pods
from tarmac.agent.external.leases.remembering import replace_file
from tarmac.api.declare import decoder
from tarmac.api.schema import JsonObject
from tarmac.api.submariner.names import LABEL_NODE, NAMESPACE, node_label
from tarmac.api.submariner.relays import Forwarder, Gateway
from tarmac.base.log import log
from tarmac.client.cache import Item
from tarmac.client.informer import Informers
from tarmac.client.targets.typed import FORWARDERS, GATEWAYS
from tarmac.client.targets.untyped import PODS
from tarmac.decide.egress.syncing import sync_pairs
from tarmac.decide.reach.members import member_of

_log = log("external")


class Remembered(msgspec.Struct):
    """What the file holds."""

    forwarders: list[msgspec.Raw] = []
    gateways: list[msgspec.Raw] = []
    pods: dict[str, list[tuple[str, str]]] = {}
    partner: str = ""


@dataclass(frozen=True, slots=True)
class Objects:
    """All that matters here, by name; and of the pods that rules are about, by uid, where they are."""

    forwarders: Mapping[str, Forwarder]
    gateways: Mapping[str, Gateway]
    places: Mapping[str, Set[tuple[str, str]]]
    partner: str = ""
    """The gateway that shares its connections with this node, by name."""

    @property
    def empty(self) -> bool:
        """Whether this node has no part in external services."""
        return not self.forwarders and not self.gateways


_forwarder, _gateway = decoder(Forwarder), decoder(Gateway)
_read = msgspec.json.Decoder(Remembered).decode


class ObjectSource:
    """Follows them; `changed` is called whenever some of it may be different."""

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
        self._kept = b""  # what stands for the file's content

    @property
    def synced(self) -> bool:
        """Whether the server has said what there is."""
        return self._forwarders.has_synced and self._gateways.has_synced and self._pods.has_synced

    async def wait(self) -> None:
        """Until it has."""
        await self._forwarders.synced()
        await self._gateways.synced()
        await self._pods.synced()

    def current(self) -> tuple[Objects, Remembered]:
        """As the server says; and what of it is worth keeping."""
        # Decoded here and not by the caches, which would remember: rules of thousands of ways are read once a change.
        forwarders = [
            (each, made) for each in self._forwarders.cache.items() if self._is_own(made := _forwarder(each.raw))
        ]
        known = [made for _, made in forwarders]
        used = used_gateways(known)
        every = [(each, _gateway(each.raw)) for each in self._gateways.cache.items()]
        gateways = [(each, made) for each, made in every if concerns(made, self._node, used)]
        self._wanted = wanted_pods(known)
        places = self._places() if self._wanted else {}
        objects = Objects(
            {each.metadata.name: each for each in known},
            {made.metadata.name: made for _, made in gateways},
            places,
            sync_pairs(made for _, made in every).get(self._node, ""),
        )
        kept = Remembered(
            [msgspec.Raw(each.raw) for each, _ in sorted(forwarders, key=lambda pair: pair[0].key)],
            [msgspec.Raw(each.raw) for each, _ in sorted(gateways, key=lambda pair: pair[0].key)],
            {uid: sorted(of) for uid, of in sorted(places.items())},
            objects.partner,
        )
        return objects, kept

    def remembered(self) -> Objects:
        """As it was when the file was written; nothing when there is none."""
        try:
            found = _read(self._path.read_bytes())
            forwarders, gateways = map(_forwarder, found.forwarders), map(_gateway, found.gateways)
            return Objects(
                {each.metadata.name: each for each in forwarders},
                {each.metadata.name: each for each in gateways},
                {uid: {(network, address) for network, address in of} for uid, of in found.pods.items()},
                found.partner,
            )
        except FileNotFoundError:
            return Objects({}, {}, {})
        except (OSError, ValueError) as error:
            _log.warning("what was known of external services cannot be read", file=str(self._path), why=str(error))
            return Objects({}, {}, {})

    async def keep(self, what: Remembered) -> None:
        """Have it on the disk; a node without any part in it has no file."""
        if not what.forwarders and not what.gateways:
            self._path.unlink(missing_ok=True)
            self._kept = b""
            return
        content = msgspec.json.encode(what)
        if (kept := sha256(content).digest()) != self._kept:
            await asyncio.to_thread(replace_file, self._path, content)
            self._kept = kept

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
