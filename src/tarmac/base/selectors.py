"""Label and field selectors, in Kubernetes' grammar and with its error texts.

A selector is parsed once into requirements and compiled into one predicate; parsed selectors are cached by their
text, since watchers and informers repeat the same few. Selectors are immutable.

    environment in (production,qa),tier!=frontend,partition,!old,weight>3        (labels)
    metadata.name=web,status.phase!=Running                                      (fields)
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from tarmac.base import names
from tarmac.base.boundedcache import bounded_cache

Labels = Mapping[str, str]
Predicate = Callable[[Labels], bool]

_BINARY_OPERATORS = ("in", "notin", "=", "==", "!=", "gt", "lt")
_TOKEN = re.compile(r"==|!=|[=!(),<>]|[^=!(),<>\s\0]+")
_SYMBOLS = {"==", "!=", "=", "!", "(", ")", ",", "<", ">"}
_INTEGER = re.compile(r"[+-]?[0-9]+", re.ASCII)
_CACHE_SIZE = 1024
MAX_REQUIREMENTS = 100  # each is evaluated for every object
MAX_LENGTH = 64 * 1024  # characters; as long as the head of a request


class Requirement(NamedTuple):
    """One condition on one label. Operators: = == != in notin exists ! gt lt."""

    key: str
    operator: str
    values: tuple[str, ...] = ()

    def __str__(self) -> str:
        if self.operator == "exists":
            return self.key
        if self.operator == "!":
            return f"!{self.key}"
        if self.operator in {"in", "notin"}:
            return f"{self.key} {self.operator} ({','.join(sorted(self.values))})"
        symbol = {"gt": ">", "lt": "<"}.get(self.operator, self.operator)
        return f"{self.key}{symbol}{','.join(self.values)}"

    def complaints(self) -> list[str]:
        """Return its problems, as field errors in text form."""
        problems = _invalid("key", self.key, names.label_key(self.key))
        problems += self._value_count()
        for index, value in enumerate(self.values):
            problems += _invalid(f"values[{index}][{self.key}]", value, names.label_value(value))
        return problems

    def _value_count(self) -> list[str]:
        count, shown = len(self.values), json.dumps(list(self.values), separators=(",", ":"))
        if self.operator in {"in", "notin"} and count == 0:
            return [f"values: Invalid value: {shown}: for 'in', 'notin' operators, values set can't be empty"]
        if self.operator in {"exists", "!"} and count:
            return [f"values: Invalid value: {shown}: values set must be empty for exists and does not exist"]
        if self.operator in {"gt", "lt"} and not _INTEGER.fullmatch(self.values[0]):
            detail = "for 'Gt', 'Lt' operators, the value must be an integer"
            return [f"values[0]: Invalid value: {json.dumps(self.values[0])}: {detail}"]
        return []

    def predicate(self) -> Predicate:
        """Return the condition as a function of an object's labels."""
        return _PREDICATES[self.operator](self.key, self.values)


def _invalid(path: str, value: str, messages: list[str]) -> list[str]:
    return [f"{path}: Invalid value: {json.dumps(value)}: {'; '.join(messages)}"] if messages else []


def _in(key: str, values: Sequence[str]) -> Predicate:
    if len(values) == 1:
        only = values[0]
        return lambda labels: labels.get(key) == only
    allowed = frozenset(values)
    return lambda labels: labels.get(key) in allowed


def _not_in(key: str, values: Sequence[str]) -> Predicate:
    refused = frozenset(values)
    return lambda labels: labels.get(key) not in refused


def _compare(key: str, values: Sequence[str], sign: int) -> Predicate:
    bound = int(values[0])

    def matches(labels: Labels) -> bool:
        value = labels.get(key)
        return value is not None and _INTEGER.fullmatch(value) is not None and (int(value) - bound) * sign > 0

    return matches


_PREDICATES: Final[dict[str, Callable[[str, Sequence[str]], Predicate]]] = {
    "=": _in,
    "==": _in,
    "in": _in,
    "!=": _not_in,
    "notin": _not_in,
    "exists": lambda key, _: lambda labels: key in labels,
    "!": lambda key, _: lambda labels: key not in labels,
    "gt": lambda key, values: _compare(key, values, 1),
    "lt": lambda key, values: _compare(key, values, -1),
}


