"""The audit log: one JSON line per answered request, as audit.k8s.io/v1 at level Metadata. Bodies are never logged.

The part of a line without id and times is rendered once and cached, since clients repeat requests; the request path
only appends the text, the id and the times. Lines are assembled in batches, twice a second or once a batch is full, and
handed to the file's thread. Client-controlled values are truncated, and long texts are not cached. The client gets the
id in the `Audit-Id` header, so that both sides can refer to the same request.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from tarmac.base.clock import Clock, rfc3339
from tarmac.base.randomness import Randomness
from tarmac.http.messages import Answer, Request, Response, StreamResponse, UpgradeResponse
from tarmac.server.requestinfo import RequestInfo
from tarmac.server.security.audit.auditfile import AuditFile
from tarmac.server.security.users import User, user_info

_FLUSH_INTERVAL = 0.5
_MAX_BATCH = 4096  # lines; each hand-over to the thread contends for the interpreter lock
_MAX_BACKLOG = 8 * _MAX_BATCH
_MAX_BACKLOG_SIZE = 64 * 1024 * 1024  # characters; the limit reached first applies
_MAX_CACHED = 4_000
_MAX_CACHED_TEXT = 4_096  # characters; longer texts are not cached
_MAX_AGENT = 1_024  # as in Kubernetes
_MAX_ID = 256  # of ids chosen by clients
_MAX_URI = 8_192
_MAX_NAME = 512  # of a part of the path; no name in the API is that long
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(dict[str, Any]).decode

K = TypeVar("K", bound=Hashable)
Note = tuple[str, str, float, float]  # id, text, began, answered
TextKey = tuple[User | None, str, str, str, str, int]


def _is_id(chosen: str) -> bool:
    """Return True if a client's id can be used unescaped in a header and in a log line."""
    return len(chosen) <= _MAX_ID and chosen.isascii() and chosen.isprintable() and not {'"', "\\"} & {*chosen}


class AuditLog:
    """Records requests; `close` flushes. The file is rotated at `largest` bytes."""

    def __init__(self, path: Path, clock: Clock, randomness: Randomness, largest: int = 100 * 1024 * 1024) -> None:
        self._file = AuditFile(path, largest)
        self._clock = clock
        self._series = randomness.uuid()[:-12]  # ids are unique, not secret: a random UUID with a counter
        self._count = 0
        self._second = ""
        self._second_text = ""
        self._notes: list[Note] = []
        self._size = 0  # characters of the texts in them
        self._timer: asyncio.TimerHandle | None = None
        self._users: dict[User, str] = {}
        self._texts: dict[TextKey, str] = {}
        self._dropped = 0

    def record(self, request: Request, answer: Answer) -> None:
        """Record an answered request and assign its id."""
        self._count += 1
        chosen = request.headers.get("audit-id")
        # The client's id is written to the line without encoding: `_is_id` keeps quotes and line breaks out.
        request.audit_id = chosen if chosen and _is_id(chosen) else f"{self._series}{self._count:012x}"
        self._note(request, self._text_of(request, answer))

    def record_end(self, request: Request, answer: UpgradeResponse) -> None:
        """Record the end of a stream under the id of its start; the two times give its duration."""
        self._note(request, self._render(request, answer, ended=True))

    def _note(self, request: Request, text: str) -> None:
        now = self._clock.now()
        began = now - max(0.0, self._clock.monotonic() - request.received) if request.received else now
        notes = self._notes
        self._size += len(text)
        notes.append((request.audit_id, text, began, now))
        if len(notes) % _MAX_BATCH == 0 or self._size > _MAX_BACKLOG_SIZE:
            self._many()
        elif self._timer is None:
            # A kill within this half second loses the lines in memory: only `close` flushes them.
            self._timer = asyncio.get_running_loop().call_later(_FLUSH_INTERVAL, self._tick)

    def _text_of(self, request: Request, answer: Answer) -> str:
        if type(answer) is not Response or answer.status >= 300 or request.query or request.impersonator is not None:
            return self._render(request, answer)
        if request.annotations is not None:
            return self._render(request, answer)
        agent = request.headers.get("user-agent", "")
        if len(request.path) + len(agent) > _MAX_CACHED_TEXT:
            return self._render(request, answer)
        key = (request.user, request.info.verb, request.path, request.peer_address, agent, answer.status)
        return self._texts.get(key) or _remember(self._texts, key, lambda: self._render(request, answer))

    def _render(self, request: Request, answer: Answer, ended: bool = False) -> str:
        """Render the part between the id and the times."""
        info: RequestInfo = request.info
        goes_on = type(answer) is StreamResponse or (isinstance(answer, UpgradeResponse) and answer.reports_end)
        stage = "ResponseStarted" if goes_on and not ended else "ResponseComplete"
        uri = _cut(f"{request.path}?{request.query}" if request.query else request.path, _MAX_URI)
        client = _client(request.peer_address, request.headers.get("user-agent", ""))
        noted = f',"annotations":{_text(dict(request.annotations))}' if request.annotations else ""
        return (
            f'"stage":"{stage}",{_request(info, uri)}{self._who(request)}{client}{_target(info)}'
            f'"responseStatus":{{"metadata":{{}},{_outcome(answer)}}}{noted}'
        )

    def _lines(self) -> str:
        head = '{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Metadata","auditID":"'
        time = self._time
        return "".join(
            [
                f'{head}{audit_id}",{text},"requestReceivedTimestamp":"{time(began)}","stageTimestamp":"{time(now)}"}}\n'
                for audit_id, text, began, now in self._notes
            ]
        )

    def _time(self, seconds: float) -> str:
        """Format as `rfc3339_micro` does, caching the part that changes once a second."""
        micros = str(int(seconds * 1_000_000))
        if micros[:-6] != self._second:
            self._second = micros[:-6]
            self._second_text = rfc3339(seconds)[:-1]
        return f"{self._second_text}.{micros[-6:]}Z"

    def _tick(self) -> None:
        self._timer = None
        if not self._file.busy:
            self._flush()
        # The disk is still busy: try again later, or lines would wait for the next request.
        elif self._notes:
            self._timer = asyncio.get_running_loop().call_later(_FLUSH_INTERVAL, self._tick)

    def _many(self) -> None:
        """Flush a full batch. While the disk is slow, batches accumulate; above the limit they are dropped."""
        if not self._file.busy:
            self._flush()
        elif len(self._notes) >= _MAX_BACKLOG or self._size > _MAX_BACKLOG_SIZE:
            self._dropped += len(self._notes)
            self._notes.clear()
            self._size = 0

    def _flush(self) -> None:
        if self._notes:
            # Before the list is replaced: `_lines` reads it, and the file gets its own copy.
            self._file.write(self._lines().encode())
            self._notes = []
            self._size = 0

    @property
    def dropped(self) -> int:
        """The number of lines that never reached the disk, for metrics."""
        return self._dropped + self._file.dropped

    def close(self) -> None:
        """Flush and close the file."""
        if self._timer is not None:
            self._timer.cancel()
        self._flush()
        self._file.close()

    def _who(self, request: Request) -> str:
        if request.impersonator is None:
            return f'"user":{self._user(request.user)},'
        return f'"user":{self._user(request.impersonator)},"impersonatedUser":{self._user(request.user)},'

    def _user(self, user: User | None) -> str:
        if user is None:
            return "{}"
        return self._users.get(user) or _remember(self._users, user, lambda: _text(user_info(user)))


