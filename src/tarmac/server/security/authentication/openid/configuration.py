"""Strict parser of the `--authentication-config` file: kube-apiserver's AuthenticationConfiguration.

Unknown and repeated fields, and values that kube-apiserver rejects, are rejected with the field's path, all errors at
once. Unsupported features (`anonymous`, `egressSelectorType`) are rejected too: they must not appear to be in force.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, TypeVar

import msgspec

from tarmac.api.decode.jsontext import Malformed
from tarmac.api.status import TooLarge
from tarmac.base.fielderrors import FieldErrors
from tarmac.server.security.authentication.openid import expressions, mapping
from tarmac.server.security.authentication.openid.expressions import BadExpression
from tarmac.server.security.authentication.openid.issuerchecks import authorities, url_mistakes
from tarmac.server.security.authentication.openid.issuers import IssuerSettings

API_VERSION: Final = "apiserver.config.k8s.io/v1"
KIND: Final = "AuthenticationConfiguration"
MAX_FILE: Final = 1024 * 1024
_MAX_ISSUERS = 64
_KEY = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?/[-a-z0-9._~%!$&'()*+,;=:/]+", re.ASCII)
_RESERVED = re.compile(r"([^/]*\.)?(kubernetes|k8s)\.io/.*")
T = TypeVar("T")


class BadConfiguration(ValueError):
    """An invalid file; the text lists every error."""


class _Strict(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    """The base of the file's structures: unknown fields are errors."""


class _Issuer(_Strict):
    url: str = ""
    discovery_url: str = msgspec.field(name="discoveryURL", default="")
    certificate_authority: str = ""
    audiences: list[str] = []
    audience_match_policy: str = ""


class _Source(_Strict):
    claim: str = ""
    prefix: str | None = None
    expression: str = ""


class _Uid(_Strict):
    claim: str = ""
    expression: str = ""


class _Extra(_Strict):
    key: str = ""
    value_expression: str = ""


class _Mappings(_Strict):
    username: _Source = msgspec.field(default_factory=_Source)
    groups: _Source = msgspec.field(default_factory=_Source)
    uid: _Uid = msgspec.field(default_factory=_Uid)
    extra: list[_Extra] = []


class _ClaimRule(_Strict):
    claim: str = ""
    required_value: str = ""
    expression: str = ""
    message: str = ""


class _UserRule(_Strict):
    expression: str = ""
    message: str = ""


class _Authenticator(_Strict):
    issuer: _Issuer = msgspec.field(default_factory=_Issuer)
    claim_validation_rules: list[_ClaimRule] = []
    claim_mappings: _Mappings = msgspec.field(default_factory=_Mappings)
    user_validation_rules: list[_UserRule] = []


class _Configuration(_Strict):
    api_version: str = ""
    kind: str = ""
    jwt: list[_Authenticator] = []


def read_configuration(content: bytes) -> tuple[IssuerSettings, ...]:
    """Return the issuers of a file. Raises BadConfiguration."""
    found = _decoded(content)
    errors = FieldErrors()
    if (found.api_version, found.kind) != (API_VERSION, KIND):
        raise BadConfiguration(
            f"apiVersion and kind are {found.api_version!r} and {found.kind!r}; write {API_VERSION} and {KIND}"
        )
    if len(found.jwt) > _MAX_ISSUERS:
        errors.too_many("jwt", len(found.jwt), _MAX_ISSUERS)
    made = [_Reading(each, f"jwt[{number}]", errors).settings() for number, each in enumerate(found.jwt)]
    for field in ("url", "discovery_url"):
        _refuse_twins([getattr(each.issuer, field) for each in found.jwt], field, errors)
    if errors:
        raise BadConfiguration("; ".join(str(each) for each in errors))
    return tuple(each for each in made if each is not None)


def _decoded(content: bytes) -> _Configuration:
    if len(content) > MAX_FILE:
        raise BadConfiguration(f"it has more than {MAX_FILE} bytes")
    try:
        # imported here: a server without such a file needs no YAML parser
        from tarmac.api.decode.yamltext import parse_yaml

        value, repeated = parse_yaml(content)
        if repeated:
            raise BadConfiguration(f"a field is there twice: {repeated[0]}")
        return msgspec.convert(value, _Configuration)
    except Malformed as error:
        raise BadConfiguration(f"this is no YAML: {error}") from error
    except TooLarge as error:
        raise BadConfiguration(error.message) from error
    except msgspec.ValidationError as error:
        raise BadConfiguration(str(error).replace(" - at `$.", " - at `")) from error


