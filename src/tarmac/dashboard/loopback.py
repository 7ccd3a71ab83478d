"""The page for this host alone: `tarmac dashboard` serves it on the loopback address and admits one browser.

The owner of the kubeconfig may use it. Other users of the host, other pages in the same browser, and DNS names that
resolve to 127.0.0.1 (DNS rebinding) must not get in. So a browser authenticates with a code that the terminal prints:
128 random bits, valid once and for a minute. It is exchanged for a token, which every request to the API carries in a
header, never in a cookie: browsers send cookies to every port of 127.0.0.1. Host must be the printed address, and
Origin, if present, the same.
"""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable

import msgspec

from tarmac.api.status import Unauthorized
from tarmac.base.clock import Clock
from tarmac.base.randomness import Randomness
from tarmac.dashboard.answers import refusal
from tarmac.dashboard.files import BELOW, DashboardFiles
from tarmac.dashboard.headers import page_headers
from tarmac.http.messages import Answer, Request, Response, bearer_token
from tarmac.server.security.authentication.subprotocols import take_token

CODE_SECONDS = 60.0
SESSION = BELOW + "session"
_RELAYED = ("/api", "/apis", "/openapi/v3", "/version", "/livez")
_NEW_CODE_HINT = "Press Enter in the terminal where tarmac dashboard runs, and open the address that it prints."

PassOn = Callable[[Request], Awaitable[Answer]]


class _Code(msgspec.Struct, forbid_unknown_fields=True):
    code: str


class _Session(msgspec.Struct):
    token: str
    namespace: str
    server: str


class Loopback:
    """Serves a browser on this host. `warn` receives messages for its owner."""

    def __init__(
        self,
        files: DashboardFiles,
        pass_on: PassOn,
        server: str,
        namespace: str,
        warn: Callable[[str], None],
        clock: Clock,
        randomness: Randomness,
    ) -> None:
        self._files = files
        self._pass_on = pass_on
        self._warn = warn
        self._clock = clock
        self._randomness = randomness
        self._session = _Session(randomness.token(32), namespace, server)
        self._code, self._until = "", 0.0
        self._spent: set[str] = set()
        self._hosts: tuple[str, ...] = ()

    def serve_at(self, port: int) -> None:
        """Accept only the loopback address with this port as Host."""
        self._hosts = (f"127.0.0.1:{port}", f"localhost:{port}")

    def new_address(self) -> str:
        """Return an address that admits one browser, once, within `CODE_SECONDS`. Invalidates the earlier code."""
        self._code, self._until = self._randomness.token(16), self._clock.monotonic() + CODE_SECONDS
        return f"http://{self._hosts[0]}{BELOW}#code={self._code}"

    def answer(self, request: Request) -> Answer | Awaitable[Answer]:
        """Handle one request."""
        origin = request.headers.get("origin")
        if request.headers.get("host") not in self._hosts:
            return refusal(request, 403, "Not under this name", f"The dashboard is at http://{self._hosts[0]}{BELOW}.")
        if origin is not None and origin.removeprefix("http://") not in self._hosts:
            return refusal(request, 403, "Not from another page", f"{origin} may not use the dashboard.")
        if request.path == SESSION:
            return self._open_session(request)
        if request.path == BELOW.rstrip("/") or request.path.startswith(BELOW):
            return self._files.answer(request)
        if not any(request.path == each or request.path.startswith(each + "/") for each in _RELAYED):
            return refusal(request, 404, "Nothing is here", f"The dashboard is at http://{self._hosts[0]}{BELOW}.")
        return self._api(request)

    def _api(self, request: Request) -> Answer | Awaitable[Answer]:
        try:
            take_token(request)
        except Unauthorized:
            return refusal(request, 401, "Unauthorized", _NEW_CODE_HINT)
        if not hmac.compare_digest(bearer_token(request).encode(), self._session.token.encode()):
            return refusal(request, 401, "Unauthorized", _NEW_CODE_HINT)
        return self._pass_on(request)

    def _open_session(self, request: Request) -> Response:
        if request.method != "POST":
            return refusal(request, 405, "Only POST", "A session is opened by posting its code.")
        try:
            code = msgspec.json.decode(request.body, type=_Code).code
        except (msgspec.DecodeError, UnicodeDecodeError):
            return refusal(request, 400, "No code", 'The body has to be {"code": "…"}.')
        if code in self._spent:
            self._warn("a used code was tried again: if that was not you, stop this command")
            return refusal(request, 410, "This code has been used", _NEW_CODE_HINT)
        if not self._code or not hmac.compare_digest(code.encode(), self._code.encode()):
            return refusal(request, 401, "Not this code", _NEW_CODE_HINT)
        self._spent.add(self._code)
        self._code, late = "", self._clock.monotonic() > self._until
        if late:
            return refusal(request, 410, "This code is too old", _NEW_CODE_HINT)
        return Response(200, msgspec.json.encode(self._session), headers=page_headers())
