"""The devices of a node, as the allocator uses them.

Devices are chosen in one step of the event loop and held from then on, so that two pods never get the same one; the
plugin's preference may change the choice before it is final. The order is: choose, write the checkpoint, `Allocate`,
write the answer. An agent that is killed in between finds its choice, and requests the same devices from the plugin
again.

Calls of a plugin never block the event loop: each pod waits for its own plugins, in its own worker.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from pathlib import Path
from typing import Final

from tarmac.agent.devices.answers import together
from tarmac.agent.devices.checkpoint import FILE, DeviceCheckpoint
from tarmac.agent.devices.choice import (
    ChosenDevices,
    DeviceRequest,
    NotEnoughDevices,
    choose,
    reusable_after,
    wanted_by,
)
from tarmac.agent.devices.holdings import DeviceHolder, HeldDevices
from tarmac.agent.devices.inventory import Inventory
from tarmac.agent.devices.plugins import PACE, DeviceFault, DevicePlugin
from tarmac.agent.model.allotment import AllocationRefused, PodAllotment, Refusal
from tarmac.agent.model.devices import DeviceAmounts
from tarmac.agent.model.pod import AgentPod
from tarmac.agent.model.waits import within
from tarmac.agent.stats.summary import Sample
from tarmac.api.schema import JsonObject
from tarmac.base.clock import Clock
from tarmac.base.log import log
from tarmac.base.tasks import Tasks
from tarmac.client.eventrecorder import EventType

MAX_KINDS: Final = 64
"""Maximum number of resources that plugins may register."""
RETURN: Final = 30.0
"""Seconds that a pod waits for the first list of a known plugin, and for devices after a start of the agent."""
_log = log("devices")

RecordEvent = Callable[[EventType, str, str], None]
"""Emits an event of the Node: type, reason and message."""


class DeviceManager:
    """Allocates devices to containers. The constructor raises BadConfig if the checkpoint is damaged.

    `changed` is called when the node has more or fewer devices, `pod_changed` with the uid of a pod when the health of
    one of its devices has changed.
    """

    def __init__(
        self,
        checkpoint: DeviceCheckpoint,
        clock: Clock,
        record_event: RecordEvent,
        changed: Callable[[], None],
        pod_changed: Callable[[str], None],
    ) -> None:
        self._record_event = record_event
        self._changed = changed
        self._pod_changed = pod_changed
        self._checkpoint = checkpoint
        self._clock = clock
        self._began = clock.monotonic()
        self._holdings, registered = checkpoint.read()
        self._inherited = set(self._holdings.uids)  # pods that had devices before this agent
        self._inventory = Inventory(clock, registered)
        self._plugins: dict[str, DevicePlugin] = {}
        self._tasks = Tasks()
        self._changed_event = asyncio.Event()
        self._registrations: Counter[str] = Counter()
        self._allocations: Counter[str] = Counter()
        self._seconds: dict[str, float] = {}

    # --- plugins ----------------------------------------------------------------------------------------------------

    async def register(self, resource: str, path: Path) -> None:
        """Register a plugin for a resource, replacing a previous one. Raises DeviceFault."""
        if not self._inventory.knows(resource) and len(self._inventory) >= MAX_KINDS:
            raise DeviceFault(f"{MAX_KINDS} resources are registered, which is the most")
        plugin = await DevicePlugin.dial(resource, path, self._clock)
        self._registrations[resource] += 1
        before = self._plugins.get(resource)
        # The successor is in place before the old connection ends: that end must not count as a lost plugin.
        self._plugins[resource] = plugin
        if before is not None:
            # Its pending calls fail at once, instead of at their timeouts.
            before.close()
        self._inventory.connected(resource)
        self._tasks.begin(self._follow(plugin), f"devices of {resource}")
        _log.info("device plugin registered", resource=resource, socket=path.name)
        self._record_event("Normal", "DevicePluginRegistered", f"{path.name} stands for {resource}")
        await self._clock.sleep(PACE)  # limits the rate of a plugin that registers in a loop

    async def close(self) -> None:
        """Disconnect from all plugins; containers keep their devices."""
        await self._tasks.close()
        for plugin in self._plugins.values():
            plugin.close()

    async def _follow(self, plugin: DevicePlugin) -> None:
        """Process a plugin's lists until it goes or is replaced."""
        why = "ListAndWatch ended"
        try:
            async for devices in plugin.lists():
                if self._plugins.get(plugin.resource) is not plugin:
                    return
                self._on_list(plugin.resource, devices)
        except DeviceFault as fault:
            why = str(fault)
        finally:
            plugin.close()
        # A successor has its own list by now: the end of its predecessor does not affect the devices.
        if self._plugins.get(plugin.resource) is plugin:
            self._on_disconnect(plugin.resource, why)

    def _on_list(self, resource: str, devices: Mapping[str, bool]) -> None:
        known = set(self._inventory.registered().get(resource, ()))
        changed = self._inventory.listed(resource, devices)
        # Health alone is not persisted: a plugin that reports it every second would write the disk as often.
        if known != set(devices):
            self._save_if_possible()
        self._on_change(resource, changed)

    def _on_disconnect(self, resource: str, why: str) -> None:
        # First: an allocation that waits would otherwise be given the plugin that has gone.
        del self._plugins[resource]
        self._inventory.disconnected(resource)
        _log.warning("device plugin lost, its devices are not allocated", resource=resource, why=why)
        self._record_event("Warning", "DevicePluginLost", f"No plugin stands for {resource} any more: {why}")
        self._on_change(resource, frozenset(self._inventory.registered()[resource]))

    def _on_change(self, resource: str, changed: frozenset[str]) -> None:
        self._wake()
        if changed:
            self._changed()
        in_use = self._holdings.in_use(resource) if changed else {}
        for uid in {in_use[device] for device in changed if device in in_use}:
            self._pod_changed(uid)

    def _wake(self) -> None:
        """Wake all waiters for devices."""
        # Replaced, not cleared: each waiter wakes once per change, and checks its condition again.
        self._changed_event.set()
        self._changed_event = asyncio.Event()

    # --- inventory --------------------------------------------------------------------------------------------------

    def amounts(self) -> DeviceAmounts:
        """Return the amounts for the node's status."""
        before = len(self._inventory)
        amounts = self._inventory.amounts()
        if len(self._inventory) != before:
            self._save_if_possible()
        return amounts

    def asked_by(self, pod: AgentPod) -> list[str]:
        """Return the kinds of devices that a pod requests."""
        return sorted({each.resource for each in wanted_by(pod) if self._is_device(each.resource)})

    def metrics(self) -> Iterator[Sample]:
        """Yield kubelet's metrics; the numbers of devices are in the node's ledger."""
        for resource, count in self._registrations.items():
            yield "kubelet_device_plugin_registration_total", "counter", {"resource_name": resource}, count
        for resource, count in self._allocations.items():
            where = {"resource_name": resource}
            yield "kubelet_device_plugin_alloc_duration_seconds_count", "counter", where, count
            yield "kubelet_device_plugin_alloc_duration_seconds_sum", "counter", where, self._seconds[resource]

    # --- allocator interface ----------------------------------------------------------------------------------------

    async def prepare(self, pod: AgentPod) -> Refusal | None:
        """Allocate all devices of a new pod; on failure none, and return the reason. Idempotent."""
        try:
            for wanted in wanted_by(pod):
                await self._allocate(pod, wanted)
        except DeviceFault as fault:
            # All or none: devices of the first containers would be held by a pod that is rejected.
            self.release(pod.uid)
            return "UnexpectedAdmissionError", f"Allocate failed due to {fault}, which is unexpected"
        return None

    async def before_start(self, pod: AgentPod, container: str) -> bool:
        """Run before each creation of a container. Return True if it got new devices. Raises AllocationRefused."""
        given = False
        try:
            for wanted in wanted_by(pod):
                if wanted.container == container and self._is_device(wanted.resource):
                    given = await self._allocate(pod, wanted) or given
                    plugin = await self._plugin(wanted.resource)
                    # Read after the awaits above, during which the pod may have been released.
                    held = self._holdings.get(DeviceHolder(pod.uid, container, wanted.resource))
                    # Without its plugin a container restarts with the same devices: no other pod has them.
                    if plugin is not None and held is not None:
                        await plugin.pre_start(held.ids)
        except DeviceFault as fault:
            raise AllocationRefused(str(fault)) from fault
        return given

    def extend(self, pod: AgentPod, allotment: PodAllotment) -> PodAllotment:
        """Add the plugins' settings to the pod's containers."""
        answers: dict[str, list[bytes]] = {}
        for holder, held in sorted(self._holdings.of(pod.uid).items()):
            if held.answer is not None:
                answers.setdefault(holder.container, []).append(held.answer)
        if not answers:
            return allotment
        containers = dict(allotment.containers)
        for name, parts in answers.items():
            containers[name] = replace(containers[name], devices=together(parts))
        return replace(allotment, containers=containers)

    def release(self, uid: str) -> None:
        """Free the devices of an ended pod."""
        if self._holdings.release(uid):
            self._save_if_possible()
            self._wake()

    def awaited(self) -> Set[str]:
        """Return the kinds with an expected plugin that has not listed its devices yet."""
        return self._inventory.awaited()

    def holders(self) -> Set[str]:
        """Return the uids of pods that have devices."""
        return set(self._holdings.uids)

    def in_use(self, resource: str) -> dict[str, str]:
        """Return the uid of the pod of each device of a kind."""
        return self._holdings.in_use(resource)

    def shown(self, uid: str) -> dict[str, JsonObject]:
        """Return the devices for the statuses of a pod's containers."""
        found: dict[str, JsonObject] = {}
        for (_, container, resource), held in sorted(self._holdings.of(uid).items()):
            if held.answer is not None:
                devices_shown = [
                    {"resourceID": device, "health": self._inventory.health(resource, device)} for device in held.ids
                ]
                statuses = found.setdefault(container, {"allocatedResourcesStatus": []})["allocatedResourcesStatus"]
                statuses.append({"name": resource, "resources": devices_shown})
        return found

    # --- allocation -------------------------------------------------------------------------------------------------

    async def _allocate(self, pod: AgentPod, wanted: DeviceRequest) -> bool:
        """Allocate devices of one kind to a container, unless it has them.

        Return True if it had none. Raises DeviceFault.
        """
        holder = DeviceHolder(pod.uid, wanted.container, wanted.resource)
        held = self._holdings.get(holder)
        if not self._is_device(wanted.resource) or (held is not None and held.answer is not None):
            return False
        plugin = await self._plugin(wanted.resource)
        # No await since the line above: the plugin is still the one whose devices are listed as healthy.
        healthy = self._healthy(wanted.resource)
        assert plugin is not None, "only a plugin has healthy devices"
        # An earlier agent may have chosen, and was killed before the plugin answered.
        if held is None or not healthy.keys() >= set(held.ids):
            held = await self._choose(pod, wanted, plugin)
        try:
            # Before Allocate: after a crash in between no second pod may get these devices.
            self._save()
            answered = HeldDevices(held.ids, await self._allocated(plugin, held))
        except DeviceFault:
            self._holdings.take(holder)
            self._save_if_possible()
            raise
        # Released during the call: the devices may belong to another pod by now.
        if self._holdings.get(holder) is not held:
            raise DeviceFault("the pod has ended")
        self._holdings.put(holder, answered)
        # A kill before this line leaves the choice without an answer: the next agent allocates the same devices again.
        self._save()
        return True

    async def _choose(self, pod: AgentPod, wanted: DeviceRequest, plugin: DevicePlugin) -> HeldDevices:
        """Choose, hold, and choose again by the plugin's preference. Raises DeviceFault."""
        holder = DeviceHolder(pod.uid, wanted.container, wanted.resource)
        first = await self._chosen_in_time(pod, wanted)
        held = HeldDevices(first.ids)
        # Held before the call: a pod that chooses meanwhile must not get the same devices.
        self._holdings.put(holder, held)
        available = {**dict.fromkeys(first.ids), **dict.fromkeys(self._free(holder))}
        try:
            preferred = await plugin.preferred(list(available), first.ids[: first.reused], wanted.number)
            # Released during the call: holding them now would keep the devices of an ended pod for ever.
            if self._holdings.get(holder) is not held:
                raise DeviceFault("the pod has ended")
            if preferred:
                held = HeldDevices(self._chosen(pod, wanted, preferred).ids)
        except DeviceFault:
            self._holdings.take(holder)
            raise
        self._holdings.put(holder, held)
        return held

    async def _chosen_in_time(self, pod: AgentPod, wanted: DeviceRequest) -> ChosenDevices:
        """Choose, waiting for pods that a new agent inherited: their devices become free when they have ended."""
        while True:
            try:
                return self._chosen(pod, wanted)
            except DeviceFault:
                left = self._began + RETURN - self._clock.monotonic()
                if left <= 0 or not self._inherited & self._holdings.uids - {pod.uid}:
                    raise
                await within(self._clock, left, self._changed_event.wait())

    def _chosen(self, pod: AgentPod, wanted: DeviceRequest, preferred: Sequence[str] = ()) -> ChosenDevices:
        held = {
            holder.container: each.ids
            for holder, each in self._holdings.of(pod.uid).items()
            if holder.resource == wanted.resource
        }
        healthy = self._healthy(wanted.resource)
        again = reusable_after(pod, wanted.container, held) & healthy.keys()
        try:
            return choose(wanted, again, self._free(DeviceHolder(pod.uid, *wanted[:2])), preferred)
        except NotEnoughDevices as error:
            raise DeviceFault(str(error)) from error

    def _free(self, holder: DeviceHolder) -> list[str]:
        """Return healthy devices that no other container has."""
        others = (held for other, held in self._holdings if other.resource == holder.resource and other != holder)
        in_use = {device for held in others for device in held.ids}
        return [device for device in self._inventory.healthy(holder.resource) if device not in in_use]

    def _healthy(self, resource: str) -> Mapping[str, bool]:
        if not self._inventory.knows(resource):
            raise DeviceFault(f"cannot allocate unregistered device {resource}")
        healthy = self._inventory.healthy(resource)
        if not healthy:
            raise DeviceFault(f"no healthy devices present; cannot allocate unhealthy devices {resource}")
        return healthy

    async def _allocated(self, plugin: DevicePlugin, held: HeldDevices) -> bytes:
        began = self._clock.monotonic()
        try:
            return await plugin.allocate(held.ids)
        finally:
            self._allocations[plugin.resource] += 1
            passed = self._clock.monotonic() - began
            self._seconds[plugin.resource] = self._seconds.get(plugin.resource, 0.0) + passed

    async def _plugin(self, resource: str) -> DevicePlugin | None:
        """Return the plugin, once it has listed its devices; waits for a known one that is not back yet."""
        until = self._clock.monotonic() + RETURN
        while self._inventory.is_awaited(resource) and (left := until - self._clock.monotonic()) > 0:
            await within(self._clock, left, self._changed_event.wait())
        return self._plugins.get(resource)

    def _is_device(self, resource: str) -> bool:
        return self._inventory.knows(resource) or self._holdings.knows(resource)

    def _save(self) -> None:
        """Write the checkpoint. Raises DeviceFault."""
        try:
            self._checkpoint.write(self._holdings, self._inventory.registered())
        except OSError as error:
            raise DeviceFault(f'failed to write checkpoint file "{FILE}": {error}') from error

    def _save_if_possible(self) -> None:
        """Write the checkpoint, or log.

        The next agent recovers from a loss: ended pods are swept, plugins register again.
        """
        try:
            self._save()
        except DeviceFault as fault:
            _log.warning("device checkpoint write failed", why=str(fault))
