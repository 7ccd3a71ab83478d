"""`tarmac image load` and `tarmac image list`: images in the containerds of the cities that `tarmac up` runs here.

`tarmac image upload` needs a server and no city: see `tarmac.cli.uploads`.

An archive is imported into each city in turn, the same way as the platform's own images. Lists are read from the
containerds, so no state is kept that could be stale.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from tarmac.apps.cities.layout import CityLayout, city_of
from tarmac.apps.cities.removing import underlay_of
from tarmac.apps.layout import layout_of
from tarmac.base.stderr import print_error, print_warning
from tarmac.cli.rendering.text import table
from tarmac.runtimes import containerd
from tarmac.runtimes.containerd.archives import BadArchive, full_name, image_names
from tarmac.runtimes.interface import RuntimeFault
from tarmac.runtimes.parts import NodeParts, PartMissing, find_parts

FAILED = 1


class _NoCity(Exception):
    """There is no such city here, or none at all."""


def main(options: argparse.Namespace) -> int:
    """Load or list; return the exit code."""
    try:
        cities = _cities(layout_of(options).data_dir, options.city)
        parts = find_parts()
        if options.action == "list":
            return asyncio.run(_list(cities, parts))
        return asyncio.run(_load(options.archive, options.name, cities, parts))
    except (_NoCity, BadArchive, PartMissing, RuntimeFault, RuntimeError, OSError) as error:
        print_error(error)
        return FAILED


def _cities(data_dir: Path, wanted: Sequence[str]) -> list[CityLayout]:
    if os.geteuid() != 0:
        raise _NoCity("the containerd of a city needs root; run this command as root")
    underlay = underlay_of(data_dir)
    known = [host.name.upper() for host in underlay.cities]
    if not known:
        raise _NoCity(f"{data_dir}: no cities with real containers; start `tarmac up`, or pass --data-dir")
    if unknown := [code for code in wanted if code not in known]:
        raise _NoCity(f"{', '.join(unknown)}: no such city in {data_dir}, which has {', '.join(known)}")
    return [city_of(code, underlay, data_dir) for code in wanted or known]


async def _load(archive: Path, name: str, cities: Sequence[CityLayout], parts: NodeParts) -> int:
    names = [full_name(name)] if name else image_names(archive)
    if not names:
        raise BadArchive(f"{archive} does not name its image; give --name REGISTRY/NAME:TAG")
    failed = False
    for city in cities:
        settings = city.containerd(parts)
        try:
            await containerd.import_image(settings, archive, names[0] if name else "", _progress(city.code))
        except RuntimeError as error:
            print_error(f"{city.code}: {error}")
            failed = True
            continue
        for each in names:
            print(f"{city.code}: {each}", flush=True)
    for each in names:
        if each.endswith(":latest"):
            print_warning(f"{each} is pulled anew at each start, as every :latest is; tag it")
    return FAILED if failed else 0


def _progress(city: str) -> Callable[[int, int], None]:
    """Return a progress callback: updated in place on a terminal, printed once elsewhere."""
    live, before = sys.stderr.isatty(), -1

    def show(done: int, total: int) -> None:
        nonlocal before
        percent = done * 100 // total if total else 100
        if live and percent != before:
            print(f"\r{city}: {percent}% of {total / 1e6:.1f} MB", end="\n" if done == total else "", file=sys.stderr)
        elif not live and before < 0:
            print(f"{city}: loading {total / 1e6:.1f} MB", file=sys.stderr)
        before = percent

    return show


async def _list(cities: Sequence[CityLayout], parts: NodeParts) -> int:
    found: dict[tuple[str, int], list[str]] = {}
    for city in cities:
        for image in await containerd.images(city.containerd(parts)):
            for tag in image.tags:
                found.setdefault((tag, image.size), []).append(city.code)
    rows = [(name, f"{size / 1e6:.1f} MB", ",".join(codes)) for (name, size), codes in sorted(found.items())]
    print(table(("IMAGE", "SIZE", "CITIES"), rows))
    return 0
