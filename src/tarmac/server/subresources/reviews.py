"""Reviews, which are answered and never stored: authentication, authorization, and tokens for service accounts."""

from __future__ import annotations

from collections.abc import Awaitable
from functools import partial
from typing import Protocol

from tarmac.api.decode import decode_kind
from tarmac.api.resource import Resource
from tarmac.api.schema import JsonObject
from tarmac.api.tables import load_schema
from tarmac.http.messages import Request, Response
from tarmac.server.patch import managed
from tarmac.server.printing.answers import document
from tarmac.server.printing.negotiation import check_plain
from tarmac.server.routes import Route
from tarmac.server.security.users import User
from tarmac.server.storage.options import write_options
from tarmac.server.storage.resourcestorage import ResourceStorage, WriteCall

REVIEWS = (
    ("authentication.k8s.io", "tokenreviews"),
    ("authentication.k8s.io", "selfsubjectreviews"),
    ("authorization.k8s.io", "subjectaccessreviews"),
    ("authorization.k8s.io", "localsubjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectrulesreviews"),
)
_DEFAULT_LIFETIME = 3600
_TOKEN_REQUEST = Resource(
    group="authentication.k8s.io",
    version="v1",
    kind="TokenRequest",
    plural="tokenrequests",
    singular="tokenrequest",
    namespaced=True,
    load_schema=partial(load_schema, "authentication.k8s.io", "v1", "TokenRequest"),
    native=True,
    stored=False,
)


class ReviewEndpoint(Protocol):
    """Answers reviews."""

    def answer(self, plural: str, user: User, namespace: str, review: JsonObject) -> JsonObject | Awaitable[JsonObject]:
        """Return the review with its status, or an awaitable if an external service has to be asked."""
        ...


class TokenEndpoint(Protocol):
    """Issues tokens for service accounts."""

    def issue(self, namespace: str, name: str, request: JsonObject) -> JsonObject:
        """Return the TokenRequest with its status."""
        ...


def review_route(storage: ResourceStorage, reviews: ReviewEndpoint) -> Route:
    """POST of a review."""
    return {"create": partial(_review, storage, reviews)}


def token_route(storage: ResourceStorage, issuer: TokenEndpoint) -> Route:
    """POST of `serviceaccounts/NAME/token`."""
    return {"create": partial(_token, storage, issuer)}


def _review(storage: ResourceStorage, reviews: ReviewEndpoint, request: Request) -> Response | Awaitable[Response]:
    review, call = _read(storage, storage.resource, request)
    answer = reviews.answer(storage.resource.plural, request.user, request.info.namespace, review)
    if isinstance(answer, dict):
        return document(request, answer, 201, call.warnings)
    return _answered_later(answer, request, call)


async def _answered_later(answer: Awaitable[JsonObject], request: Request, call: WriteCall) -> Response:
    return document(request, await answer, 201, call.warnings)


def _token(storage: ResourceStorage, issuer: TokenEndpoint, request: Request) -> Response:
    info = request.info
    wanted, call = _read(storage, _TOKEN_REQUEST, request)
    # Before the token is signed: it could not be taken back.
    call.admit("token", info.name, wanted)
    return document(request, issuer.issue(info.namespace, info.name, wanted), 201, call.warnings)


def _read(storage: ResourceStorage, resource: Resource, request: Request) -> tuple[JsonObject, WriteCall]:
    """Decode the review and record the client as manager of its fields."""
    check_plain(request)
    call = WriteCall(storage, request, write_options("CreateOptions", request))
    content_type = request.headers.get("content-type", "")
    kind = (resource.group, resource.version, resource.kind)
    obj, warnings = decode_kind(*kind, request.body, content_type, call.options.field_validation)
    call.warnings += warnings
    obj.setdefault("metadata", {})
    if resource is _TOKEN_REQUEST:
        spec = obj.setdefault("spec", {})
        if spec.get("expirationSeconds") is None:
            spec["expirationSeconds"] = _DEFAULT_LIFETIME
    managed.for_update(resource, None, obj, call.manager, call.info.subresource, storage.services.now())
    return obj, call
