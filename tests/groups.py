"""Distributes tests to workers in groups. A group stays on one worker; groups run side by side.

A group shares a fixture that is expensive to start:

- tests that request a package-scoped fixture (a planet, a registry) form the group of that folder;
- tests that request `peer`, the kube-apiserver, form one group for the whole run;
- all other tests of a file form the group of that file.

Groups that may run longest start first, so that the run does not end with one worker on a long group and the others
idle. The `timeout` markers serve as the estimate.

A test marked `last` ends the shared part of its group, so it runs after the rest of its group, independent of the name
of its file.

Only workers collect, and only the controller schedules, so the workers leave a file with the group of each test. The
mode `loadgroup` of xdist would append the group to each node id instead; pytest 9.2 ignores that.
"""

from __future__ import annotations

import itertools
import json
import os
import tempfile
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

PEER = "kube-apiserver"
_FILE = "group_file"  # in the input of each worker


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Order the groups by estimated duration, the longest first; move tests marked `last` to the end of their group."""
    groups = {item: group_of(item) for item in items}
    estimates: dict[str, float] = {}
    for item, group in groups.items():
        estimates[group] = max(estimates.get(group, 0.0), _timeout(item))
    ends = {group: index for index, group in enumerate(groups.values())}
    places = {
        item: (ends[group], 1) if item.get_closest_marker("last") else (index, 0)
        for index, (item, group) in enumerate(groups.items())
    }
    items.sort(key=lambda item: (-estimates[groups[item]], places[item]))


@pytest.hookimpl(tryfirst=True)  # the controller schedules as soon as xdist's own hook has run
def pytest_collection_finish(session: pytest.Session) -> None:
    """A worker leaves the groups for the controller. Every worker writes the same, so the last rename may win."""
    path = getattr(session.config, "workerinput", {}).get(_FILE)
    if path is not None:
        written = Path(f"{path}.{os.getpid()}")
        written.write_text(json.dumps({item.nodeid: group_of(item) for item in session.items}))
        written.rename(path)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: WorkerController) -> None:
    """The controller passes the path of the group file to a worker."""
    node.workerinput[_FILE] = str(_group_file())


def pytest_sessionfinish() -> None:
    """The controller removes the file. Workers have none of their own process id."""
    _group_file().unlink(missing_ok=True)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> GroupScheduling:
    """Replace the scheduler that `--dist` names."""
    return GroupScheduling(config, log)


class GroupScheduling(LoadScopeScheduling):
    """Gives a worker whole groups, in the order of collection."""

    def __init__(self, config: pytest.Config, log: Any = None) -> None:
        super().__init__(config, log)
        config.option.loadscopereorder = False

    def _split_scope(self, nodeid: str) -> str:
        return self._groups[nodeid]

    @cached_property
    def _groups(self) -> dict[str, str]:
        return json.loads(_group_file().read_text())


def group_of(item: pytest.Item) -> str:
    """The name of a test's group: a folder, a file, or `PEER`."""
    if not isinstance(item, pytest.Function):
        return item.nodeid
    if "peer" in item.fixturenames:
        return PEER
    fixtures = itertools.chain.from_iterable(item._fixtureinfo.name2fixturedefs.values())
    shared = {fixture.baseid for fixture in fixtures if fixture.scope == "package"}
    return min(shared, default=item.nodeid.partition("::")[0])


def _timeout(item: pytest.Item) -> float:
    marker = item.get_closest_marker("timeout")
    return float(marker.args[0]) if marker is not None and marker.args else 0.0


def _group_file() -> Path:
    """One file for each run: two runs of one clone may collect different tests."""
    return Path(tempfile.gettempdir()) / f"tarmac-test-groups-{os.getpid()}.json"