class LabelMatcher:
    """A label selector. `matches` is a plain function, cheap to call per event."""

    __slots__ = ("everything", "matches", "requirements")

    def __init__(self, requirements: Sequence[Requirement], *, nothing: bool = False) -> None:
        self.requirements: Final = tuple(sorted(requirements, key=lambda requirement: requirement.key))
        self.everything: Final = not requirements and not nothing
        self.matches: Final[Predicate] = (lambda _: False) if nothing else _conjunction(self.requirements)

    @staticmethod
    def parse(text: str) -> LabelMatcher:
        """Parse `a=b,c in (d,e)`. Raises ValueError with Kubernetes' text."""
        return _parse_labels(text)

    @staticmethod
    def from_object(selector: Mapping[str, Any] | None) -> LabelMatcher:
        """Convert `{matchLabels, matchExpressions}`. None selects nothing, {} everything. Raises ValueError."""
        if selector is None:
            return NOTHING
        labels: Mapping[str, str] = selector.get("matchLabels") or {}
        requirements = [_checked(Requirement(key, "=", (value,))) for key, value in labels.items()]
        requirements += [_from_expression(expression) for expression in selector.get("matchExpressions") or ()]
        return LabelMatcher(requirements) if requirements else EVERYTHING

    def exact(self, key: str) -> str | None:
        """Return the one value that the selector requires of this label, if any."""
        for requirement in self.requirements:
            if requirement.key == key and requirement.operator in {"=", "==", "in"} and len(requirement.values) == 1:
                return requirement.values[0]
        return None

    def __str__(self) -> str:
        return ",".join(map(str, self.requirements))

    def __repr__(self) -> str:
        return f"LabelMatcher({str(self)!r})"


def _conjunction(requirements: Sequence[Requirement]) -> Predicate:
    predicates = [requirement.predicate() for requirement in requirements]
    if not predicates:
        return lambda _: True
    if len(predicates) == 1:
        return predicates[0]
    return lambda labels: all(predicate(labels) for predicate in predicates)


EVERYTHING: Final = LabelMatcher(())
NOTHING: Final = LabelMatcher((), nothing=True)

_EXPRESSION_OPERATORS = {"In": "in", "NotIn": "notin", "Exists": "exists", "DoesNotExist": "!"}


def _from_expression(expression: Mapping[str, Any]) -> Requirement:
    operator = expression.get("operator", "")
    if operator not in _EXPRESSION_OPERATORS:
        raise ValueError(f"{json.dumps(operator)} is not a valid label selector operator")
    values = tuple(expression.get("values") or ())
    return _checked(Requirement(expression.get("key", ""), _EXPRESSION_OPERATORS[operator], values))


def _checked(requirement: Requirement) -> Requirement:
    problems = requirement.complaints()
    if problems:
        raise ValueError(problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]")
    return requirement


@bounded_cache(_CACHE_SIZE)
def _parse_labels(text: str) -> LabelMatcher:
    _check_length(text)
    requirements = _Parser(text).requirements()
    return LabelMatcher(requirements) if requirements else EVERYTHING


def _check_length(text: str) -> None:
    if len(text) > MAX_LENGTH:  # before parsing: a set of a million values holds the loop for half a second
        raise ValueError(f"a selector may have {MAX_LENGTH} characters, this one has {len(text)}")


def _check_count(requirements: Sequence[object]) -> None:
    if len(requirements) >= MAX_REQUIREMENTS:
        raise ValueError(f"a selector may have {MAX_REQUIREMENTS} requirements")


