"""Stops cities of an earlier `up` that this one does not name, instead of leaving them running unnoticed.

Their processes are stopped and their hosts removed; disks, images and everything else in the data directory stay, so
that a city is restored when it is named again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from pathlib import Path

from tarmac.apps.cities.agents import agents_of
from tarmac.apps.cities.layout import city_of
from tarmac.apps.cities.removing import stop_city, underlay_of
from tarmac.apps.processes import end
from tarmac.datapath.linux import namespaces
from tarmac.runtimes.parts import NodeParts


async def leave(data_dir: Path, codes: Collection[str], parts: NodeParts) -> list[str]:
    """Stop all cities except these; return their codes."""
    underlay = underlay_of(data_dir)
    others = [host.name.upper() for host in underlay.cities if host.name.upper() not in codes]
    if others:
        await end(agents_of(data_dir))  # those of the remaining cities are started again shortly
    for city in [city_of(code, underlay, data_dir) for code in others]:
        if city.run.exists():
            await stop_city(city, parts)
            # Its links are removed with it: a new city may get the address.
            await asyncio.to_thread(namespaces.remove, city.host.namespace)
    return others
