"""What every suite may ask for, and what none of them leaves to the next."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tarmac.base.log import configure
from tests.support.containerd import containerd_node as containerd_node
from tests.support.containerd import second_spare_node as second_spare_node
from tests.support.containerd import spare_node as spare_node
from tests.support.peer import peer as peer


def pytest_runtest_setup(item: pytest.Item) -> None:
    """What needs root says so where there is none."""
    if item.get_closest_marker("root") and os.geteuid() != 0:
        pytest.skip("NOT RUN: needs root (network namespaces, mounts, cgroups)")


@pytest.fixture(autouse=True)
def the_log_as_it_was() -> Iterator[None]:
    """The log is one for the process: a test that listens to it must not make the next one deaf."""
    yield
    configure()
