"""Keeping the Node object true: registered once, its status patched when it changed, or every five minutes.

In between only the Lease tells that the node lives. While the node is not ready it looks again every second, so that
it is reported ready as soon as it is; after that, at the usual pace or when woken. A Node that is deleted stays so
until the agent starts anew: whoever deleted it meant it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from tarmac.agent.config.settings import AgentConfig
from tarmac.agent.node.ownfields import annotation_changes, keeps_fields, without_own_fields
from tarmac.agent.node.registration import node_object, register
from tarmac.agent.node.status import Facts, changes, node_status
from tarmac.api.schema import JsonObject
from tarmac.api.status import ApiError
from tarmac.base.log import log
from tarmac.base.tasks import first
from tarmac.client.client import Client
from tarmac.client.envelope import is_newer
from tarmac.client.errors import ClientError
from tarmac.client.events import InvolvedObject, Recorder
from tarmac.client.informer import Informers
from tarmac.client.targets.untyped import NODES
from tarmac.decide.allocatable.nodestatus import three_decimals
from tarmac.decide.scheduling.amounts import CPU

WHILE_UNREADY = 1.0
_log = log("agent")


class NodeReporter:
    """Speaks for the node. `observe` gathers the facts; it must not fail."""

    def __init__(
        self,
        client: Client,
        informers: Informers,
        config: AgentConfig,
        observe: Callable[[], Awaitable[Facts]],
        recorder: Recorder,
        trusts: Callable[[], str] = str,
    ) -> None:
        """`trusts`: what the Node says of authorities; empty says nothing."""
        self._trusts = trusts
        self.registered = asyncio.Event()
        self._client = client
        self._clock = client.clock
        self._config = config
        self._observe = observe
        self._recorder = recorder
        # kubelets give a Node's events its name as uid: it is known before there is a Node
        self._about = InvolvedObject("v1", "Node", config.node_name, uid=config.node_name)
        self._informer = informers.informer(NODES, fields=f"metadata.name={config.node_name}")
        self._informer.on_change(lambda _old, new: self._heard(new.object if new else None))
        self._node: JsonObject | None = None
        self._reported = 0.0
        self._unready = True
        self._unheard = False
        self._keeps: bool | None = None  # whether the server has all our fields; None: nobody knows yet
        self._woken = asyncio.Event()

    def node(self) -> JsonObject | None:
        """The Node as the server last showed it; None before it was registered."""
        return self._node

    def wake(self) -> None:
        """Something changed that the cluster should know now."""
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
        """Tell the server what is new, or that nothing is when that was long ago."""
        before = self._node
        if before is None:
            return
        facts = await self._observe()
        self._unready = bool(facts.unready)
        whole = node_status(facts, before.get("status") or {}, self._clock.now(), self._tell)
        if self._keeps is None and keeps_fields(whole, before):
            self._keeps = True
        status = without_own_fields(whole) if self._keeps is False else whole
        patch = changes(status, before.get("status") or {}, facts.gone)
        metadata = annotation_changes(whole, before, self._keeps, facts.devices, self._trusts())
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
            self._took(node)
            self._tell_sizes(facts, patch)
        except (ApiError, ClientError) as error:
            tell = _log.debug if self._unheard else _log.warning
            tell("the node's status is not reported", why=str(error))
            self._unheard = True
        else:
            await self._learn(keeps_fields(status, node))

    async def _learn(self, keeps: bool | None) -> None:
        """Whether the server keeps all fields. What it does not keep it is to hear at once, in another way."""
        if keeps is None or keeps is self._keeps:
            return
        self._keeps = keeps
        if not keeps:
            _log.info("the server does not keep all fields of the node's status; it is told them in an annotation")
        await self.report()  # not for ever: what was dropped is not sent again as a field

    def _took(self, node: JsonObject) -> None:
        self._node = node
        self._reported = self._clock.monotonic()
        self._unheard = False

    async def _register(self) -> None:
        facts = await self._observe()
        self._unready = bool(facts.unready)
        status = node_status(facts, {}, self._clock.now(), self._tell)
        node = node_object(self._config, facts.machine.architecture, status)
        self._node = await register(self._client, node)
        self._recorder.event(self._about, "Normal", "Starting", "Starting kubelet.")
        await self.report()

    async def _pause(self) -> None:
        seconds = WHILE_UNREADY if self._unready else self._config.kubelet.node_status_update_frequency
        await first(self._clock.sleep(seconds), self._woken.wait())
        self._woken.clear()

    def _heard(self, node: JsonObject | None) -> None:
        if node is None:
            _log.warning("the Node object is deleted; start the agent anew to register again")
        elif self._node is not None and not is_newer(_version(node), _version(self._node)):
            return  # an answer to a write of ours was quicker than the watch
        self._node = node

    def _tell_sizes(self, facts: Facts, patch: JsonObject) -> None:
        told = {name: patch[name] for name in ("capacity", "allocatable") if name in patch}
        if told:
            lent = three_decimals(facts.ledger[CPU].oversubscription)
            _log.info("the node reports other sizes", **told, cpu_oversubscription=lent)

    def _tell(self, reason: str, message: str) -> None:
        if reason.startswith("NodeHas") or reason in ("NodeReady", "NodeNotReady"):
            message = f"Node {self._config.node_name} status is now: {message}"
        self._recorder.event(self._about, "Warning" if reason == "Rebooted" else "Normal", reason, message)


def _version(node: JsonObject) -> str:
    return node["metadata"].get("resourceVersion", "")