class _Parser:
    """Recursive descent over the tokens of one selector. "" is the end of the text."""

    def __init__(self, text: str) -> None:
        self._tokens = _TOKEN.findall(text)
        self._position = 0

    def _peek(self) -> str:
        return self._tokens[self._position] if self._position < len(self._tokens) else ""

    def _take(self) -> str:
        token = self._peek()
        self._position += 1
        return token

    @staticmethod
    def _is_identifier(token: str) -> bool:
        return token != "" and token not in _SYMBOLS

    def requirements(self) -> list[Requirement]:
        """Parse the whole selector."""
        found: list[Requirement] = []
        while self._peek():
            if not (self._peek() == "!" or self._is_identifier(self._peek())):
                raise ValueError(f"found '{self._peek()}', expected: !, identifier, or 'end of string'")
            _check_count(found)
            try:
                found.append(self._requirement())
            except ValueError as error:
                raise ValueError(f"unable to parse requirement: {error}") from None
            separator = self._take()
            if separator == "":
                break
            if separator != ",":
                raise ValueError(f"found '{separator}', expected: ',' or 'end of string'")
            if not (self._peek() == "!" or self._is_identifier(self._peek())):
                raise ValueError(f"found '{self._peek()}', expected: identifier after ','")
        return found

    def _requirement(self) -> Requirement:
        negated = self._peek() == "!"
        if negated:
            self._take()
        key = self._take()
        if not self._is_identifier(key):
            raise ValueError(f"found '{key}', expected: identifier")
        problems = _invalid("<nil>", key, names.label_key(key))
        if problems:
            raise ValueError(problems[0])
        if negated:
            return Requirement(key, "!")
        if self._peek() in {"", ","}:
            return Requirement(key, "exists")
        operator = self._operator()
        values = self._set() if operator in {"in", "notin"} else (self._exact(),)
        return _checked(Requirement(key, operator, values))

    def _operator(self) -> str:
        token = self._take()
        operator = {">": "gt", "<": "lt"}.get(token, token)
        if token in {"gt", "lt"} or operator not in _BINARY_OPERATORS:
            raise ValueError(f"found '{token}', expected: {', '.join(_BINARY_OPERATORS)}")
        return operator

    def _exact(self) -> str:
        if self._peek() in {"", ","}:
            return ""
        token = self._take()
        if not self._is_identifier(token):
            raise ValueError(f"found '{token}', expected: identifier")
        return token

    def _set(self) -> tuple[str, ...]:
        token = self._take()
        if token != "(":
            raise ValueError(f"found '{token}' expected: '('")
        first = self._peek()
        if first == ")":
            self._take()
            return ("",)
        if not (first == "," or self._is_identifier(first)):
            raise ValueError(f"found '{first}', expected: ',', ')' or identifier")
        return tuple(sorted(self._members()))

    def _members(self) -> set[str]:
        """Parse the members and the closing parenthesis. Commas with nothing between them stand for the empty value."""
        found: set[str] = set()
        while True:
            token = self._take()
            if self._is_identifier(token):
                found.add(token)
                if self._peek() not in {",", ")"}:
                    raise ValueError(f"found '{self._peek()}', expected: ',' or ')'")
            elif token == ",":
                if not found or self._peek() in {",", ")"}:
                    found.add("")
            elif token == ")":
                return found
            else:
                raise ValueError(f"found '{token}', expected: ',', or identifier")


class FieldSelector:
    """A field selector. `requirements` are (field, "=" or "!=", value)."""

    __slots__ = ("everything", "requirements")

    def __init__(self, requirements: Sequence[tuple[str, str, str]]) -> None:
        self.requirements: Final = list(requirements)
        self.everything: Final = not requirements

    @staticmethod
    def parse(text: str) -> FieldSelector:
        """Parse `metadata.name=a,status.phase!=b`; `\\`, `,` and `=` in values are escaped by `\\`.

        Raises ValueError.
        """
        return _parse_fields(text)

    def matches(self, values: Mapping[str, str]) -> bool:
        """True if an object with these field values is selected. A missing field is the empty string."""
        return all((values.get(field, "") == value) == (op == "=") for field, op, value in self.requirements)

    def exact(self, field: str) -> str | None:
        """Return the one value that the selector requires of this field, if any."""
        return next((value for name, op, value in self.requirements if name == field and op == "="), None)

    def __str__(self) -> str:
        return ",".join(f"{field}{op}{_ESCAPED.sub(_escape, value)}" for field, op, value in self.requirements)


_TERM_OPERATOR = re.compile(r"!=|==|=")
_ESCAPED = re.compile(r"[\\,=]")


def _escape(match: re.Match[str]) -> str:
    return "\\" + match[0]


@bounded_cache(_CACHE_SIZE)
def _parse_fields(text: str) -> FieldSelector:
    _check_length(text)
    requirements: list[tuple[str, str, str]] = []
    for term in sorted(filter(None, re.findall(r"(?:\\.|[^,\\]|\\$)+", text, re.DOTALL))):
        operator = _TERM_OPERATOR.search(term)
        if operator is None:
            raise ValueError(f"invalid selector: '{text}'; can't understand '{term}'")
        field, value = term[: operator.start()], _unescape(term[operator.end() :])
        if field or value:
            _check_count(requirements)
            requirements.append((field, "!=" if operator[0] == "!=" else "=", value))
    return FieldSelector(requirements)


def _unescape(value: str) -> str:
    def literal(match: re.Match[str]) -> str:
        found = match[0]
        if found in {",", "="}:
            raise ValueError(f"invalid field selector: unescaped character in value: {ord(found)}")
        if found[1:] not in {"\\", ",", "="}:
            raise ValueError(f"invalid field selector: invalid escape sequence: {found}")
        return found[1:]

    return re.sub(r"\\.|\\$|[,=]", literal, value, flags=re.DOTALL)
