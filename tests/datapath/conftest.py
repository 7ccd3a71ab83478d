"""The same questions for the real datapath, which needs root, and for the fake one."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator

import pytest

from tests.datapath.worlds import FakeWorld, RealWorld, World

_REAL = pytest.param("real", marks=(pytest.mark.root, pytest.mark.serial))


@pytest.fixture(params=["fake", _REAL])
async def world(request: pytest.FixtureRequest) -> AsyncIterator[World]:
    """A world of either sort."""
    made = FakeWorld() if request.param == "fake" else _real()
    try:
        yield made
    finally:
        await made.close()


@pytest.fixture
async def real() -> AsyncIterator[RealWorld]:
    """A world with packets in it."""
    made = _real()
    try:
        yield made
    finally:
        await made.close()


def _real() -> RealWorld:
    if os.geteuid() != 0:
        pytest.fail("network namespaces need root: run this as root, or leave it out with -m 'not root'")
    return RealWorld()
