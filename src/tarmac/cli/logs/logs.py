"""`tarmac logs`: reads the selected logs to their end, or follows them."""

from __future__ import annotations

import argparse
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Final

from tarmac.api.schema import JsonObject
from tarmac.api.status import ApiError, Forbidden, NotFound
from tarmac.base.selectors import LabelMatcher
from tarmac.cli.logs.lines import LogLine, LogSource
from tarmac.cli.logs.loglines import LogLines, title
from tarmac.cli.logs.merging import merged
from tarmac.cli.logs.reading import Asked, LogStream
from tarmac.cli.logs.selecting import LogSelection, Selection, needs_nodes, selections
from tarmac.cli.rendering.text import printable
from tarmac.cli.verbs.call import VerbCall
from tarmac.cli.verbs.console import Console
from tarmac.cli.verbs.objectnames import BadObject
from tarmac.client.backoff import Backoff
from tarmac.client.client import Client
from tarmac.client.errors import ClientError
from tarmac.client.targets.untyped import LOCATIONS, NODES, PODS

TAIL_OF_SEVERAL: Final = 10
_FAILED: Final = 1
_ATTEMPTS: Final = 5


async def run(call: VerbCall) -> int:
    """Run the verb with the flags of the command line; return the exit code."""
    return await logs(call.client, call.namespace, call.options, call.console)


async def logs(client: Client, namespace: str, options: argparse.Namespace, console: Console) -> int:
    """Print lines; returns the exit code. Raises BadObject, NotFound."""
    _check(options)
    selected = selections(options.targets, options.selector)
    choice = LogSelection(options.container, options.all_containers, options.city)
    pods = await _pods(client, namespace, selected)
    cities = await _cities(client) if needs_nodes(pods) else {}
    sources = sorted({source for pod in pods for source in choice.sources(pod, cities)})
    _check_number(sources, options)
    for pod in pods if options.container else ():
        if not choice.sources(pod, cities) and LogSelection(cities=options.city).sources(pod, cities):
            _info(console, f'{pod["metadata"]["name"]} has no container "{options.container}"')
    lines = _lines(options, console)
    asked = _asked(options, len(sources))
    if options.follow:
        # Imported late: informers take a while to load, and reading to the end needs none.
        from tarmac.cli.logs.following import LogFollower

        follower = LogFollower(
            client, namespace, selected, choice, asked, cities, options.max_log_requests, lines, console
        )
        await follower.run()
        return _FAILED if follower.unread else 0
    if not sources:
        raise NotFound(f"there is no log to read of {', '.join(each.title for each in selected)}: no instance runs")
    lines.introduce(sources)
    reading = _Reading(client, console)
    streams = [(source, reading.whole(LogStream(client, source, asked))) for source in sources]
    async for shown in merged(streams):
        console.say(lines.text(shown))
    return _FAILED if reading.failed else 0


def _check(options: argparse.Namespace) -> None:
    if options.follow and options.previous:
        raise BadObject("-p reads ended containers, -f follows running ones: give one of them")
    if options.container and options.all_containers:
        raise BadObject("-c names one container, --all-containers means all: give one of them")
    for flag, text, parse in (("--grep", options.grep, re.compile), ("-l", options.selector, LabelMatcher.parse)):
        try:
            parse(text)
        except (re.error, ValueError) as error:
            raise BadObject(f"{flag} {text!r} cannot be understood: {error}") from error


def _check_number(sources: Sequence[LogSource], options: argparse.Namespace) -> None:
    if len(sources) > options.max_log_requests:
        raise BadObject(
            f"{len(sources)} logs are more than the {options.max_log_requests} that are read at once: choose with "
            f"--city or -l, or allow more with --max-log-requests {len(sources)}"
        )


def _asked(options: argparse.Namespace, number: int) -> Asked:
    several = TAIL_OF_SEVERAL if number > 1 else None
    tail = several if options.tail is None else options.tail if options.tail >= 0 else None
    return Asked(options.follow, options.previous, tail, options.since, options.since_time or "")


def _lines(options: argparse.Namespace, console: Console) -> LogLines:
    colour = options.color == "always" or (options.color == "auto" and console.live)
    return LogLines(
        terminal=console.live,
        colour=colour,
        prefix=options.prefix,
        timestamps=options.timestamps,
        grep=options.grep,
        json=options.output == "json",
    )


async def _pods(client: Client, namespace: str, selected: Sequence[Selection]) -> list[JsonObject]:
    """Return the present pods. Raises NotFound for a missing named object."""
    found: dict[str, JsonObject] = {}
    for each in selected:
        if each.owner is not None:
            await client.resource(each.owner).get(each.name, namespace)
        async for page in client.resource(PODS).pages(namespace, labels=each.labels, fields=each.fields):
            found |= {pod["metadata"]["uid"]: pod for pod in page.items}
    return list(found.values())


async def _cities(client: Client) -> Mapping[str, str]:
    """Return the cities of nodes, if permitted."""
    # Imported late, as above: instances have their city as a label.
    from tarmac.cli.verbs.nodecities import needs_locations
    from tarmac.decide.allocatable.report import location_cities, node_city

    try:
        nodes = [each async for page in client.resource(NODES).pages() for each in page.items]
        listed = [each async for page in client.resource(LOCATIONS).pages() for each in page.items]
    except (Forbidden, NotFound):
        return {}
    cities = location_cities(listed) if needs_locations(nodes) else {}
    return {node["metadata"]["name"]: node_city(node, cities) for node in nodes}


class _Reading:
    """Reads logs to their ends, and reports unreadable ones."""

    def __init__(self, client: Client, console: Console) -> None:
        self._client = client
        self._console = console
        self.failed = False

    async def whole(self, stream: LogStream) -> AsyncIterator[list[LogLine]]:
        """Yield all lines of one log, resuming a few times when it breaks."""
        backoff = Backoff(self._client.randomness, 0.5, 10.0)
        while True:
            try:
                async for lines in stream.read():
                    backoff.reset()
                    yield lines
                return
            except ApiError as error:
                why, again = error.message, stream.began and error.http_code >= 500
            except (ClientError, OSError) as error:
                why, again = str(error), True
            if not again or backoff.failures >= _ATTEMPTS:
                self.failed = True
                _info(self._console, f"{title(stream.source)}: {why}")
                return
            await self._client.clock.sleep(backoff.next())


def _info(console: Console, text: str) -> None:
    console.info(printable(text))
