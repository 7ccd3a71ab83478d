"""The runtimes that the contract suite runs on."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.runtimes.machine import FakeMachine, Machine, PinnedMachine, QemuMachine, RealMachine, RoutedMachine
from tests.support.containerd import ContainerdNode
from tests.support.nativeruntime import NativeRuntime
from tests.support.qemunode import QemuNode

_REAL = (pytest.mark.root,)
REAL = [pytest.param("runc", marks=_REAL), pytest.param("gvisor", marks=_REAL)]


_ARRANGED = [
    pytest.param(name, marks=pytest.mark.soak(minutes=0.01, only=True))
    for name in ("native", "pinned", "routed-main", "routed-vm")
]
"""Runtimes around the fake. Their own files test their additions; real nodes run on them in every planet."""


@pytest.fixture(params=["fake", *_ARRANGED, *REAL, pytest.param("qemu", marks=_REAL)])
def maker(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], Awaitable[Machine]]:
    """Each runtime in turn. Creates them later, inside the test's loop; containerd starts outside it."""
    needed = {"runc": "containerd_node", "gvisor": "containerd_node", "qemu": "qemu_node"}.get(request.param)
    node: Any = request.getfixturevalue(needed) if needed else None

    async def make() -> Machine:
        if request.param == "fake":
            return FakeMachine(tmp_path)
        if request.param == "pinned":
            return PinnedMachine(tmp_path)
        if request.param == "native":
            return FakeMachine(tmp_path, NativeRuntime())
        if request.param.startswith("routed"):
            return RoutedMachine(tmp_path, "runc" if request.param == "routed-main" else "vm")
        if request.param == "qemu":
            return QemuMachine(node, await node.runtime())
        return RealMachine(node, request.param)

    return make


@pytest.fixture
def qemu_node() -> Iterator[QemuNode]:
    """Surroundings of machines."""
    node = QemuNode()
    yield node
    node.close()


@pytest.fixture
async def qemu(qemu_node: QemuNode) -> AsyncIterator[QemuMachine]:
    """Virtual machines alone."""
    made = QemuMachine(qemu_node, await qemu_node.runtime())
    yield made
    await made.clean()


@pytest.fixture
async def machine(maker: Callable[[], Awaitable[Machine]]) -> AsyncIterator[Machine]:
    """Each runtime in turn."""
    made = await maker()
    yield made
    await made.clean()


@pytest.fixture(params=REAL)
async def real_machine(request: pytest.FixtureRequest, containerd_node: ContainerdNode) -> AsyncIterator[RealMachine]:
    """containerd with each handler in turn."""
    made = RealMachine(containerd_node, request.param)
    yield made
    await made.clean()


@pytest.fixture
async def shared_kernel(containerd_node: ContainerdNode) -> AsyncIterator[RealMachine]:
    """containerd with runc."""
    made = RealMachine(containerd_node, "runc")
    yield made
    await made.clean()


@pytest.fixture
async def own_kernel(containerd_node: ContainerdNode) -> AsyncIterator[RealMachine]:
    """containerd with gVisor."""
    made = RealMachine(containerd_node, "gvisor")
    yield made
    await made.clean()
