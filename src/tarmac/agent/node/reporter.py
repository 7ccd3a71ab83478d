"""Keeps the Node object up to date: registered once, its status patched on changes, and at least every five minutes.

In between only the Lease is renewed. While the node is not ready it is checked every second, so that it is reported
ready as soon as it is; after that, at the configured interval or when woken. A deleted Node stays deleted until the
agent restarts: its deletion is taken as intended.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping

import msgspec

from tarmac.agent.config.agentconfig import AgentConfig
from tarmac.agent.node.nodehub import NodeHub
from tarmac.agent.node.nodestatus import NodeStatusFacts, changes, node_status
from tarmac.agent.node.registration import node_object, register
from tarmac.api.kubernetes.core.nodeclasses import FIELDS, RESOURCES_ANNOTATION
from tarmac.api.kubernetes.core.nodedevices import ANNOTATION_DEVICES, NodeDevices
from tarmac.api.schema import JsonObject
from tarmac.api.status import ApiError
from tarmac.base.log import log
from tarmac.base.tasks import first
from tarmac.client.client import Client
from tarmac.client.envelope import is_newer
from tarmac.client.errors import ClientError
from tarmac.client.eventrecorder import InvolvedObject, Recorder
from tarmac.client.informer import Informers
from tarmac.client.targets.untyped import NODES
from tarmac.decide import reasons
from tarmac.decide.allocatable.nodestatus import three_decimals
from tarmac.decide.amounts import CPU

WHILE_UNREADY = 1.0
_log = log("agent")


class NodeReporter:
    """Reports the node's status. `observe` gathers the facts; it must not raise."""

    def __init__(
        self,
        client: Client,
        informers: Informers,
        config: AgentConfig,
        observe: Callable[[], Awaitable[NodeStatusFacts]],
        recorder: Recorder,
        annotations: Callable[[], Mapping[str, str]] = dict,
        hub: NodeHub | None = None,
    ) -> None:
        """`annotations`: those that other parts of the agent keep on the Node; an empty one is left unchanged.

        `hub` passes queries to this reporter from now on.
        """
        self._annotations = annotations
        self.registered = asyncio.Event()
        self._client = client
        self._clock = client.clock
        self._config = config
        self._observe = observe
        self._recorder = recorder
        # as kubelet, use the name as uid: it is known before the Node exists
        self._about = InvolvedObject("v1", "Node", config.node_name, uid=config.node_name)
        self._informer = informers.informer(NODES, fields=f"metadata.name={config.node_name}")
        self._informer.on_change(lambda _old, new: self._on_change(new.object if new else None))
        self._node: JsonObject | None = None
        self._reported = 0.0
        self._unready = True
        self._unheard = False
        self._keeps: bool | None = None  # True if the server keeps all our fields; None: unknown yet
        self._woken = asyncio.Event()
        if hub is not None:
            hub.open(self)

    def node(self) -> JsonObject | None:
        """Return the Node as last received from the server; None before it was registered."""
        return self._node

    def wake(self) -> None:
        """Report soon: a value of the status has changed."""
        self._woken.set()

    async def run(self) -> None:
        """Register, then report until cancelled."""
        if self._config.kubelet.register_node:
            await self._register()
        else:
            await self._informer.synced()
        self.registered.set()
        while True:
            await self._pause()
            await self.report()

    async def report(self) -> None:
        """Patch the status if it changed, or if the last report is too old."""
        # Taken once: the watch may deliver another version while the facts are gathered.
        before = self._node
        if before is None:
            return
        facts = await self._observe()
        self._unready = bool(facts.unready)
        whole = node_status(facts, before.get("status") or {}, self._clock.now(), self._event)
        # From the Node as it is: an agent that restarts must not replace the annotation before it knows the server.
        if self._keeps is None and keeps_fields(whole, before):
            self._keeps = True
        status = without_own_fields(whole) if self._keeps is False else whole
        patch = changes(status, before.get("status") or {}, facts.gone)
        metadata = annotation_changes(whole, before, self._keeps, facts.devices, self._annotations())
        due = self._clock.monotonic() - self._reported >= self._config.kubelet.report_frequency
        if not patch and not metadata and not due:
            return
        body: JsonObject = {"status": {**patch, "conditions": status["conditions"]}}
        if metadata:
            body["metadata"] = metadata
        try:
            node = await self._client.resource(NODES).patch(
                self._config.node_name, body, type="strategic", subresource="status"
            )
            self._on_accepted(node)
            self._log_sizes(facts, patch)
        except (ApiError, ClientError) as error:
            write_log = _log.debug if self._unheard else _log.warning
            write_log("the node's status is not reported", why=str(error))
            # Logged once: the server may be away for hours, and the report is repeated every few seconds.
            self._unheard = True
        else:
            await self._learn(keeps_fields(status, node))

    async def _learn(self, keeps: bool | None) -> None:
        """Record if the server keeps all own fields.

        Fields that it dropped are sent again at once, as an annotation.
        """
        if keeps is None or keeps is self._keeps:
            return
        self._keeps = keeps
        if not keeps:
            _log.info("server drops own fields of the node status, using an annotation instead")
        await self.report()  # ends: dropped fields are not sent as fields again

    def _on_accepted(self, node: JsonObject) -> None:
        self._node = node
        self._reported = self._clock.monotonic()
        self._unheard = False

    async def _register(self) -> None:
        facts = await self._observe()
        self._unready = bool(facts.unready)
        status = node_status(facts, {}, self._clock.now(), self._event)
        node = node_object(self._config, facts.machine.architecture, status)
        # Before `registered` is set: parts that wait for it read the Node.
        self._node = await register(self._client, node)
        self._recorder.event(self._about, "Normal", "Starting", "Starting kubelet.")
        await self.report()

    async def _pause(self) -> None:
        seconds = WHILE_UNREADY if self._unready else self._config.kubelet.node_status_update_frequency
        await first(self._clock.sleep(seconds), self._woken.wait())
        # After the wait and before the facts are gathered: a change during a report starts another one.
        self._woken.clear()

    def _on_change(self, node: JsonObject | None) -> None:
        if node is None:
            _log.warning("Node object was deleted; restart the agent to register again")
        elif self._node is not None and not is_newer(_version(node), _version(self._node)):
            return  # the response to our own write was faster than the watch
        self._node = node

    def _log_sizes(self, facts: NodeStatusFacts, patch: JsonObject) -> None:
        sizes = {name: patch[name] for name in ("capacity", "allocatable") if name in patch}
        if sizes:
            lent = three_decimals(facts.ledger[CPU].oversubscription)
            _log.info("node sizes changed", **sizes, cpu_oversubscription=lent)

    def _event(self, reason: str, message: str) -> None:
        if reason.startswith("NodeHas") or reason in ("NodeReady", "NodeNotReady"):
            message = f"Node {self._config.node_name} status is now: {message}"
        bad = reason in ("Rebooted", reasons.TUNNEL_CLOSED, reasons.ENCRYPTION_UNAVAILABLE)
        self._recorder.event(self._about, "Warning" if bad else "Normal", reason, message)


