"""CEL expressions over claims and users: compiled with the configuration, evaluated for every new token.

The library returns a failed evaluation as a value that converts to text. So the type of a result is checked before it
is used: an error must never become a name or a group. The library is loaded with the first expression.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import Any

from tarmac.server.security.authentication.openid.mapping import Claims
from tarmac.server.security.tokens.jwt import InvalidToken
from tarmac.server.security.users import User

_EMAIL = re.compile(r"""\bclaims\s*(?:\.\s*email\b|\[\s*(['"])email\1\s*\])""")
_EMAIL_VERIFIED = re.compile(r"""\bclaims\s*(?:\.\s*email_verified\b|\[\s*(['"])email_verified\1\s*\])""")


class BadExpression(ValueError):
    """An expression that does not compile, or has a wrong type for its purpose."""


def uses_email(text: str) -> bool:
    """Return True if an expression reads the claim `email`."""
    return _EMAIL.search(text) is not None


def uses_email_verified(text: str) -> bool:
    """Return True if an expression reads the claim `email_verified`."""
    return _EMAIL_VERIFIED.search(text) is not None


def username(text: str) -> Callable[[Claims], str]:
    """Compile an expression for the user name, which is never empty. Raises BadExpression."""
    asked = _compiled("claims", text, "STRING")

    def name(claims: Claims) -> str:
        found = asked(claims, "username claim expression")
        if not isinstance(found, str):
            raise InvalidToken("oidc: error evaluating username claim expression: it must return a string")
        if not found:
            raise InvalidToken("oidc: empty username via CEL expression is not allowed")
        return found

    return name


def uid(text: str) -> Callable[[Claims], str]:
    """Compile an expression for the uid, a string. Raises BadExpression."""
    asked = _compiled("claims", text, "STRING")

    def found(claims: Claims) -> str:
        value = asked(claims, "uid claim expression")
        if not isinstance(value, str):
            raise InvalidToken("oidc: error evaluating uid claim expression: it must return a string")
        return value

    return found


def texts(text: str, what: str) -> Callable[[Claims], tuple[str, ...]]:
    """Compile an expression for a string, a list of strings, or null.

    Empty strings are dropped. Raises BadExpression.
    """
    asked = _compiled("claims", text, "STRING", "LIST", "NULL")

    def found(claims: Claims) -> tuple[str, ...]:
        value = asked(claims, what)
        listed = [] if value is None else value if isinstance(value, list) else [value]
        if not all(isinstance(each, str) for each in listed):
            raise InvalidToken(f"oidc: error evaluating {what}: it must return a string or a list of strings")
        return tuple(each for each in listed if each)

    return found


def claim_rule(text: str, message: str) -> Callable[[Claims], None]:
    """Compile a condition on the claims. Raises BadExpression."""
    asked = _compiled("claims", text, "BOOL")
    return lambda claims: _hold(asked(claims, "claim validation expression"), text, message)


def user_rule(text: str, message: str) -> Callable[[User], None]:
    """Compile a condition on the mapped user. Raises BadExpression."""
    asked = _compiled("user", text, "BOOL")

    def check(user: User) -> None:
        extra = {key: list(values) for key, values in user.extra.items()}
        told = {"username": user.name, "uid": user.uid, "groups": list(user.groups), "extra": extra}
        _hold(asked(told, "user info validation rule"), text, message)

    return check


def _hold(found: Any, text: str, message: str) -> None:
    if found is not True:
        raise InvalidToken(f"oidc: validation expression '{text}' failed: {message}")


def _compiled(variable: str, text: str, *kinds: str) -> Callable[[Claims, str], Any]:
    """Return the expression as a function of the variable's value and a description for error messages."""
    try:
        program = _environment(variable).compile(text)
    except RuntimeError as error:
        raise BadExpression(str(error).splitlines()[0]) from None
    kind = program.return_type().name().partition("<")[0]
    if kind not in (*kinds, "DYN"):
        raise BadExpression(f"must be of type {' or '.join(kinds).lower()}, but is {kind.lower()}")

    def evaluated(value: Claims, what: str) -> Any:
        try:
            found = program.eval(data={variable: value})
        # too many steps, or a number out of range
        except (RuntimeError, TypeError, ValueError, OverflowError) as error:
            raise InvalidToken(f"oidc: error evaluating {what}: {error}") from None
        if found.type().name() == "ERROR":
            raise InvalidToken(f"oidc: error evaluating {what}: {found.value()}")
        return found.plain_value()

    return evaluated


@cache
def _environment(variable: str) -> Any:
    try:
        from cel_expr_python import cel
    except ImportError:
        raise BadExpression("this server has no CEL: the package cel-expr-python is not installed") from None
    return cel.NewEnv(variables={variable: cel.Type.Map(cel.Type.STRING, cel.Type.DYN)})
