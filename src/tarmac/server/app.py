"""The API server: one function from a request to a response, for sockets and for callers in the same process alike.

    request info → authenticate → fairness → authorize → route → answer → audit, metrics

Reads return their response directly; writes return an awaitable. Every error becomes a Status: rejections are raised as
`ApiError` anywhere below, and unexpected exceptions are logged with their traceback and answered with 500.

Writes are decided on accepted state, reads show durable state. The rejection of a write is delayed until reads have
caught up with the state it was based on, so that a client told that an object exists, or has changed, can read it.
"""

from __future__ import annotations

import traceback
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, cast

from tarmac.api.status import (
    ApiError,
    InternalError,
    ServiceUnavailable,
)
from tarmac.base.clock import Clock
from tarmac.base.exhaustion import end_if_out_of_memory
from tarmac.base.log import log
from tarmac.base.metered import Metered
from tarmac.base.tasks import Tasks
from tarmac.http.messages import Answer, Request, Response, Stream, StreamResponse, UpgradeResponse
from tarmac.server.endpoints.documents import Documents
from tarmac.server.metrics import Metrics
from tarmac.server.printing.answers import finish
from tarmac.server.printing.negotiation import PLAIN, shape_of
from tarmac.server.requestinfo import RequestInfo, request_info
from tarmac.server.routes import Routes
from tarmac.server.security.authorization.authorize import refusal
from tarmac.server.security.users import ANONYMOUS, User
from tarmac.server.storage.eventttl import EventExpiry
from tarmac.server.storage.watchgroups import Hub
from tarmac.server.upgrades import in_messages, prepare_upgrade
from tarmac.store.interface import Unavailable

_log = log("server")
_READS = frozenset({"get", "list", "watch"})
_MAX_FRAMES = 30  # innermost frames to log: the traceback of an endless recursion must not fill the log


class RequestAuthenticator(Protocol):
    """Identifies the user of a request."""

    def authenticate(self, request: Request) -> User | Awaitable[User]:
        """Return the user, possibly the anonymous one, or an awaitable if an external service has to be asked.

        Raises Unauthorized, directly or when awaited.
        """
        ...

    def recognises(self, request: Request) -> bool:
        """Return whether the request carries a valid credential, as far as that can be decided without waiting."""
        ...


class ApiAuthorizer(Protocol):
    """Decides which users may do which actions."""

    def refuses(self, user: User, info: RequestInfo, query: str = "") -> str | None:
        """Return None if the action is allowed, else the reason (possibly empty)."""
        ...


class RequestQueue(Protocol):
    """Prevents one client from starving the other clients."""

    def enter(self, request: Request) -> Awaitable[None] | None:
        """Return None to proceed, or an awaitable to await first. Raises TooManyRequests."""
        ...

    def pause(self, request: Request) -> Awaitable[None] | None:
        """Like `enter`, for a request that has entered and is about to use the loop again."""
        ...

    def spend(self, request: Request, seconds: float) -> None:
        """Charge time on the event loop to the client of a request that has entered."""
        ...

    def leave(self, request: Request) -> None:
        """Release the slot of a finished request."""
        ...


class AuditSink(Protocol):
    """Records requests."""

    def record(self, request: Request, answer: Answer) -> None:
        """Record one finished request."""
        ...

    def record_end(self, request: Request, answer: UpgradeResponse) -> None:
        """Record the end of a stream; its start was recorded by `record`."""
        ...


@dataclass(frozen=True, slots=True)
class RequestGates:
    """Components that a request passes before and after it is handled."""

    authenticator: RequestAuthenticator
    authorizer: ApiAuthorizer
    fairness: RequestQueue
    audit: AuditSink