def _version(node: JsonObject) -> str:
    return node["metadata"].get("resourceVersion", "")


# Tarmac's own fields of the Node status, on servers that keep such fields and on servers that drop them.
#
# The server is not asked for its kind. The fields are sent; if they do not come back they are sent as one annotation
# from then on, with the same patch of the status, which a node may write as well. The annotation is removed on servers
# that keep the fields.


def keeps_fields(sent: JsonObject, node: JsonObject) -> bool | None:
    """Return True if the server's Node has all own fields of a status; None if the status has none of them."""
    status, named = node.get("status") or {}, [name for name in FIELDS if sent.get(name)]
    return all(status.get(name) for name in named) if named else None


def without_own_fields(status: JsonObject) -> JsonObject:
    """Return the status with Kubernetes' fields only."""
    return {name: value for name, value in status.items() if name not in FIELDS}


def annotation_changes(
    status: JsonObject, node: JsonObject, keeps: bool | None, devices: NodeDevices, own: Mapping[str, str] | None = None
) -> JsonObject:
    """Return a patch of the Node's metadata with the changed annotations; empty if there are none.

    Devices, trusted authorities and tunnels (`own`, by annotation; an empty one is left unchanged) have no field
    anywhere. The other annotation replaces the own fields.
    """
    known: JsonObject = node["metadata"].get("annotations") or {}
    wanted = {ANNOTATION_DEVICES: devices.text(), **_instead_of_fields(status, keeps)}
    wanted |= {name: text for name, text in (own or {}).items() if text}
    changed = {name: text for name, text in wanted.items() if known.get(name) != text}
    return {"annotations": changed} if changed else {}


def _instead_of_fields(status: JsonObject, keeps: bool | None) -> JsonObject:
    """Return the annotation that replaces the own fields.

    Until it is known if the server keeps them, the annotation stays: on a server that drops the fields it is the only
    source for schedulers, and a starting agent must not remove it for a moment.
    """
    if keeps is None:
        return {}
    reported = {name: status[name] for name in FIELDS if status.get(name)} if not keeps else {}
    return {RESOURCES_ANNOTATION: msgspec.json.encode(reported).decode() if reported else None}
