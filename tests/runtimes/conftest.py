"""The runtimes that the contract suite runs on."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from tests.runtimes.machine import FakeMachine, Machine, PinnedMachine, RealMachine, RoutedMachine
from tests.support.containerd import ContainerdNode
from tests.support.nativeruntime import NativeRuntime

_REAL = (pytest.mark.root, pytest.mark.serial)
REAL = [pytest.param("runc", marks=_REAL), pytest.param("gvisor", marks=_REAL)]


@pytest.fixture(params=["fake", "native", "pinned", "routed-main", "routed-vm", *REAL])
def maker(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], Machine]:
    """Each runtime in turn. Makes them later, inside the test's loop; containerd starts outside it."""
    if request.param == "fake":
        return lambda: FakeMachine(tmp_path)
    if request.param == "pinned":
        return lambda: PinnedMachine(tmp_path)
    if request.param == "native":
        return lambda: FakeMachine(tmp_path, NativeRuntime())
    if request.param.startswith("routed"):
        return lambda: RoutedMachine(tmp_path, "runc" if request.param == "routed-main" else "vm")
    node: ContainerdNode = request.getfixturevalue("containerd_node")
    return lambda: RealMachine(node, request.param)


@pytest.fixture
async def machine(maker: Callable[[], Machine]) -> AsyncIterator[Machine]:
    """Each runtime in turn."""
    made = maker()
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
