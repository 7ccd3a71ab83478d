"""The condition MachinesReady of a node: the accelerator, or the cause and the command that fixes it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import cast

import pytest

from tarmac.agent.cgroups.hierarchy import Hierarchy
from tarmac.agent.model.machinestate import MachineState
from tarmac.agent.network.taps import MachineTaps
from tarmac.apps.node.nodemachines import NodeMachines, running
from tarmac.base.clock import ManualClock
from tarmac.client.client import Client
from tarmac.client.eventrecorder import Recorder
from tarmac.runtimes.interface import RuntimeRefused
from tarmac.runtimes.parts import MachineParts
from tarmac.runtimes.qemu.accelerator import AcceleratorProbe
from tests.agent.node.settings import agent_config


def found(root: Path, taps: MachineTaps | None) -> NodeMachines | MachineState:
    return NodeMachines.find(agent_config(root), cast("Hierarchy", None), taps, ManualClock(), cast("Recorder", None))


def test_a_node_without_qemu_names_the_package_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("TARMAC_NODE_PARTS", str(tmp_path))
    state = found(tmp_path, cast("MachineTaps", object()))
    assert isinstance(state, MachineState)
    assert (state.ready, state.reason) == (False, "MachinesNotInstalled")
    assert state.message.startswith("no qemu-system-x86_64 and qemu-img on the PATH: run `apt install tarmac-machines`")
    assert state.message.endswith("; then restart the agent")


def test_a_node_whose_pods_plugins_connect_has_no_machines(tmp_path: Path) -> None:
    state = found(tmp_path, None)
    assert isinstance(state, MachineState)
    assert (state.ready, state.reason) == (False, "ConnectedByPlugins")


async def test_a_failed_trial_is_the_cause_and_is_reported_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse() -> AcceleratorProbe:
        raise RuntimeRefused("tcg: QEMU ended: it said nothing")

    parts, woken = MachineParts(*[tmp_path] * 5), asyncio.Event()
    machines = NodeMachines(
        agent_config(tmp_path),
        parts,
        cast("Hierarchy", None),
        cast("MachineTaps", None),
        ManualClock(),
        cast("Recorder", None),
    )
    monkeypatch.setattr(machines.runtime, "probe", refuse)
    assert machines.state() is None, "unknown until the trial has ended"
    offer = asyncio.create_task(machines.offer(cast("Client", None), "n", lambda *_: None, woken.set))
    try:
        await woken.wait()
        state = machines.state()
    finally:
        offer.cancel()
        await asyncio.gather(offer, return_exceptions=True)
    assert state == MachineState(
        False, "MachineTrialFailed", "no kernel booted in a virtual machine: tcg: QEMU ended: it said nothing"
    )


def test_a_node_with_machines_names_their_accelerator() -> None:
    fast, slow = (
        running(AcceleratorProbe("kvm", "")),
        running(AcceleratorProbe("tcg", "/dev/kvm is not there")),
    )
    assert (fast.ready, fast.reason, fast.message) == (True, "MachinesRun", "virtual machines run by KVM (kvm)")
    assert slow.ready
    assert slow.message == "virtual machines run emulated (tcg), which is slow: /dev/kvm is not there"
