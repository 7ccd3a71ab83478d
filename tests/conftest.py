"""Fixtures of every suite, and state that no suite leaves to the next."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Iterator

import pytest

from tarmac.base.log import configure
from tests import soak
from tests.support.containerd import containerd_node as containerd_node
from tests.support.containerd import second_spare_node as second_spare_node
from tests.support.containerd import spare_node as spare_node
from tests.support.isolation import cities_without_the_internet as cities_without_the_internet
from tests.support.peer import peer as peer

pytest_plugins = ["tests.groups", "tests.cputime"]


def pytest_configure() -> None:
    """Give commands under test a SIGINT that ends them, also where a shell started this run in the background."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_finish(session: pytest.Session) -> None:
    # A garbage collection would walk over twelve thousand collected tests, for 0.3 s. They stay frozen: tests that
    # measure freeze their own objects as well, and the process ends soon.
    gc.collect()
    gc.freeze()
    if soak.SOAK:
        session.config.pluginmanager.register(soak.Progress(session.items))


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Tests that need root report so where there is none."""
    if item.get_closest_marker("root") and os.geteuid() != 0:
        pytest.skip("NOT RUN: needs root (network namespaces, mounts, cgroups)")
    soak.skip_without_soak(item)


@pytest.fixture(autouse=True)
def the_log_as_it_was() -> Iterator[None]:
    """The log is one for the process: a test that changes its handlers must not affect the next one."""
    yield
    configure()
