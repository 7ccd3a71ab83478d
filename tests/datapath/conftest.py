"""Fixtures of the real datapath, which needs root, and of the fake one."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator

import pytest

from tests.datapath.egress_worlds import ExternalWorld, external_world
from tests.datapath.ingress_worlds import IngressWorld, ingress_world
from tests.datapath.worlds import FakeWorld, RealWorld, World

ON_A_KERNEL = (pytest.mark.root,)
_REAL = pytest.param("real", marks=ON_A_KERNEL)
OF_MACHINES_TOO = ["fake", "fake machines", _REAL, pytest.param("real machines", marks=ON_A_KERNEL)]
"""For tests of pods and of virtual machines."""


@pytest.fixture(params=["fake", _REAL])
async def world(request: pytest.FixtureRequest) -> AsyncIterator[World]:
    """A world of either kind."""
    machines = request.param.endswith("machines")
    made = FakeWorld(machines) if request.param.startswith("fake") else real_world(machines)
    try:
        yield made
    finally:
        await made.close()


@pytest.fixture(params=["fake", _REAL])
async def outside(request: pytest.FixtureRequest) -> AsyncIterator[ExternalWorld]:
    """Nodes, pods and outside servers of either kind. Fails for outside frames with a wrong source."""
    async with external_world(FakeWorld() if request.param == "fake" else real_world()) as made:
        yield made


@pytest.fixture
async def lan() -> AsyncIterator[ExternalWorld]:
    """The same with packets only."""
    async with external_world(real_world()) as made:
        yield made


@pytest.fixture(params=["fake", _REAL])
async def ways_in(request: pytest.FixtureRequest) -> AsyncIterator[IngressWorld]:
    """Nodes, pods and outside clients of either kind. Fails for outside frames with a wrong source."""
    async with ingress_world(FakeWorld() if request.param == "fake" else real_world()) as made:
        yield made


@pytest.fixture
async def street() -> AsyncIterator[IngressWorld]:
    """The same with packets only."""
    async with ingress_world(real_world()) as made:
        yield made


@pytest.fixture
async def real(request: pytest.FixtureRequest) -> AsyncIterator[RealWorld]:
    """A world with packets. Tests that hold for machines too are `of_both`."""
    made = real_world(getattr(request, "param", "pods") == "machines")
    try:
        yield made
    finally:
        await made.close()


def real_world(machines: bool = False) -> RealWorld:
    """Return a world with packets; needs root."""
    if os.geteuid() != 0:
        pytest.fail("network namespaces need root: run this as root, or leave it out with -m 'not root'")
    return RealWorld(machines)
