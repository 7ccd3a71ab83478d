"""The same seed gives the same history, to the byte, in every process."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys

from tarmac.api.schema import JsonObject
from tarmac.apps.simworld import USER, world
from tarmac.apps.up import NODES
from tarmac.client.client import Client
from tarmac.client.controller import Controller, own_key
from tarmac.client.informer import Informers
from tarmac.client.targets.untyped import PODS
from tarmac.sim.faults.draws import FaultInjector
from tarmac.sim.loop import VirtualLoop, run
from tarmac.sim.nodes.fleet import SimulatedNodes
from tarmac.sim.nodes.settings import Behaviour, SimLocation
from tarmac.sim.seeds import stream
from tarmac.sim.simulatedload import SimulatedMetrics

HOUSE_KEEPING = "garbage,namespace,serviceaccount"


def pod(name: str) -> JsonObject:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"containers": [{"name": "main", "image": "example.com/app:1"}]},
    }


async def bind_round_robin(client: Client, nodes: list[str]) -> None:
    """Bind pods to nodes in turn."""
    informers = Informers(client)
    pods = informers.informer(PODS)

    async def bind(key: str) -> None:
        found = pods.get(key)
        if found is not None and not found["spec"].get("nodeName"):
            name = found["metadata"]["name"]
            body = {
                "apiVersion": "v1",
                "kind": "Binding",
                "metadata": {"name": name},
                "target": {"name": nodes[len(name) % len(nodes)]},
            }
            await client.resource(PODS).create(body, namespace="default", name=name, subresource="binding")

    controller = Controller("binder", bind, clock=client.clock, randomness=client.randomness)
    controller.watches(pods, own_key)
    async with asyncio.TaskGroup() as group:
        group.create_task(informers.run())
        group.create_task(controller.run())


def story(seed: int) -> str:
    """Run a small world with garbage collection, nodes, pods that start, crash and end, and a poor network."""

    async def main(loop: VirtualLoop) -> str:
        luck = FaultInjector(stream(seed, "faults"))
        async with world(loop, seed, luck) as made:
            places = [SimLocation("dfw", "DFW", 2), SimLocation("lhr", "LHR", 2)]
            unlucky = Behaviour(fails=0.2, crash_loops=0.1, out_of_memory=0.1)
            fleet = SimulatedNodes(made.client("nodes", made.link(NODES)), places, behaviour=unlucky)
            replica = made.replica("controllers-a", SimulatedMetrics(fleet, made.clock), HOUSE_KEEPING)
            replica.start()
            binder = bind_round_robin(made.client("binder", made.link(USER)), list(fleet.nodes))
            tasks = [asyncio.create_task(fleet.run()), asyncio.create_task(binder)]
            user = made.reliable()
            await made.clock.sleep(60)
            for number in range(12):
                await user.resource(PODS).create(pod(f"p{'x' * number}"), namespace="default")
                await made.clock.sleep(7)
            await made.clock.sleep(60)
            for number in range(0, 12, 2):
                await user.resource(PODS).delete(f"p{'x' * number}", "default")
            await made.clock.sleep(120)
            replica.crash()
            for task in tasks:
                task.cancel()
            assert fleet.happened["stopped"] >= 6, fleet.happened
            assert luck.hits["watch-drop"], luck.hits
            return f"{made.store.revision} {made.store.digest}"

    return run(main)


def in_a_process(seed: int, hash_seed: str) -> str:
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    command = [sys.executable, "-c", f"from tests.sim.test_determinism import story; print(story({seed}))"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=50)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_seed_tells_one_story_whatever_process_tells_it() -> None:
    told = {in_a_process(1, "1"), in_a_process(1, "4242"), story(1), story(1)}
    assert len(told) == 1, told


def test_another_seed_tells_another() -> None:
    assert story(2) != story(3)
