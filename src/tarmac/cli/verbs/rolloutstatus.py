"""Follows a rollout until it is complete: a table redrawn on a terminal, a line per change elsewhere."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from tarmac.api.compute.names import LABEL_WORKLOAD_UID
from tarmac.api.compute.workload import Workload
from tarmac.api.conditions import find
from tarmac.api.shared import Condition
from tarmac.api.status import NotFound
from tarmac.base.tasks import background
from tarmac.cli.rendering.rollout import (
    CityProgress,
    incomplete_line,
    progress_line,
    progress_of,
    progress_table,
    wave_line,
)
from tarmac.cli.verbs.console import Console
from tarmac.cli.verbs.livetable import Painting
from tarmac.client.client import Client
from tarmac.client.informer import Informers
from tarmac.client.targets.typed import DEPLOYMENTS, WORKLOADS
from tarmac.decide import reasons
from tarmac.decide.rollout import template_hash


class Screen:
    """Shows cities as they change."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._shown: dict[str, CityProgress] = {}
        self._wave = ""
        self._painting = Painting(console)

    def show(self, cities: dict[str, CityProgress], wave: str) -> None:
        """Show the changes since the last call."""
        if self._console.live:
            self._painting.paint(wave + progress_table(cities.values(), self._console.lines))
        else:
            if wave != self._wave:
                self._console.say(wave)
            for name, each in cities.items():
                if self._shown.get(name) != each:
                    self._console.say(progress_line(each))
        self._shown, self._wave = cities, wave


async def follow(client: Client, workload: Workload, console: Console, *, watch: bool, timeout: float | None) -> bool:
    """Show the rollout, to its end if `watch`; True if it is complete. Raises NotFound when it is deleted."""
    own = workload.metadata
    informers, changed = Informers(client), asyncio.Event()
    workloads = informers.informer(WORKLOADS, namespace=own.namespace, fields=f"metadata.name={own.name}")
    selector = f"{LABEL_WORKLOAD_UID}={own.uid}"
    deployments = informers.informer(DEPLOYMENTS, namespace=own.namespace, labels=selector)
    for informer in (workloads, deployments):
        informer.on_change(lambda _old, _new: changed.set())
    screen, key = Screen(console), f"{own.namespace}/{own.name}"
    try:
        async with asyncio.timeout(timeout), background(informers.run(), "informers"):
            await informers.synced()
            while True:
                changed.clear()
                current = workloads.get(key)
                if current is None:
                    raise NotFound(f'workloads "{own.name}" was deleted')
                found = sorted(
                    (item.object for item in deployments.cache.items()), key=lambda each: each.spec.city_code
                )
                cities = progress_of(found, template_hash(current.spec.template))
                screen.show(cities, wave_line(current))
                if is_complete(current) or has_failed(current) or not watch:
                    console.say(_last_line(current, cities.values()))
                    return is_complete(current)
                await changed.wait()
    except TimeoutError:
        console.fail(f"timed out: workload {own.name} is not complete; see `tarmac why workload/{own.name}`")
        return False


def is_complete(workload: Workload) -> bool:
    """True if its controllers have observed the newest generation, and every city has stayed ready for long enough."""
    found = _progress(workload)
    if found is None or found.reason != reasons.COMPLETE or workload.status is None:
        return False
    revisions = workload.status.revisions
    return not revisions or revisions[-1].completed is not None


def has_failed(workload: Workload) -> bool:
    """True if the newest revision has failed in a city and goes no further."""
    found = _progress(workload)
    return found is not None and found.reason == reasons.ROLLOUT_FAILED


def _progress(workload: Workload) -> Condition | None:
    """Return the condition of the newest generation."""
    status = workload.status
    if status is None or status.observed_generation < workload.metadata.generation:
        return None
    return find(status.conditions, "Progressing")


def _last_line(workload: Workload, cities: Iterable[CityProgress]) -> str:
    name = workload.metadata.name
    if is_complete(workload):
        return f"workload {name} successfully rolled out\n"
    failed = _progress(workload)
    if failed is not None and has_failed(workload):
        return f"workload {name} failed to roll out: {failed.message}\n"
    return incomplete_line(name, cities)