def _refuse_twins(values: list[str], field: str, errors: FieldErrors) -> None:
    name = "discoveryURL" if field == "discovery_url" else field
    for number, value in enumerate(values):
        if value and value in values[:number]:
            errors.duplicate(f"jwt[{number}].issuer.{name}", value)


class _Reading:
    """Validates one issuer of the file: records every error, and builds settings only if there is none."""

    def __init__(self, stated: _Authenticator, path: str, errors: FieldErrors) -> None:
        self._stated = stated
        self._path = path
        self._errors = errors

    def settings(self) -> IssuerSettings | None:
        before = len(self._errors)
        issuer, path = self._stated.issuer, f"{self._path}.issuer"
        self._check_issuer(issuer, path)
        found = self._mapping()
        context = self._made(f"{path}.certificateAuthority", lambda: authorities(issuer.certificate_authority))
        if len(self._errors) > before or found is None or context is None:
            return None
        source = msgspec.json.encode(self._stated).decode()
        return IssuerSettings(
            issuer.url, frozenset(issuer.audiences), found, context, discovery_url=issuer.discovery_url,
            client_id=issuer.audiences[0], source=source,
        )  # fmt: skip

    def _check_issuer(self, issuer: _Issuer, path: str) -> None:
        errors = self._errors
        if not issuer.url:
            errors.required(f"{path}.url")
        else:
            for each in url_mistakes(issuer.url):
                errors.invalid(f"{path}.url", issuer.url, each)
        if issuer.discovery_url:
            for each in url_mistakes(issuer.discovery_url):
                errors.invalid(f"{path}.discoveryURL", issuer.discovery_url, each)
            if issuer.discovery_url.rstrip("/") == issuer.url.rstrip("/"):
                errors.invalid(f"{path}.discoveryURL", issuer.discovery_url, "must be different from url")
        if not issuer.audiences or not all(issuer.audiences):
            errors.required(f"{path}.audiences", "at least one, and none of them empty")
        if len(set(issuer.audiences)) < len(issuer.audiences):
            errors.duplicate(f"{path}.audiences", issuer.audiences)
        allowed = ("MatchAny",) if len(issuer.audiences) > 1 else ("", "MatchAny")
        if issuer.audience_match_policy not in allowed:
            errors.invalid(f"{path}.audienceMatchPolicy", issuer.audience_match_policy, "must be MatchAny")

    def _mapping(self) -> mapping.Mapping | None:
        stated, path = self._stated.claim_mappings, f"{self._path}.claimMappings"
        claim_rules = [
            self._claim_rule(number, each) for number, each in enumerate(self._stated.claim_validation_rules)
        ]
        user_rules = [self._user_rule(number, each) for number, each in enumerate(self._stated.user_validation_rules)]
        name = self._source(stated.username, f"{path}.username", mapping.username_claim, expressions.username)
        if name is None and not (stated.username.claim or stated.username.expression):
            self._errors.required(f"{path}.username", "claim or expression is required")
        groups = self._source(
            stated.groups, f"{path}.groups", mapping.groups_claim,
            lambda text: expressions.texts(text, "group claim expression"),
        )  # fmt: skip
        uid, extra = self._uid(stated.uid, f"{path}.uid"), self._extra(stated.extra, f"{path}.extra")
        self._check_email(path)
        if name is None:
            return None
        return mapping.Mapping(
            name,
            groups or (lambda _: ()),
            uid or (lambda _: ""),
            tuple(extra),
            tuple(each for each in claim_rules if each is not None),
            tuple(each for each in user_rules if each is not None),
        )

    def _source(
        self, stated: _Source, path: str, by_claim: Callable[[str, str], T], by_expression: Callable[[str], T]
    ) -> T | None:
        if stated.claim and stated.expression:
            self._errors.invalid(path, "", "claim and expression can't both be set")
        elif stated.expression:
            if stated.prefix is not None:
                self._errors.invalid(f"{path}.prefix", stated.prefix, "may not be specified when expression is set")
            return self._made(f"{path}.expression", lambda: by_expression(stated.expression))
        elif stated.claim and stated.prefix is None:
            why = "prefix is required when claim is set. It can be set to an empty string to disable prefixing"
            self._errors.required(f"{path}.prefix", why)
        elif stated.claim:
            return by_claim(stated.claim, stated.prefix or "")
        return None

    def _uid(self, stated: _Uid, path: str) -> Callable[[mapping.Claims], str] | None:
        if stated.claim and stated.expression:
            self._errors.invalid(path, "", "claim and expression can't both be set")
        if stated.expression:
            return self._made(f"{path}.expression", lambda: expressions.uid(stated.expression))
        return mapping.uid_claim(stated.claim) if stated.claim else None

    def _extra(self, stated: list[_Extra], path: str) -> list[tuple[str, Callable[[mapping.Claims], tuple[str, ...]]]]:
        made: list[tuple[str, Callable[[mapping.Claims], tuple[str, ...]]]] = []
        for number, each in enumerate(stated):
            at = f"{path}[{number}]"
            if not _KEY.fullmatch(each.key):
                self._errors.invalid(f"{at}.key", each.key, "must be a lowercase path with a domain before it")
            elif _RESERVED.fullmatch(each.key):
                why = "k8s.io, kubernetes.io and their subdomains are reserved for Kubernetes use"
                self._errors.invalid(f"{at}.key", each.key, why)
            if each.key in [other.key for other in stated[:number]]:
                self._errors.duplicate(f"{at}.key", each.key)
            found = self._expression(f"{at}.valueExpression", each.value_expression, _extra_texts)
            if found is not None:
                made.append((each.key, found))
        return made

    def _claim_rule(self, number: int, stated: _ClaimRule) -> Callable[[mapping.Claims], None] | None:
        path, errors = f"{self._path}.claimValidationRules[{number}]", self._errors
        before = self._stated.claim_validation_rules[:number]
        if stated.claim and stated.expression:
            errors.invalid(path, stated.claim, "claim and expression can't both be set")
        elif stated.claim:
            if stated.message:
                errors.invalid(f"{path}.message", stated.message, "may not be specified when claim is set")
            if stated.claim in [each.claim for each in before]:
                errors.duplicate(f"{path}.claim", stated.claim)
            return mapping.required_claim(stated.claim, stated.required_value)
        elif not stated.expression:
            errors.required(path, "claim or expression is required")
        else:
            if stated.required_value:
                errors.invalid(f"{path}.requiredValue", stated.required_value, "may not be set beside expression")
            if stated.expression in [each.expression for each in before]:
                errors.duplicate(f"{path}.expression", stated.expression)
            return self._made(f"{path}.expression", lambda: expressions.claim_rule(stated.expression, stated.message))
        return None

    def _user_rule(self, number: int, stated: _UserRule) -> Callable[..., None] | None:
        path = f"{self._path}.userValidationRules[{number}].expression"
        if stated.expression in [each.expression for each in self._stated.user_validation_rules[:number]]:
            self._errors.duplicate(path, stated.expression)
        return self._expression(path, stated.expression, lambda text: expressions.user_rule(text, stated.message))

    def _check_email(self, path: str) -> None:
        """Reject an expression that takes the user name from `email` without checking `email_verified` anywhere."""
        stated = self._stated.claim_mappings
        others = [*(each.value_expression for each in stated.extra)]
        others += [each.expression for each in self._stated.claim_validation_rules]
        name = stated.username.expression
        if expressions.uses_email(name) and not any(map(expressions.uses_email_verified, [name, *others])):
            why = "claims.email_verified must be used here, in extra or in claimValidationRules when claims.email is"
            self._errors.invalid(f"{path}.username.expression", name, why)

    def _expression(self, path: str, text: str, make: Callable[[str], T]) -> T | None:
        if not text:
            self._errors.required(path)
            return None
        return self._made(path, lambda: make(text))

    def _made(self, path: str, make: Callable[[], T]) -> T | None:
        try:
            return make()
        except (BadExpression, ValueError) as error:
            self._errors.invalid(path, "", str(error))
            return None


def _extra_texts(text: str) -> Callable[[mapping.Claims], tuple[str, ...]]:
    return expressions.texts(text, "extra claim expression")
