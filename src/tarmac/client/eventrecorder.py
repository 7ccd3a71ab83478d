"""Records core/v1 Events without ever blocking the caller.

`Recorder.event` only appends to a bounded buffer (when it is full, new events are dropped and counted); `run` sends. On
the way three limits keep a misbehaving object from flooding the server:
- a repeated event increments the count of the existing one;
- more than ten different messages for one object and reason within ten minutes become one combined event;
- an object gets 25 events at once and then one every five minutes.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from dataclasses import dataclass
from typing import Literal, NamedTuple, NoReturn, TypeVar

from tarmac.api.schema import JsonObject
from tarmac.api.status import ApiError, NotFound
from tarmac.base.clock import rfc3339
from tarmac.base.log import log
from tarmac.client.client import Client
from tarmac.client.errors import ClientError
from tarmac.client.targets.untyped import EVENTS

MAX_BUFFERED = 1000
MAX_REMEMBERED = 4096
SIMILAR_LIMIT = 10
SIMILAR_SECONDS = 600.0
BURST = 25.0
REFILL_PER_SECOND = 1 / 300
MAX_MESSAGE = 1024
COMBINED = "(combined from similar events): "

_log = log("events")

EventType = Literal["Normal", "Warning"]


class InvolvedObject(NamedTuple):
    """The object an event is about."""

    api_version: str
    kind: str
    name: str
    namespace: str = ""
    uid: str = ""
    field_path: str = ""


def reference(obj: JsonObject) -> InvolvedObject:
    """Return the reference to a decoded object."""
    metadata = obj["metadata"]
    return InvolvedObject(
        obj["apiVersion"], obj["kind"], metadata["name"], metadata.get("namespace", ""), metadata.get("uid", "")
    )


K = TypeVar("K")
V = TypeVar("V")


class _Occurrence(NamedTuple):
    about: InvolvedObject
    type: EventType
    reason: str
    message: str
    when: float
    instance: str


@dataclass(slots=True)
class _Written:
    """An event on the server: its name and count."""

    name: str
    count: int


@dataclass(slots=True)
class _Similar:
    """Messages seen for one object and reason in the current window."""

    since: float
    messages: set[str]


class Recorder:
    """Records events under one component's name. They are sent while `run` is running."""

    def __init__(self, client: Client, component: str, instance: str = "") -> None:
        self.dropped = 0
        self._client = client
        self._clock = client.clock
        self._events = client.resource(EVENTS)
        self._component = component
        self._instance = instance
        self._buffer: deque[_Occurrence] = deque()
        self._filled = asyncio.Event()
        self._written: OrderedDict[tuple[str, ...], _Written] = OrderedDict()
        self._similar: OrderedDict[tuple[str, ...], _Similar] = OrderedDict()
        self._allowance: OrderedDict[InvolvedObject, tuple[float, float]] = OrderedDict()

    def event(
        self,
        about: InvolvedObject | JsonObject,
        type: EventType,
        reason: str,
        message: str,
        *,
        instance: str | None = None,
    ) -> None:
        """Record an event. Never blocks, never fails. `instance`: the one of several that this recorder serves."""
        if len(self._buffer) >= MAX_BUFFERED:
            self.dropped += 1
            return
        about = about if isinstance(about, InvolvedObject) else reference(about)
        instance = self._instance if instance is None else instance
        self._buffer.append(_Occurrence(about, type, reason, message[:MAX_MESSAGE], self._clock.now(), instance))
        self._filled.set()

    async def run(self) -> NoReturn:
        """Send recorded events until cancelled."""
        while True:
            await self._filled.wait()
            await self.flush()

    async def flush(self) -> None:
        """Send everything recorded so far. Events that cannot be sent are dropped: they are best effort."""
        while self._buffer:
            occurrence = self._buffer.popleft()
            if not self._allowed(occurrence.about):
                self.dropped += 1
                continue
            try:
                await self._send(self._combined(occurrence))
            except (ApiError, ClientError) as error:
                self.dropped += 1
                _log.debug("event not recorded", reason=occurrence.reason, why=str(error))
        self._filled.clear()

    async def _send(self, occurrence: _Occurrence) -> None:
        message = COMBINED if occurrence.message.startswith(COMBINED) else occurrence.message
        key = (*occurrence.about, occurrence.type, occurrence.reason, message)
        written = self._written.get(key)
        if written is not None:
            try:
                await self._count(occurrence, written)
                return
            except NotFound:
                pass  # it expired on the server: create a new one
        written = await self._create(occurrence)
        _remember(self._written, key, written)

    async def _count(self, occurrence: _Occurrence, written: _Written) -> None:
        patch = {
            "count": written.count + 1,
            "lastTimestamp": rfc3339(occurrence.when),
            "message": occurrence.message,
        }
        await self._events.patch(written.name, patch, occurrence.about.namespace or "default")
        written.count += 1

    async def _create(self, occurrence: _Occurrence) -> _Written:
        about = occurrence.about
        name = f"{about.name}.{int(occurrence.when * 1e9):x}{self._client.randomness.suffix(3)}"
        await self._events.create(self._document(occurrence, name))
        return _Written(name, 1)

    def _document(self, occurrence: _Occurrence, name: str) -> JsonObject:
        about, instance = occurrence.about, occurrence.instance
        involved = {
            "apiVersion": about.api_version,
            "kind": about.kind,
            "name": about.name,
            "namespace": about.namespace,
            "uid": about.uid,
            "fieldPath": about.field_path,
        }
        when = rfc3339(occurrence.when)
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": about.namespace or "default"},
            "involvedObject": {field: value for field, value in involved.items() if value},
            "type": occurrence.type,
            "reason": occurrence.reason,
            "message": occurrence.message,
            "source": {"component": self._component, **({"host": instance} if instance else {})},
            "reportingComponent": self._component,
            "reportingInstance": instance,
            "firstTimestamp": when,
            "lastTimestamp": when,
            "count": 1,
        }

    def _combined(self, occurrence: _Occurrence) -> _Occurrence:
        """Return the occurrence, or its combined form once too many differ only in their message."""
        key = (*occurrence.about, occurrence.type, occurrence.reason)
        similar = self._similar.get(key)
        if similar is None or occurrence.when - similar.since > SIMILAR_SECONDS:
            similar = _Similar(occurrence.when, set())
        _remember(self._similar, key, similar)
        if len(similar.messages) < SIMILAR_LIMIT:
            similar.messages.add(occurrence.message)
        if occurrence.message in similar.messages:
            return occurrence
        return occurrence._replace(message=COMBINED + occurrence.message)

    def _allowed(self, about: InvolvedObject) -> bool:
        now = self._clock.monotonic()
        tokens, since = self._allowance.get(about, (BURST, now))
        tokens = min(BURST, tokens + (now - since) * REFILL_PER_SECOND)
        allowed = tokens >= 1
        _remember(self._allowance, about, (tokens - 1 if allowed else tokens, now))
        return allowed


def _remember(memory: OrderedDict[K, V], key: K, value: V) -> None:
    memory[key] = value
    memory.move_to_end(key)
    if len(memory) > MAX_REMEMBERED:
        memory.popitem(last=False)
