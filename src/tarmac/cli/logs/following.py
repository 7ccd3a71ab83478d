"""Follows logs: of present instances and of every new one.

Informers provide the pods. Each log has a task that reads it, resumes it when the connection breaks and restarts it
with its container; it ends when the container will write no more. All lines go into one `Hold`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from tarmac.api.kubernetes.core.pods.phases import is_terminal
from tarmac.api.schema import JsonObject
from tarmac.api.status import ApiError, NotFound
from tarmac.base.tasks import Tasks, background, first
from tarmac.cli.logs.lines import LogSource
from tarmac.cli.logs.loglines import LogLines, title
from tarmac.cli.logs.merging import HOLD_SECONDS, Hold
from tarmac.cli.logs.reading import Asked, LogStream
from tarmac.cli.logs.selecting import LogSelection, Selection, has_begun, is_over
from tarmac.cli.rendering.text import printable
from tarmac.cli.verbs.console import Console
from tarmac.client.backoff import Backoff
from tarmac.client.client import Client
from tarmac.client.errors import ClientError
from tarmac.client.informer import Informer, Informers
from tarmac.client.targets.untyped import PODS

_FIRST_RESPONSES_TIMEOUT: Final = 5.0
_LAST_LINES_TIMEOUT: Final = 5.0
_SHORTEST, _LONGEST = 0.5, 10.0

Key = tuple[str, str]
"""The uid of a pod and the name of a container."""


@dataclass(slots=True)
class _Followed:
    """A log with its task."""

    stream: LogStream
    task: asyncio.Task[None] | None = None
    failed: bool = False  # at least once
    leaving: bool = False
    over: bool = False

    @property
    def settled(self) -> bool:
        """True once it has responded or failed."""
        return self.failed or self.stream.began


class LogFollower:
    """Follows the selected logs until all of them have ended."""

    def __init__(
        self, client: Client, namespace: str, selected: list[Selection], choice: LogSelection, asked: Asked,
        cities: Mapping[str, str], most: int, lines: LogLines, console: Console,
    ) -> None:  # fmt: skip
        self._client = client
        self._choice = choice
        self._asked = asked
        self._cities = cities
        self._most = most
        self._lines = lines
        self._console = console
        self._informers = Informers(client)
        self._pods = [
            self._informers.informer(PODS, namespace=namespace, labels=each.labels, fields=each.fields)
            for each in selected
        ]
        self._owners = [self._owner(each, namespace) for each in selected]
        self._hold = Hold(client.clock, lambda shown: console.say(lines.text(shown)) if shown else None)
        self._tasks = Tasks()
        self._followed: dict[Key, _Followed] = {}
        self._changed = asyncio.Event()
        self._first = True
        self._left_waiting: set[Key] = set()
        self.unread = False
        """True if a log ended without any of it having been read."""

    def _owner(self, selected: Selection, namespace: str) -> Callable[[], bool]:
        """Return a function that tells whether the named object can still have pods that write."""
        if selected.owner is None:
            return lambda: True
        fields = f"metadata.name={selected.name}"
        informer: Informer[JsonObject] = self._informers.informer(selected.owner, namespace=namespace, fields=fields)
        informer.on_change(lambda _old, _new: self._changed.set())
        return lambda: (
            informer.get(f"{namespace}/{selected.name}") is not None and not self._named_pod_is_over(selected)
        )

    def _named_pod_is_over(self, selected: Selection) -> bool:
        """True if the named pod has ended: it has no successor, unlike a Workload's."""
        if not selected.fields:
            return False
        known = self._known().values()
        return bool(known) and all(is_terminal(pod) for pod in known)

    async def run(self) -> None:
        """Show lines until every named object is gone. Held lines are shown however it ends."""
        for informer in self._pods:
            informer.on_change(lambda _old, _new: self._changed.set())
        try:
            async with background(self._informers.run(), "informers of logs"):
                await self._informers.synced()
                await first(self._hold.run(), self._keep_up())
        finally:
            await self._tasks.close()
            self._hold.flush()

    def _known(self) -> dict[str, JsonObject]:
        return {item.metadata.uid: item.object for informer in self._pods for item in informer.cache.items()}

    async def _keep_up(self) -> None:
        """Start and end logs as pods appear and disappear."""
        async with background(self._begin_showing(), "beginning of logs"):
            while True:
                self._changed.clear()
                self._reconcile()
                if all(each.over for each in self._followed.values()) and not any(owner() for owner in self._owners):
                    return
                await self._changed.wait()

    async def _begin_showing(self) -> None:
        """Start showing lines once the initial streams have responded, or after a timeout."""
        until = self._client.clock.monotonic() + _FIRST_RESPONSES_TIMEOUT
        while self._client.clock.monotonic() < until:
            if not self._first and all(each.settled for each in self._followed.values()):
                break
            await self._client.clock.sleep(HOLD_SECONDS / 5)
        self._hold.begin()

    def _reconcile(self) -> None:
        pods = self._known()
        wanted = {
            (uid, source.container): source
            for uid, pod in pods.items()
            for source in self._choice.sources(pod, self._cities)
        }
        new = {key: source for key, source in wanted.items() if key not in self._followed}
        self._begin(new)
        for (uid, _), each in list(self._followed.items()):
            if uid not in pods:
                self._leave((uid, each.stream.source.container), each)
        self._first = False

    def _begin(self, new: Mapping[Key, LogSource]) -> None:
        room = self._most - sum(not each.over for each in self._followed.values())
        begun = dict(sorted(new.items(), key=lambda item: item[1])[: max(0, room)])
        self._lines.introduce(begun.values())
        for key, source in begun.items():
            if not self._first and not any(uid == key[0] for uid, _ in self._followed):
                self._info(f"+ {title(source)}")
            # A new instance is read from its beginning, regardless of the options for the initial ones.
            asked = self._asked if self._first else Asked(follow=True)
            self._followed[key] = each = _Followed(LogStream(self._client, source, asked))
            each.task = self._tasks.begin(self._follow(key, each), f"log of {source.instance}")
        for key in new.keys() - begun.keys() - self._left_waiting:
            self._info(f"{title(new[key])} waits: {self._most} logs are followed; --max-log-requests allows more")
            self._left_waiting.add(key)

    def _leave(self, key: Key, each: _Followed) -> None:
        """Handle a removed pod. The last lines of its container may still be in flight."""
        if each.over:
            del self._followed[key]
            if not any(uid == key[0] for uid, _ in self._followed):
                self._info(f"- {title(each.stream.source)}")
        elif not each.leaving:
            each.leaving = True
            self._tasks.begin(self._end_later(each), "end of a log")

    async def _end_later(self, each: _Followed) -> None:
        """Cancel a log after a while: a silent node would never end it."""
        await self._client.clock.sleep(_LAST_LINES_TIMEOUT)
        if each.task is not None:
            each.task.cancel()

    async def _follow(self, key: Key, each: _Followed) -> None:
        backoff, last = Backoff(self._client.randomness, _SHORTEST, _LONGEST), ""
        try:
            while True:
                ended, why = await self._read(key, each, backoff)
                each.failed = True
                if why and why != last:
                    self._info(f"{title(each.stream.source)}: {printable(why)}")
                last = why or last
                pod = self._known().get(key[0])
                if pod is None or (ended and is_over(pod, key[1])):
                    return
                await self._client.clock.sleep(backoff.next())
        finally:
            each.over = True
            self.unread = self.unread or not each.stream.began
            self._changed.set()

    async def _read(self, key: Key, each: _Followed, backoff: Backoff) -> tuple[bool, str]:
        """Read one connection; returns whether the log ended, and the reason if not."""
        stream = each.stream
        try:
            if each.failed and not await self._is_the_same(key[0], stream.source):
                return False, ""
            async for lines in stream.read():
                self._hold.add(stream.source, lines)
                backoff.reset()
                while self._hold.full:
                    await self._client.clock.sleep(HOLD_SECONDS)
        except NotFound:
            return False, ""  # its pod is gone, which the informer will report
        except ApiError as error:
            pod = self._known().get(key[0])
            if pod is not None and not has_begun(pod, key[1]):
                stream.asked = replace(stream.asked, tail=None)  # all later output is new
                return False, ""
            return False, error.message
        except (ClientError, OSError) as error:
            return False, f"{error}; it is resumed"
        return True, ""

    async def _is_the_same(self, uid: str, source: LogSource) -> bool:
        """True if the pod is still the same.

        Logs are requested by name, and a resumed one must not continue with that of a successor.
        """
        found = await self._client.resource(PODS).get(source.instance, source.namespace)
        return found["metadata"]["uid"] == uid

    def _info(self, text: str) -> None:
        self._console.info(text)