def _remember(memory: dict[K, str], key: K, make: Callable[[], str]) -> str:
    if len(memory) >= _MAX_CACHED:
        # All at once: an eviction per entry would cost more than rendering the texts anew.
        memory.clear()
    value = make()
    if len(value) <= _MAX_CACHED_TEXT:
        memory[key] = value
    return value


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[:longest]}...TRUNCATED"


def _text(value: Any) -> str:
    return _encode(value).decode()


def _client(address: str, agent: str) -> str:
    sources = f'"sourceIPs":[{_text(address)}],' if address else ""
    return f'{sources}"userAgent":{_text(_cut(agent, _MAX_AGENT))},' if agent else sources


def _request(info: RequestInfo, uri: str) -> str:
    return f'"requestURI":{_text(uri)},"verb":{_text(info.verb)},'


def _target(info: RequestInfo) -> str:
    if not info.is_resource:
        return ""
    fields = {
        "resource": info.resource,
        "namespace": info.namespace,
        "name": info.name,
        "apiGroup": info.group,
        "apiVersion": info.version,
        "subresource": info.subresource,
    }
    return f'"objectRef":{_text({key: _cut(value, _MAX_NAME) for key, value in fields.items() if value})},'


def _outcome(answer: Answer) -> str:
    if not isinstance(answer, Response | StreamResponse):
        return '"code":101'
    if answer.status < 400:
        return f'"code":{answer.status}'
    return f'"status":"Failure",{_reason(answer)}"code":{answer.status}'


def _reason(answer: Response | StreamResponse) -> str:
    """Return the machine-readable reason of an error. Its message is left out: it may quote the client's input."""
    # Only lists have a body in pieces, and a list is never an error.
    if not isinstance(answer, Response) or not isinstance(answer.body, bytes):
        return ""
    try:
        reason = _decode(answer.body).get("reason")
    except msgspec.MsgspecError:
        return ""
    return f'"reason":{_text(reason)},' if reason else ""
