"""Finds the first mistake in a JSON text and describes it as Go does, with its line and column.

Runs only on text that a parser has rejected. One loop over the text with a stack of open brackets; `expect` is the
token that may come next.
"""

from __future__ import annotations

import re

_SPACE = re.compile(r"[ \t\r\n]*")
_STRING = re.compile(r'"(?:[^"\\\x00-\x1f]++|(?:\\["\\/bfnrt])++|\\u[0-9a-fA-F]{4})*+')
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_LITERALS = {"t": "true", "f": "false", "n": "null"}
_CLOSERS = {"{": "}", "[": "]"}

_CONTEXT = {
    "value": "looking for beginning of value",
    "key": "looking for beginning of object key string",
    "colon": "after object key",
    "{": "after object key:value pair",
    "[": "after array element",
    "": "after top-level value",
}


class _Mistake(Exception):
    def __init__(self, position: int, context: str) -> None:
        super().__init__()
        self.position, self.context = position, context


def describe_error(text: str) -> str:
    """Return the first mistake in a malformed text."""
    try:
        _scan(text)
    except _Mistake as mistake:
        position = mistake.position
        line, column = text.count("\n", 0, position) + 1, position - text.rfind("\n", 0, position)
        if position >= len(text):
            return "unexpected end of JSON input"
        return f"invalid character {_quoted(text[position])} {mistake.context} (line {line}, column {column})"
    return "invalid JSON"


def _scan(text: str) -> None:
    position, opened, expect = 0, list[str](), "value"
    empty = False  # the innermost bracket has just been opened, so it may close at once
    while True:
        position = _skip_space(text, position)
        character = text[position : position + 1]
        closes = bool(opened) and character == _CLOSERS[opened[-1]]
        if closes and (expect in "{[" or empty):
            opened.pop()
            position, empty = position + 1, False
        elif expect == "value":
            position, bracket = _value(text, position)
            if bracket:
                opened.append(bracket)
                expect, empty = ("key" if bracket == "{" else "value"), True
                continue
        elif expect == "key":
            position, expect, empty = _string(text, position, _CONTEXT["key"]), "colon", False
            continue
        elif expect and character == (":" if expect == "colon" else ","):
            position, expect, empty = position + 1, ("key" if expect == "{" else "value"), False
            continue
        elif not (expect == "" and not character):
            raise _Mistake(position, _CONTEXT[expect])
        else:
            return
        expect, empty = (opened[-1] if opened else ""), False


def _value(text: str, position: int) -> tuple[int, str]:
    """Return the position after a scalar or an opening bracket, and that bracket."""
    character = text[position : position + 1]
    if character in _CLOSERS:
        return position + 1, character
    if character == '"':
        return _string(text, position, ""), ""
    if character in _LITERALS:
        return _literal(text, position, _LITERALS[character]), ""
    match = _NUMBER.match(text, position)
    if match is None:
        raise _Mistake(position + (character == "-"), "in numeric literal" if character == "-" else _CONTEXT["value"])
    return match.end(), ""


def _literal(text: str, position: int, word: str) -> int:
    for offset, expected in enumerate(word):
        if text[position + offset : position + offset + 1] != expected:
            raise _Mistake(position + offset, f"in literal {word} (expecting {_quoted(expected)})")
    return position + len(word)


def _string(text: str, position: int, context: str) -> int:
    match = _STRING.match(text, position)
    if match is None:
        raise _Mistake(position, context)
    end = match.end()
    if text[end : end + 1] == '"':
        return end + 1
    if text[end : end + 1] == "\\" and end + 1 < len(text):
        raise _Mistake(end + 1, "in string escape code")
    raise _Mistake(end, "in string literal")


def _skip_space(text: str, position: int) -> int:
    match = _SPACE.match(text, position)
    return match.end() if match else position


def _quoted(character: str) -> str:
    if character == "'":
        return r"'\''"
    return repr(character) if character != '"' else "'\"'"