class ApiServer:
    """Handles requests. Call `start` before the first one, `stop` after the last."""

    def __init__(
        self,
        routes: Routes,
        documents: Documents,
        hub: Hub,
        expiry: EventExpiry,
        gates: RequestGates,
        metrics: Metrics,
        clock: Clock,
        settled: Callable[[], Awaitable[None] | None],
    ) -> None:
        """`settled` returns an awaitable that ends when reads show all state that writes are decided on, or None."""
        self._routes = routes
        self._documents = documents
        self._hub = hub
        self._expiry = expiry
        self._gates = gates
        self._metrics = metrics
        self._clock = clock
        self._settled = settled
        self._tasks = Tasks()

    async def start(self) -> None:
        """Start the tasks for watch deadlines and for expiry of Events. The store must have been started."""
        # Subscribes before requests are served: an Event that is written earlier would never expire.
        self._expiry.start()
        self._tasks.begin(self._hub.run(), "deadlines of watches")
        self._tasks.begin(self._expiry.run(), "expiry of events")

    async def stop(self) -> None:
        """Stop the tasks that `start` began."""
        self._expiry.stop()
        await self._tasks.close()

    def handle(self, request: Request) -> Answer | Awaitable[Answer]:
        """Handle one request; return the response or an awaitable. Never raises."""
        began = self._clock.monotonic()
        request.info = request_info(request)
        try:
            prepare_upgrade(request)
            # Before `fairness`: the turn is the user's, so credentials are checked at once. Cached checks keep that
            # cheap.
            user = self._gates.authenticator.authenticate(request)
        except Exception as error:
            return self._refuse(request, began, began, error)
        if type(user) is User:
            return self._handle_for(user, request, began, began)
        return self._handle_later(cast("Awaitable[User]", user), request, began)

    async def _handle_later(self, pending_user: Awaitable[User], request: Request, began: float) -> Answer:
        """Like `handle`, after awaiting the authentication."""
        try:
            user = await pending_user
        except Exception as error:
            return await _resolved(self._refuse(request, began, self._clock.monotonic(), error))
        return await _resolved(self._handle_for(user, request, began, self._clock.monotonic()))

    def _refuse(self, request: Request, began: float, resumed: float, error: Exception) -> Answer | Awaitable[Answer]:
        """Answer a request whose credential is refused, in the turn of its address: refusing costs time too."""
        answer, fairness = failure(request, error), self._gates.fairness
        spent = self._clock.monotonic() - resumed
        try:
            waiting = fairness.enter(request)
        except Exception as full:
            return self._record(request, began, failure(request, full))
        if waiting is not None:
            # A client with invalid credentials waits like every other: refusals at once would let a flood of them hold
            # the loop.
            return self._refuse_in_turn(waiting, request, began, spent, answer)
        fairness.spend(request, spent)
        fairness.leave(request)
        return self._record(request, began, answer)

    async def _refuse_in_turn(
        self, waiting: Awaitable[None], request: Request, began: float, spent: float, answer: Answer
    ) -> Answer:
        await waiting
        self._gates.fairness.spend(request, spent)
        self._gates.fairness.leave(request)
        return self._record(request, began, answer)

    def _handle_for(self, user: User, request: Request, began: float, resumed: float) -> Answer | Awaitable[Answer]:
        """Answer in the turn of the user. `resumed` is the time since which the request uses the loop."""
        request.user = user
        # Only after authentication: the listener gives the bodies of an authenticated connection the larger share.
        request.authenticated = user is not ANONYMOUS
        try:
            waiting = self._gates.fairness.enter(request)
        except Exception as error:
            return self._record(request, began, failure(request, error))
        if waiting is not None:
            return self._answer_in_turn(waiting, request, began)
        return self._answer_now(request, began, resumed)

    def _answer_now(self, request: Request, began: float, resumed: float) -> Answer | Awaitable[Answer]:
        fairness, answer = self._gates.fairness, self._answer(request)
        fairness.spend(request, self._clock.monotonic() - resumed)
        if type(answer) is Response:
            fairness.leave(request)
            return self._record(request, began, answer)
        if isinstance(answer, StreamResponse | UpgradeResponse):
            fairness.leave(request)
            return self._record(request, began, self._with_metrics(request, answer))
        return self._answer_later(cast("Awaitable[Answer]", answer), request, began)

    def authenticates(self, request: Request) -> bool:
        """Return whether a request carries a valid credential. Its body may not have been received yet."""
        return self._gates.authenticator.recognises(request)

    def _answer(self, request: Request) -> Answer | Awaitable[Answer]:
        try:
            return self._dispatch(request)
        except Exception as error:
            return failure(request, error)

    async def _answer_in_turn(self, waiting: Awaitable[None], request: Request, began: float) -> Answer:
        try:
            await waiting
        except Exception as error:
            return self._record(request, began, failure(request, error))
        # The time of waiting is not charged: only from here does the request use the loop.
        return await _resolved(self._answer_now(request, began, self._clock.monotonic()))

    async def _answer_later(self, awaitable: Awaitable[Answer], request: Request, began: float) -> Answer:
        metrics, info = self._metrics, request.info
        reading = info.verb in _READS
        # Paired with the finally below: a client that disconnects cancels this coroutine at its await.
        metrics.in_flight(reading, 1)
        try:
            answer = await self._metered(awaitable, request)
        except ApiError as error:
            # Reads show durable state only, so their rejections need no delay.
            answer = failure(request, error if reading else await self._settled_refusal(error))
        except Exception as error:
            answer = failure(request, error)
        finally:
            metrics.in_flight(reading, -1)
            self._gates.fairness.leave(request)
        return self._record(request, began, self._with_metrics(request, answer))

    async def _metered(self, awaitable: Awaitable[Answer], request: Request) -> Answer:
        """Await the answer when there is time for its first step, and charge every step to the client."""
        fairness = self._gates.fairness
        try:
            if (waiting := fairness.pause(request)) is not None:
                await waiting
        except BaseException:
            # A coroutine that never starts has to be closed: what it was given stays referenced otherwise, and a
            # warning is logged.
            if isinstance(awaitable, Coroutine):
                awaitable.close()
            raise
        return await Metered(awaitable, self._clock.monotonic, partial(fairness.spend, request))

    async def _settled_refusal(self, refusal: ApiError) -> Exception:
        """Delay a rejection until readers can see the state it was based on.

        If that state never becomes durable, return Unavailable instead.
        """
        waiting = self._settled()
        if waiting is None:
            return refusal
        try:
            await waiting
        except Unavailable as error:  # the state behind the rejection was never written: the rejection may be wrong
            return error
        return refusal

    def _dispatch(self, request: Request) -> Answer | Awaitable[Answer]:
        info: RequestInfo = request.info
        authorizer = self._gates.authorizer
        why = authorizer.refuses(request.user, info, request.query)
        if why is not None:
            # Before the route is looked up: a user without rights must not learn which resources exist.
            raise refusal(request.user, info, why)
        if not info.is_resource:
            return self._documents.answer(request)
        endpoint = self._routes.find(info)
        return self._documents.unknown(info) if endpoint is None else endpoint(request)

    def _record(self, request: Request, began: float, answer: Answer) -> Answer:
        code = 101 if isinstance(answer, UpgradeResponse) else answer.status
        self._metrics.finished(request.info, code, self._clock.monotonic() - began)
        audit = self._gates.audit
        audit.record(request, answer)
        if isinstance(answer, UpgradeResponse) and answer.reports_end:
            # Registered before the response is sent: a connection that breaks at once still ends in the audit log.
            answer.over = lambda: audit.record_end(request, answer)
        return answer

    def _with_metrics(self, request: Request, answer: Answer) -> Answer:
        """Return a stream with its metrics, as a WebSocket if the client asked for one; other responses unchanged."""
        if not isinstance(answer, StreamResponse):
            return answer
        start, info = answer.start, request.info

        def counted(stream: Stream) -> Callable[[], None]:
            ended, stop = self._metrics.stream_started(info), start(stream)

            def end() -> None:
                ended()
                stop()

            return end

        # `abandon` is passed on: a client that leaves before the start would otherwise leave the node's connection
        # open.
        made = StreamResponse(counted, answer.status, answer.content_type, answer.headers, answer.abandon)
        try:
            return in_messages(request, made)
        except ApiError as error:
            return failure(request, error)


async def _resolved(answer: Answer | Awaitable[Answer]) -> Answer:
    if isinstance(answer, Response | StreamResponse | UpgradeResponse):
        return answer
    return await answer


def failure(request: Request, error: Exception) -> Response:
    """Convert any exception to a Status response."""
    end_if_out_of_memory(error)
    if isinstance(error, Unavailable):
        error = ServiceUnavailable(f"the store is not available: {error}")
    elif not isinstance(error, ApiError):
        # Goes to the log only; the client gets the type and text of the exception.
        text = "".join(traceback.format_exception(error, limit=-_MAX_FRAMES))
        _log.error("request failed", method=request.method, path=request.path, traceback=text)
        error = InternalError(f"Internal error occurred: {type(error).__name__}", details=_internal(error))
    try:
        shape = shape_of(request)
    except ApiError:
        shape = PLAIN
    answer = finish(error.encoded(), shape, error.http_code, request.warnings)
    answer.headers = [*(answer.headers or ()), *(error.headers or ())]
    return answer


def _internal(error: Exception) -> dict[str, Any]:
    return {"causes": [{"message": f"{type(error).__name__}: {error}"}]}
