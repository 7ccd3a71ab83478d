"""Errors of the client, below the API's own refusals.

    ClientError
    ├── TransportError        the request may or may not have reached the server
    │   ├── Disconnected      no connection, or it broke
    │   │   └── ServerUnreachable   no connection, so nothing was sent
    │   └── RequestTimeout    no response in time
    ├── GarbledReply          a response that violates the API
    ├── NotLeader             a write refused here, because leadership has ended
    └── BadKubeconfig         a configuration file that cannot be used

Everything the server itself refuses is a `tarmac.api.status.ApiError`; `api_error` makes one from a reply.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from tarmac.api import status
from tarmac.base.digits import whole_number
from tarmac.base.duration import MAX_SECONDS

_CLASSES: tuple[type[status.ApiError], ...] = (
    status.BadRequest,
    status.Unauthorized,
    status.Forbidden,
    status.NotFound,
    status.MethodNotAllowed,
    status.NotAcceptable,
    status.Conflict,
    status.Gone,
    status.TooLarge,
    status.UnsupportedMediaType,
    status.Invalid,
    status.TooManyRequests,
    status.InternalError,
    status.ServiceUnavailable,
    status.Timeout,
)
_BY_CODE = {each.code: each for each in _CLASSES}
_BY_REASON = {each.reason: each for each in (*_CLASSES, status.AlreadyExists)} | {"Gone": status.Gone}
_decode = msgspec.json.Decoder().decode


class ClientError(Exception):
    """Root of the client's own errors."""


class TransportError(ClientError):
    """The outcome of the request is unknown."""


class Disconnected(TransportError):
    """No connection, or it broke before the response was complete."""


class ServerUnreachable(Disconnected):
    """No connection could be made: nothing of the request was sent."""


class RequestTimeout(TransportError):
    """No complete response in time."""


class GarbledReply(ClientError):
    """A response that violates the API: not JSON, no metadata, an unknown event."""


class NotLeader(ClientError):
    """A write was refused before it was sent, because this process no longer leads."""


class BadKubeconfig(ClientError):
    """A kubeconfig that is missing, malformed or incomplete."""


def api_error(code: int, body: bytes, headers: Mapping[str, str] | None = None) -> status.ApiError:
    """Return the exception for a reply that is not a success.

    Proxies reply without a Status, so any body is accepted.
    """
    try:
        document = _decode(body)
    except (UnicodeError, msgspec.DecodeError):
        document = None
    if not isinstance(document, dict) or document.get("kind") != "Status":
        text = body[:200].decode(errors="replace").strip() or f"the server answered {code}"
        return _build(code, None, text, None, headers)
    return from_status(document, code, headers)


def from_status(document: dict[str, Any], code: int = 500, headers: Mapping[str, str] | None = None) -> status.ApiError:
    """Return the exception for a Status object, as found in a body or in an ERROR event of a watch."""
    code = document.get("code") or code
    return _build(code, document.get("reason"), document.get("message") or "", document.get("details"), headers)


def _build(
    code: int,
    reason: str | None,
    message: str,
    details: dict[str, Any] | None,
    headers: Mapping[str, str] | None,
) -> status.ApiError:
    kind = _BY_REASON.get(reason or "") or _BY_CODE.get(code, status.ApiError)
    return kind(message, details=details, code=code, reason=reason, headers=list((headers or {}).items()) or None)


def exceeds_quota(error: status.ApiError) -> bool:
    """True if a quota is exceeded. A Kubernetes API server names no cause: there only the text tells."""
    if not isinstance(error, status.Forbidden):
        return False
    return error.has_cause(status.QUOTA_EXCEEDED) or "exceeded quota: " in error.message


def retry_after(error: status.ApiError) -> float | None:
    """Return the seconds to wait before a retry; None when the server does not invite one."""
    for name, value in error.headers or ():
        if name.lower() == "retry-after" and (wait := whole_number(value, MAX_SECONDS)) is not None:
            return float(wait)
    seconds = (error.details or {}).get("retryAfterSeconds")
    return float(seconds) if isinstance(seconds, int) and seconds > 0 else None
