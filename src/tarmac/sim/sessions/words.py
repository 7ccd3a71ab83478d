"""Parses a line of shell: words with quotes and variables, joined by `;`, `&&`, `||` and `|`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

MAX_LINE = 16 * 1024
_TOKEN = re.compile(r"\s+|#.*|&&|\|\||[;|\n]|(?P<redirect>[12]?>>?(?:&[12])?)|(?P<other>[&<()`])")
_VARIABLE = re.compile(r"\$(?:\{(\w+)\}|(\w+)|(\?))", re.ASCII)
_KEYWORDS = frozenset({"if", "for", "while", "until", "case", "function", "{", "do", "then", "select"})


class NotSimulated(Exception):
    """The syntax exists in a shell but not here. The message names it."""


@dataclass(frozen=True, slots=True)
class Word:
    """Text in pieces; in the ones marked True, variables are replaced."""

    pieces: tuple[tuple[str, bool], ...]

    def expanded(self, variables: Mapping[str, str], most: int) -> str:
        """Return the text, with unknown variables empty. Raises NotSimulated if it has more than `most` characters."""
        found: list[str] = []
        for text in self._parts(variables):
            found.append(text)
            most -= len(text)
            if most < 0:  # checked for each part: `A=$A$A` doubles its value each time
                raise NotSimulated("a command with so much text")
        return "".join(found)

    def _parts(self, variables: Mapping[str, str]) -> Iterator[str]:
        for text, live in self.pieces:
            position = 0
            for variable in _VARIABLE.finditer(text) if live else ():
                yield text[position : variable.start()]
                yield variables.get(variable[1] or variable[2] or variable[3], "")
                position = variable.end()
            yield text[position:]


@dataclass(slots=True)
class ShellCommand:
    """A command with its words. `silent` are the streams whose output is dropped: 1 or 2."""

    words: list[Word] = field(default_factory=list[Word])
    silent: set[int] = field(default_factory=set[int])
    joined: bool = False  # 2>&1


@dataclass(slots=True)
class Pipeline:
    """Commands joined by `|`. `after` is the operator before it: empty, `&&` or `||`."""

    after: str
    commands: list[ShellCommand]


def parse(line: str) -> list[Pipeline]:
    """Return the pipelines of a line. Raises NotSimulated."""
    if len(line) > MAX_LINE:
        raise NotSimulated(f"a line of more than {MAX_LINE} characters")
    found = [Pipeline("", [ShellCommand()])]
    position = 0
    while position < len(line):
        token = _TOKEN.match(line, position)
        if token is None:
            word, position = _word(line, position)
            _add(found[-1].commands[-1], word)
            continue
        position = token.end()
        text = token[0]
        if token["other"]:
            raise NotSimulated(f"`{text}`")
        if token["redirect"]:
            position = _redirect(found[-1].commands[-1], text, line, position)
        elif text == "|":
            found[-1].commands.append(ShellCommand())
        elif text in ("&&", "||", ";", "\n"):
            found.append(Pipeline(text.strip(";\n"), [ShellCommand()]))
    kept = [each for each in found if any(command.words for command in each.commands)]
    if any(not command.words for each in kept for command in each.commands):
        raise NotSimulated("an empty command in a pipe")
    return kept


def _add(command: ShellCommand, word: Word) -> None:
    if not command.words and word.pieces and word.pieces[0][0] in _KEYWORDS:
        raise NotSimulated(f"`{word.pieces[0][0]}`")
    command.words.append(word)


def _redirect(command: ShellCommand, operator: str, line: str, position: int) -> int:
    if operator == "2>&1":
        command.joined = True
        return position
    while line[position : position + 1] == " ":
        position += 1
    target, position = _word(line, position) if position < len(line) else (Word(()), position)
    if operator.endswith(("&1", "&2")) or target.expanded({}, MAX_LINE) != "/dev/null":
        raise NotSimulated(f"`{operator}` to a file: the file system is read-only")
    command.silent.add(2 if operator.startswith("2") else 1)
    return position


_PLAIN = re.compile(r"[^\s'\"\\;|&<>()`]+")


def _word(line: str, position: int) -> tuple[Word, int]:
    """Return the word at a position, and the position behind it. Raises NotSimulated."""
    pieces: list[tuple[str, bool]] = []
    while position < len(line):
        character = line[position]
        if character in "'\"":
            end = _closing(line, position)
            text = line[position + 1 : end]
            if character == '"':
                text = text.replace('\\"', '"')
                _refuse_substitution(text)
            pieces.append((text, character == '"'))
            position = end + 1
        elif character == "\\":
            pieces.append((line[position + 1 : position + 2], False))
            position += 2
        elif plain := _PLAIN.match(line, position):
            _refuse_substitution(plain[0] + line[plain.end() : plain.end() + 1])
            pieces.append((plain[0], True))
            position = plain.end()
        else:
            break
    return Word(tuple(pieces)), position


def _refuse_substitution(text: str) -> None:
    if "$(" in text or "`" in text:
        raise NotSimulated("`$(…)`")


def _closing(line: str, position: int) -> int:
    quote, end = line[position], position + 1
    while end < len(line) and line[end] != quote:
        end += 2 if quote == '"' and line[end] == "\\" else 1
    if end >= len(line):
        raise NotSimulated(f"a quote {quote} without its end")
    return end
