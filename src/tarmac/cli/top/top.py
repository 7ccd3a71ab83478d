"""`tarmac top`: reads through the Kubernetes API and aggregates here, so it works on any API server.

Lists that are forbidden are left out with a warning: a user who may see no nodes gets cities by visible instances.
"""

from __future__ import annotations

import argparse
from typing import Final

import msgspec

from tarmac.api.schema import JsonObject
from tarmac.base.selectors import LabelMatcher
from tarmac.cli.rendering.text import printable_json
from tarmac.cli.top.gpus import gpu_document, gpu_rows, gpu_table
from tarmac.cli.top.usage import Usage, UsageSample, by_city, by_instance, by_node, by_workload, samples
from tarmac.cli.top.usagetable import sorted_rows, usage_document, usage_table
from tarmac.cli.verbs.call import VerbCall
from tarmac.cli.verbs.console import Console
from tarmac.cli.verbs.listing import TableListing
from tarmac.cli.verbs.livetable import Painting
from tarmac.cli.verbs.nodecities import needs_locations
from tarmac.cli.verbs.objectnames import BadObject
from tarmac.client.client import Client
from tarmac.client.targets.untyped import LOCATIONS, NODE_METRICS, NODES, POD_METRICS, PODS
from tarmac.decide.allocatable.report import location_cities

INTERVAL: Final = 15.0
_FAILED: Final = 1


async def run(call: VerbCall) -> int:
    """Run the verb with the flags of the command line; return the exit code."""
    return await top(call.client, call.namespace, call.options, call.console)


async def top(client: Client, namespace: str, options: argparse.Namespace, console: Console) -> int:
    """Show the table, once or until interrupted; returns the exit code. Raises BadObject."""
    try:
        LabelMatcher.parse(options.selector)
    except ValueError as error:
        raise BadObject(f"-l {options.selector!r} cannot be understood: {error}") from error
    if options.gpu:
        return await _gpus(client, options, console)
    asking = _Asking(client, "" if options.all_namespaces else namespace, options, console)
    painting = Painting(console)
    while True:
        rows = sorted_rows(await asking.rows(), options.sort_by)
        _show(rows, options, console, painting)
        if not options.watch:
            break
        await client.clock.sleep(INTERVAL)
    if any(row.measured for row in rows):
        return 0
    console.fail("nothing is measured yet: a node reports nothing before its second sample")
    return _FAILED


async def _gpus(client: Client, options: argparse.Namespace, console: Console) -> int:
    """Show a row for each GPU, once or until interrupted; returns the exit code."""
    listing, painting = TableListing(client, console), Painting(console)
    while True:
        nodes = await listing.listed(NODES, labels=options.selector) or []
        locations = await listing.listed(LOCATIONS) if options.city and needs_locations(nodes) else None
        places = {row.name: row.cities for row in by_node(nodes, {}, None, location_cities(locations or ()))}
        chosen = [each for each in nodes if not options.city or set(options.city) & {*places[each["metadata"]["name"]]}]
        rows = await gpu_rows(client, chosen, console)
        if options.output == "json":
            console.show_json(gpu_document(rows))
        else:
            text = gpu_table(rows)
            painting.paint(text) if options.watch and console.live else console.say(text)
        if not options.watch:
            break
        await client.clock.sleep(INTERVAL)
    if rows:
        return 0
    console.fail("no node has GPUs; see docs/how-to/offer-gpus.md")
    return _FAILED


def _show(rows: list[Usage], options: argparse.Namespace, console: Console, painting: Painting) -> None:
    if options.output == "json":
        document = usage_document(options.level, rows)
        if options.watch:
            console.say(printable_json(msgspec.json.encode(document).decode()) + "\n")
        else:
            console.show_json(document)
        return
    namespaces = options.all_namespaces and options.level in ("workloads", "instances")
    live = options.watch and console.live
    text = usage_table(options.level, rows, namespaces=namespaces, lines=console.lines if live else 0)
    painting.paint(text) if live else console.say(text)


class _Asking:
    """Collects the data of one table."""

    def __init__(self, client: Client, namespace: str, options: argparse.Namespace, console: Console) -> None:
        self._client = client
        self._namespace = namespace
        self._level: str = options.level
        self._cities: list[str] = options.city
        self._selector: str = options.selector
        self._listing = TableListing(client, console)

    async def rows(self) -> list[Usage]:
        """Return the present usage in the chosen cities."""
        found = await (self._of_nodes() if self._level in ("cities", "nodes") else self._of_instances())
        return [row for row in found if self._is_chosen(row)]

    async def _of_nodes(self) -> list[Usage]:
        nodes = await self._listing.listed(NODES, labels=self._selector)
        if nodes is None:
            if self._level == "nodes":
                return []
            return by_city(await self._instances())
        measured = samples(await self._listing.listed(NODE_METRICS) or (), self._client.clock.now())
        locations = await self._listing.listed(LOCATIONS) if needs_locations(nodes) else None
        rows = by_node(nodes, measured, await self._listing.listed(PODS), location_cities(locations or ()))
        return by_city(rows) if self._level == "cities" else rows

    async def _of_instances(self) -> list[Usage]:
        pods = await self._pods()
        if self._level == "instances":
            return by_instance(pods, await self._measured())
        # A city is chosen by its instances: a workload's row covers only those in the chosen cities.
        measured = await self._measured()
        kept = {(row.namespace, row.name) for row in by_instance(pods, measured) if self._is_chosen(row)}
        chosen = [pod for pod in pods if (pod["metadata"]["namespace"], pod["metadata"]["name"]) in kept]
        return by_workload(chosen, measured)

    async def _instances(self) -> list[Usage]:
        rows = by_instance(await self._pods(), await self._measured())
        for row in rows:
            row.offered.clear()  # the capacity of a city is unknown here
        return rows

    def _is_chosen(self, row: Usage) -> bool:
        return not self._cities or not set(self._cities).isdisjoint(row.cities)

    async def _pods(self) -> list[JsonObject]:
        labels = self._selector if self._level in ("workloads", "instances") else ""
        return [
            each
            async for page in self._client.resource(PODS).pages(self._namespace, labels=labels)
            for each in page.items
        ]

    async def _measured(self) -> dict[str, UsageSample]:
        return samples(await self._listing.listed(POD_METRICS, self._namespace) or (), self._client.clock.now())
