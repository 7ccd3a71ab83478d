"""Questions that are answered and never stored: who is this, who may do what, and tokens for service accounts."""

from __future__ import annotations

from functools import partial
from typing import Protocol

from tarmac.api.decode import decode_kind
from tarmac.api.schema import JsonObject
from tarmac.server.http.messages import Request, Response
from tarmac.server.patch import managed
from tarmac.server.printing.answers import document
from tarmac.server.routes import Route
from tarmac.server.security.users import User
from tarmac.server.storage.options import WriteOptions, write_options
from tarmac.server.storage.served import Call, Served

REVIEWS = (
    ("authentication.k8s.io", "tokenreviews"),
    ("authentication.k8s.io", "selfsubjectreviews"),
    ("authorization.k8s.io", "subjectaccessreviews"),
    ("authorization.k8s.io", "localsubjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectrulesreviews"),
)


class Reviews(Protocol):
    """Answers reviews."""

    def answer(self, plural: str, user: User, namespace: str, review: JsonObject) -> JsonObject:
        """The review with its status."""
        ...


class TokenIssuer(Protocol):
    """Makes tokens for service accounts."""

    def issue(self, namespace: str, name: str, request: JsonObject) -> JsonObject:
        """The TokenRequest with its status."""
        ...


def review_route(served: Served, reviews: Reviews) -> Route:
    """POST of a review."""
    return {"create": partial(_review, served, reviews)}


def token_route(served: Served, issuer: TokenIssuer) -> Route:
    """POST of `serviceaccounts/NAME/token`."""
    return {"create": partial(_token, issuer)}


def _review(served: Served, reviews: Reviews, request: Request) -> Response:
    resource, info = served.resource, request.info
    review, warnings = _decode(request, resource.group, resource.version, resource.kind)
    review.setdefault("metadata", {})
    manager = Call(served, request, WriteOptions()).manager
    managed.for_update(resource, None, review, manager, "", served.services.now())
    return document(request, reviews.answer(resource.plural, request.user, info.namespace, review), 201, warnings)


def _token(issuer: TokenIssuer, request: Request) -> Response:
    info = request.info
    wanted, warnings = _decode(request, "authentication.k8s.io", "v1", "TokenRequest")
    return document(request, issuer.issue(info.namespace, info.name, wanted), 201, warnings)


def _decode(request: Request, group: str, version: str, kind: str) -> tuple[JsonObject, list[str]]:
    validation = write_options("CreateOptions", request).field_validation
    return decode_kind(group, version, kind, request.body, request.headers.get("content-type", ""), validation)
