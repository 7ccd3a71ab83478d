"""Review APIs: questions about identity and permission, answered and never stored.

    reviews = Reviews(authenticator, authorizer, clock, revoked)
    answer = reviews.answer("selfsubjectaccessreviews", user, namespace, review)

`review` is the decoded object; the answer is the object to send (201), or an awaitable of it.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import Any, Protocol
from urllib.parse import urlencode

from tarmac.api.identities import CERTIFICATE_NOT_BEFORE
from tarmac.api.schema import JsonObject
from tarmac.api.status import BadRequest, invalid
from tarmac.base.clock import Clock, parse_rfc3339, rfc3339
from tarmac.base.fielderrors import FieldErrors
from tarmac.base.selectors import MAX_LENGTH, FieldSelector
from tarmac.server.requestinfo import RequestInfo
from tarmac.server.security.authorization.authorize import Authorizer
from tarmac.server.security.authorization.nodeauthorizer import node_name
from tarmac.server.security.credentials import Credential
from tarmac.server.security.tokens.jwt import InvalidToken
from tarmac.server.security.users import User, user_info

_AUTHORIZATION = "authorization.k8s.io"
_OPERATORS = {"In": "=", "NotIn": "!="}
_FIELD = re.compile(r"[A-Za-z0-9_./-]+", re.ASCII)


class TokenReviewer(Protocol):
    """Authenticates tokens for TokenReviews."""

    def review(self, token: str, audiences: tuple[str, ...]) -> Credential | Awaitable[Credential]:
        """Return the token's credential, or an awaitable if keys must be fetched.

        Raises InvalidToken, now or when awaited.
        """
        ...


class Reviews:
    """Answers reviews by resource name."""

    def __init__(
        self, authenticator: TokenReviewer, authorizer: Authorizer, clock: Clock, revoked: Callable[[str, float], bool]
    ) -> None:
        """`revoked(user, not_before)` returns True if the user's certificate valid since that Unix time was revoked."""
        self._authenticator = authenticator
        self._revoked = revoked
        self._authorizer = authorizer
        self._clock = clock
        self._answers: dict[str, Callable[[User, str, JsonObject], JsonObject | Awaitable[JsonObject]]] = {
            "tokenreviews": self._token,
            "selfsubjectreviews": self._self,
            "subjectaccessreviews": self._subject_access,
            "localsubjectaccessreviews": self._local_subject_access,
            "selfsubjectaccessreviews": self._self_subject_access,
            "selfsubjectrulesreviews": self._self_subject_rules,
        }

    def answer(self, plural: str, user: User, namespace: str, review: JsonObject) -> JsonObject | Awaitable[JsonObject]:
        """Return the review with its status. Raises Invalid, BadRequest."""
        return self._answers[plural](user, namespace, review)

    def _token(self, user: User, namespace: str, review: JsonObject) -> JsonObject | Awaitable[JsonObject]:
        spec = review.get("spec") or {}
        if not spec.get("token"):
            raise BadRequest("token is required for TokenReview in authentication")
        try:
            credential = self._authenticator.review(spec["token"], tuple(spec.get("audiences") or ()))
        except InvalidToken as error:
            return _not_authenticated(review, error)
        return _authenticated(review, credential) if isinstance(credential, Credential) else _later(review, credential)

    def _self(self, user: User, namespace: str, review: JsonObject) -> JsonObject:
        metadata = {"creationTimestamp": rfc3339(self._clock.now())}
        return {**review, "metadata": metadata, "status": {"userInfo": user_info(user)}}

    def _subject_access(self, user: User, namespace: str, review: JsonObject) -> JsonObject:
        errors = FieldErrors()
        _check_attributes(review, errors)
        _check_subject(review, errors)
        _check_metadata(review, errors, allowed=())
        return self._decided(review, _subject(review), errors)

    def _local_subject_access(self, user: User, namespace: str, review: JsonObject) -> JsonObject:
        review.setdefault("metadata", {}).setdefault("namespace", namespace)
        errors = FieldErrors()
        _check_attributes(review, errors)
        _check_subject(review, errors)
        _check_metadata(review, errors, allowed=("namespace",))
        spec = review.get("spec") or {}
        asked = (spec.get("resourceAttributes") or {}).get("namespace", "")
        if spec.get("resourceAttributes") is not None and asked != review["metadata"]["namespace"]:
            # The right to ask is namespaced: about another namespace, the question would disclose rights that its user
            # may not read.
            errors.invalid("spec.resourceAttributes.namespace", asked, "must match metadata.namespace")
        if spec.get("nonResourceAttributes") is not None:
            attributes = spec["nonResourceAttributes"]
            errors.invalid("spec.nonResourceAttributes", attributes, "disallowed on this kind of request")
        return self._decided(review, _subject(review), errors)

    def _self_subject_access(self, user: User, namespace: str, review: JsonObject) -> JsonObject:
        errors = FieldErrors()
        _check_attributes(review, errors)
        _check_metadata(review, errors, allowed=())
        return self._decided(review, user, errors)

    def _decided(self, review: JsonObject, user: User, errors: FieldErrors) -> JsonObject:
        if errors:
            raise invalid(_AUTHORIZATION, "", "", errors)  # without a kind, as in Kubernetes
        if self._is_revoked(user):
            reason = f'the certificate of "{user.name}" was revoked'
            return {**review, "status": {"allowed": False, "denied": True, "reason": reason}}
        info, query = _asked(review["spec"])
        decision = self._authorizer.decide(user, info, query)
        status: JsonObject = {"allowed": decision.allowed}
        if decision.reason:
            status["reason"] = decision.reason
        return {**review, "status": status}

    def _is_revoked(self, user: User) -> bool:
        """Return True if a node asks about a client with a revoked certificate.

        An unparsable time counts as revoked.
        """
        for text in user.extra.get(CERTIFICATE_NOT_BEFORE, ()):
            try:
                not_before = parse_rfc3339(text)
            except ValueError:
                return True
            if self._revoked(user.name, not_before):
                return True
        return False

    def _self_subject_rules(self, user: User, namespace: str, review: JsonObject) -> JsonObject:
        asked = (review.get("spec") or {}).get("namespace")
        if not asked:
            raise BadRequest("no namespace on request")
        rules = [rule.source for rule in self._authorizer.rules_for(user, asked)]
        status: JsonObject = {
            "resourceRules": [_resource_rule(rule) for rule in rules if rule.get("resources")],
            "nonResourceRules": [_url_rule(rule) for rule in rules if rule.get("nonResourceURLs")],
            "incomplete": False,
        }
        if node_name(user) is not None:
            status["incomplete"] = True
            status["evaluationError"] = "node authorizer does not support user rule resolution"
        return {**review, "spec": {}, "status": status}


