"""What every suite may ask for, and what none of them leaves to the next."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tarmac.base.log import configure
from tests.support.containerd import containerd_node as containerd_node
from tests.support.containerd import spare_node as spare_node
from tests.support.peer import peer as peer


@pytest.fixture(autouse=True)
def the_log_as_it_was() -> Iterator[None]:
    """The log is one for the process: a test that listens to it must not make the next one deaf."""
    yield
    configure()
