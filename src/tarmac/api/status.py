"""API errors: one class per Kubernetes Status reason, made by the server and understood by the client.

ApiError
├── BadRequest 400        ├── Gone 410 (Expired)          ├── TooManyRequests 429
├── Unauthorized 401      ├── TooLarge 413                ├── InternalError 500
├── Forbidden 403         ├── UnsupportedMediaType 415    ├── ServiceUnavailable 503
├── NotFound 404          ├── Invalid 422                 └── Timeout 504
├── MethodNotAllowed 405
├── NotAcceptable 406
└── Conflict 409 ── AlreadyExists
"""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec

from tarmac.base.fielderrors import FieldErrors

_encode = msgspec.json.Encoder().encode
_MAX_NAME = 4096  # characters
_MAX_TEXT = 256 * 1024  # characters of all causes together: each may quote a value of any length

NAMESPACE_TERMINATING = "NamespaceTerminating"
"""Cause of a rejection: the namespace is being deleted and accepts no new objects."""

QUOTA_EXCEEDED = "QuotaExceeded"
"""Cause of a rejection: a ResourceQuota has no room for the amount that `field` names."""

NO_METHOD = "the server does not allow this method on the requested resource"


class ApiError(Exception):
    """An error that becomes a Status object. `details` follows metav1.StatusDetails."""

    code: ClassVar[int] = 500
    reason: ClassVar[str] = "InternalError"

    def __init__(
        self,
        message: str,
        *,
        details: dict[str, Any] | None = None,
        code: int | None = None,
        reason: str | None = None,
        headers: list[tuple[str, str]] | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.details = details
        self.http_code = code if code is not None else self.code
        self.status_reason = reason if reason is not None else self.reason
        self.headers = headers

    def has_cause(self, reason: str) -> bool:
        """Return True if the details name such a cause."""
        return any(cause.get("reason") == reason for cause in (self.details or {}).get("causes") or ())

    def status(self) -> dict[str, Any]:
        """Return the Status object as JSON."""
        body: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
        }
        if self.status_reason:
            body["reason"] = self.status_reason
        if self.details is not None:
            body["details"] = self.details
        body["code"] = self.http_code
        return body

    def encoded(self) -> bytes:
        """Return the Status object as bytes."""
        return _encode(self.status())


class BadRequest(ApiError):
    """The request is malformed: undecodable body, contradictory parameters."""

    code = 400
    reason = "BadRequest"


class Unauthorized(ApiError):
    """The client is not authenticated."""

    code = 401
    reason = "Unauthorized"


class Forbidden(ApiError):
    """The user is not authorized, or admission rejected the request."""

    code = 403
    reason = "Forbidden"


class NotFound(ApiError):
    """No such object, resource or path."""

    code = 404
    reason = "NotFound"


class MethodNotAllowed(ApiError):
    """The resource does not have this verb."""

    code = 405
    reason = "MethodNotAllowed"


class NotAcceptable(ApiError):
    """The server can send none of the accepted content types."""

    code = 406
    reason = "NotAcceptable"


class Conflict(ApiError):
    """The object has changed since it was read, or another manager owns a field."""

    code = 409
    reason = "Conflict"


class AlreadyExists(Conflict):
    """Create of a name that is taken."""

    reason = "AlreadyExists"


class Gone(ApiError):
    """The requested history has been compacted."""

    code = 410
    reason = "Expired"


class TooLarge(ApiError):
    """The body is larger than the limit."""

    code = 413
    reason = "RequestEntityTooLarge"


class UnsupportedMediaType(ApiError):
    """The resource does not accept a body, or a patch, of this type."""

    code = 415
    reason = "UnsupportedMediaType"


class Invalid(ApiError):
    """A well-formed object violates rules; all causes are listed."""

    code = 422
    reason = "Invalid"


class TooManyRequests(ApiError):
    """The client should retry later."""

    code = 429
    reason = "TooManyRequests"


class InternalError(ApiError):
    """A fault of the server."""


class ServiceUnavailable(ApiError):
    """The store or a peer is unavailable."""

    code = 503
    reason = "ServiceUnavailable"


class Timeout(ApiError):
    """The request took too long; its outcome is unknown."""

    code = 504
    reason = "Timeout"


def qualified(plural: str, group: str) -> str:
    """Return `pods` or `workloads.compute.datumapis.com`, as messages name resources."""
    return f"{plural}.{group}" if group else plural


def _details(name: str, group: str, kind: str) -> dict[str, Any]:
    details: dict[str, Any] = {}
    if name:
        details["name"] = name
    if group:
        details["group"] = group
    if kind:
        details["kind"] = kind
    return details


def not_found(group: str, plural: str, name: str) -> NotFound:
    """Return the error for an object that does not exist."""
    return NotFound(f'{qualified(plural, group)} "{name}" not found', details=_details(name, group, plural))


def already_exists(group: str, plural: str, name: str) -> AlreadyExists:
    """Return the error for a name that is taken."""
    return AlreadyExists(f'{qualified(plural, group)} "{name}" already exists', details=_details(name, group, plural))


def misplaced() -> BadRequest:
    """Return the error for an object with another namespace than its URL."""
    return BadRequest("the namespace of the provided object does not match the namespace sent on the request")


def conflict(group: str, plural: str, name: str, why: str) -> Conflict:
    """Return the error for a write that lost a race."""
    message = f'Operation cannot be fulfilled on {qualified(plural, group)} "{name}": {why}'
    return Conflict(message, details=_details(name, group, plural))


def forbidden(group: str, plural: str, name: str, why: str) -> Forbidden:
    """Return the error for a rejection by authorization or admission."""
    resource = qualified(plural, group)
    subject = f'{resource} "{name}" is forbidden' if name else f"{resource} is forbidden"
    return Forbidden(f"{subject}: {why}", details=_details(name, group, plural))


def invalid(group: str, kind: str, name: str, errors: FieldErrors) -> Invalid:
    """Return the error for an object that violates rules; details carry one cause per rule."""
    causes: list[dict[str, str]] = []
    room = _MAX_TEXT
    for cause in errors:
        if room < 0:
            break
        causes.append({"reason": cause.reason, "message": cause.message, "field": cause.path})
        room -= len(causes[-1]["message"])
    texts = list(dict.fromkeys(f"{cause['field']}: {cause['message']}" for cause in causes))
    if errors.cut_short or len(causes) < len(errors):
        texts.append("and more")
    text = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    subject = f"{kind}.{group}" if group else kind
    name = name if len(name) <= _MAX_NAME else f"{name[:_MAX_NAME]}…"
    details = _details(name, group, kind)
    details["causes"] = causes
    return Invalid(f'{subject} "{name}" is invalid: {text}', details=details)