def _authenticated(review: JsonObject, credential: Credential) -> JsonObject:
    status: JsonObject = {"authenticated": True, "user": user_info(credential.user)}
    if credential.audiences:
        status["audiences"] = list(credential.audiences)
    return {**review, "status": status}


def _not_authenticated(review: JsonObject, error: InvalidToken) -> JsonObject:
    return {**review, "status": {"user": {}, "error": str(error)}}


async def _later(review: JsonObject, knowing: Awaitable[Credential]) -> JsonObject:
    try:
        return _authenticated(review, await knowing)
    except InvalidToken as error:
        return _not_authenticated(review, error)


def _resource_rule(rule: JsonObject) -> JsonObject:
    return {key: rule[key] for key in ("verbs", "apiGroups", "resources", "resourceNames") if rule.get(key)}


def _url_rule(rule: JsonObject) -> JsonObject:
    return {key: rule[key] for key in ("verbs", "nonResourceURLs") if rule.get(key)}


def _subject(review: JsonObject) -> User:
    spec = review.get("spec") or {}
    extra = {key: tuple(values or ()) for key, values in (spec.get("extra") or {}).items()}
    return User(spec.get("user", ""), spec.get("uid", ""), tuple(spec.get("groups") or ()), extra)


def _asked(spec: JsonObject) -> tuple[RequestInfo, str]:
    if spec.get("nonResourceAttributes") is not None:
        attributes = spec["nonResourceAttributes"]
        return RequestInfo(attributes.get("verb", ""), attributes.get("path", "")), ""
    attributes = spec["resourceAttributes"]
    fields = ("group", "version", "resource", "subresource", "namespace", "name")
    info = RequestInfo(attributes.get("verb", ""), "", True, *[attributes.get(field, "") for field in fields])
    selector = attributes.get("fieldSelector") or {}
    text = selector.get("rawSelector") or str(FieldSelector([*_requirements(selector.get("requirements") or ())]))
    # A longer one fits into no request. Without it the review asks for more, so nothing is allowed by mistake.
    return info, urlencode({"fieldSelector": text}) if 0 < len(text) <= MAX_LENGTH else ""


def _requirements(listed: Iterable[JsonObject]) -> Iterator[tuple[str, str, str]]:
    """Yield the requirements that a field selector can express.

    The remaining ones are dropped. The selector then selects more, so that no request is allowed by mistake.
    """
    for each in listed:
        operator, values = _OPERATORS.get(each.get("operator", "")), each.get("values") or ()
        if operator and len(values) == 1 and _FIELD.fullmatch(each.get("key", "")):
            yield each["key"], operator, values[0]


def _check_attributes(review: JsonObject, errors: FieldErrors) -> None:
    spec = review.get("spec") or {}
    resource, other = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    if resource is not None and other is not None:
        text = "cannot be specified in combination with resourceAttributes"
        errors.invalid("spec.nonResourceAttributes", other, text)
    if resource is None and other is None:
        text = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        errors.invalid("spec.resourceAttributes", None, text)


def _check_subject(review: JsonObject, errors: FieldErrors) -> None:
    spec = review.get("spec") or {}
    if not spec.get("user") and not spec.get("groups"):
        errors.invalid("spec.user", spec.get("user", ""), "at least one of user or group must be specified")


def _check_metadata(review: JsonObject, errors: FieldErrors, allowed: tuple[str, ...]) -> None:
    metadata: dict[str, Any] = review.get("metadata") or {}
    if any(value for key, value in metadata.items() if key not in (*allowed, "managedFields")):
        errors.invalid("metadata", metadata, "must be empty except for namespace" if allowed else "must be empty")
