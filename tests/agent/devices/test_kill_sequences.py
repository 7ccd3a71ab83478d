"""Pods come and go while agent and plugin are killed at any moment: no device is ever given to two running pods.

A pod counts as running from its allocation to its release, as in the runtime. A failing seed is in the name of the
test.
"""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from tests.agent.devices.plugin import DevicePlugin
from tests.agent.devices.stage import Node, a_node, a_pod

ROUNDS, STEPS, DEVICES = 6, 12, 4


class Story:
    """`running`: pods with allocated devices. `holds`: events that delayed calls of the plugin wait for."""

    def __init__(self, node: Node, seed: int) -> None:
        self.node = node
        self.random = Random(seed)
        self.running: dict[str, tuple[list[str], int]] = {}
        self.starting: dict[str, tuple[asyncio.Task[object], int]] = {}
        self.holds: list[asyncio.Event] = []
        self.given = 0
        self._count = 0

    async def step(self, plugin: DevicePlugin) -> None:
        """Take one random step: create or end a pod, delay the plugin, change health, or let time pass."""
        what = self.random.choice(("come", "come", "go", "pass", "slow", "flap"))
        if what == "come":
            self._come()
        elif what == "go" and self.running:
            uid = self.random.choice(sorted(self.running))
            del self.running[uid]
            self.node.allocator.release(uid)
        elif what == "slow":
            self.holds.append(asyncio.Event())
            plugin.held = {self.random.choice(("Allocate", "GetPreferredAllocation")): self.holds[-1]}
        elif what == "flap":
            plugin.set({f"g{number}": self.random.choice(("Healthy", "Unhealthy")) for number in range(DEVICES)})
        else:
            self._let_go(plugin)
        for _ in range(self.random.randint(0, 30)):
            await asyncio.sleep(0)
        self.look()

    def look(self) -> None:
        """Count allocated pods as running and check that no two of them share a device."""
        for uid, (work, number) in list(self.starting.items()):
            if work.done():
                del self.starting[uid]
                if work.result() is None:
                    self.given += 1
                    self.running[uid] = self.node.ids(uid), number
        devices = [device for ids, _ in self.running.values() for device in ids]
        assert len(devices) == len(set(devices)), self.running
        for uid, (ids, number) in self.running.items():
            assert self.node.ids(uid) == ids
            assert len(ids) == number

    async def serve_one(self, plugin: DevicePlugin) -> None:
        """Serve one pod with a responsive plugin, since a busy machine may not have served any before.

        All other pods end first: for devices of pods that the agent inherited, a new pod waits half a minute.
        """
        self._let_go(plugin)
        plugin.set({f"g{number}": "Healthy" for number in range(DEVICES)})
        await self.node.has(DEVICES)
        await self.cancel_starting()
        self.running.clear()
        self.sweep()
        self._come()
        await asyncio.wait([work for work, _ in self.starting.values()])
        self.look()

    def _come(self) -> None:
        self._count += 1
        uid, number = f"p{self._count}", self.random.randint(1, 2)
        work = asyncio.create_task(self.node.allocator.prepare(a_pod(uid, number)))
        self.starting[uid] = work, number

    def _let_go(self, plugin: DevicePlugin) -> None:
        # Also events that a later delay replaced: their calls would wait for the agent's timeout of a minute.
        for event in self.holds:
            event.set()
        self.holds.clear()
        plugin.held.clear()

    async def cancel_starting(self) -> None:
        """Cancel pods that are starting, as a kill of the agent does."""
        for work, _ in self.starting.values():
            work.cancel()
        if self.starting:
            await asyncio.wait([work for work, _ in self.starting.values()])
        self.starting.clear()

    def sweep(self) -> None:
        """Release devices of pods that no longer exist, as the agent does after its first list from the server."""
        for uid in self.node.devices.holders() - self.running.keys():
            self.node.allocator.release(uid)


@pytest.mark.parametrize("seed", range(8))
async def test_no_device_is_ever_with_two_pods(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tarmac.agent.devices.devicemanager.PACE", 0.0)
    monkeypatch.setattr("tarmac.agent.devices.plugins.PACE", 0.0)
    async with a_node() as node:
        story = Story(node, seed)
        for number in range(ROUNDS):
            async with node.agent():
                story.look()
                if story.random.random() < 0.5:
                    story.sweep()
                plugin = DevicePlugin(node.folder, prefers=story.random.random() < 0.5)
                plugin.devices = {f"g{each}": "Healthy" for each in range(DEVICES)}
                plugin.preferred = [f"g{each}" for each in reversed(range(DEVICES))]
                await plugin.start()
                try:
                    await plugin.register()
                    await node.has(DEVICES)
                    for _ in range(STEPS):
                        await story.step(plugin)
                    if number == ROUNDS - 1:
                        await story.serve_one(plugin)
                finally:
                    await story.cancel_starting()
                    await plugin.stop()
        assert story.given > 0
