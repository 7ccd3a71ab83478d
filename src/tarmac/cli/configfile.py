"""The configuration file of a host: one document for its server, one for its agent, read strictly.

A field is a flag, spelt in camelCase, with the same values: each value is passed to the flag's own parser. A list is a
flag's comma-separated or repeated value, a mapping its KEY=VALUE form. All mistakes are reported at once, each with its
line. Flags on the command line win.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import yaml

from tarmac.agent.config import configreader
from tarmac.base.typos import closest_name

API_VERSION: Final = "config.tarmac.dev/v1alpha1"
KINDS: Final = {"ServerConfig": "server", "AgentConfig": "agent"}
_NO_FIELDS = frozenset({"config", "help", "remove"})
_HEADER = ("apiVersion", "kind")
_NULL = "tag:yaml.org,2002:null"


class BadConfigFile(Exception):
    """The file is invalid. The message has a line for each mistake."""


@dataclass(frozen=True, slots=True)
class ConfigDocument:
    """One document of the file: its values by the flag's name in options, and every mistake in it."""

    kind: str
    line: int
    values: dict[str, Any] = field(default_factory=dict[str, Any])
    stated: dict[str, Any] = field(default_factory=dict[str, Any])  # by field, as written in the file
    findings: list[tuple[int, str]] = field(default_factory=list[tuple[int, str]])


def fields_of(parser: argparse.ArgumentParser) -> dict[str, argparse.Action]:
    """Return the fields of a document: every flag of the command, by its name in the file."""
    # argparse has no public list of a parser's flags.
    actions = parser._actions  # pyright: ignore[reportPrivateUsage]
    longest = {action: max(action.option_strings, key=len, default="") for action in actions}
    named = {_camel(flag.removeprefix("--")): action for action, flag in longest.items() if flag.startswith("--")}
    return {name: action for name, action in named.items() if action.dest not in _NO_FIELDS}


def read_file(path: Path, parsers: dict[str, argparse.ArgumentParser]) -> list[ConfigDocument]:
    """Read every document of this API group. Raises BadConfigFile with all mistakes; `parsers` are by command name."""
    documents = [_document(node, parsers) for node in _nodes(path)]
    findings = sorted([*(each for document in documents for each in document.findings), *_repeated(documents)])
    if findings:
        raise BadConfigFile("\n".join(f"{path}:{line}: {what}" for line, what in findings))
    return documents


def is_ours(path: Path) -> bool:
    """True for a file of this kind; False for a KubeletConfiguration or an unreadable file."""
    try:
        return any(_header(node).get("apiVersion") == API_VERSION for node in _nodes(path))
    except BadConfigFile:
        return False


def _nodes(path: Path) -> list[yaml.Node]:
    try:
        return [node for node in yaml.compose_all(path.read_text(), yaml.SafeLoader) if node.tag != _NULL]
    except OSError as error:
        raise BadConfigFile(f"{path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise BadConfigFile(f"{path}: this is no text: {error}") from error
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise BadConfigFile(f"{path}:{line}: this is no YAML: {error.problem}") from error


def _header(node: yaml.Node) -> dict[str, str]:
    pairs: list[tuple[Any, Any]] = node.value if isinstance(node, yaml.MappingNode) else []
    return {key.value: value.value for key, value in pairs if key.value in _HEADER}


def _document(node: yaml.Node, parsers: dict[str, argparse.ArgumentParser]) -> ConfigDocument:
    header, line = _header(node), node.start_mark.line + 1
    kind = header.get("kind", "")
    document = ConfigDocument(kind, line)
    if header.get("apiVersion") != API_VERSION or kind not in KINDS:
        wanted = f"write apiVersion {API_VERSION} and kind {' or '.join(KINDS)}"
        document.findings.append((line, f"apiVersion is {header.get('apiVersion')!r}, kind {kind!r}; {wanted}"))
        return document
    fields, seen = fields_of(parsers[KINDS[kind]]), set[str]()
    for key, value in node.value:
        name, at = str(key.value), key.start_mark.line + 1
        if name in seen:
            document.findings.append((at, f"{kind}.{name}: is there twice"))
        elif name not in _HEADER:
            _take(document, fields, name, value, at)
        seen.add(name)
    return document


def _take(document: ConfigDocument, fields: dict[str, argparse.Action], name: str, value: yaml.Node, line: int) -> None:
    place = f"{document.kind}.{name}"
    try:
        document.stated[name] = content = _constructed(value)
        if document.kind == "AgentConfig" and name == "kubelet":
            document.values["kubelet"] = _kubelet(content)
        elif action := fields.get(name):
            document.values[action.dest] = _converted(action, value, content)
        else:
            near = closest_name(name, [*fields, *(["kubelet"] if document.kind == "AgentConfig" else [])])
            raise ValueError("there is no such field" + (f"; did you mean {near}?" if near else ""))
    except (ValueError, argparse.ArgumentTypeError, configreader.BadConfig) as error:
        separator = "." if isinstance(error, configreader.BadConfig) else ": "
        document.findings.append((line, f"{place}{separator}{error}"))


def _kubelet(content: Any) -> Any:
    if not isinstance(content, dict):
        raise ValueError("must be the content of a KubeletConfiguration")  # noqa: TRY004 - a finding about the file
    return configreader.decode({**content, "apiVersion": configreader.API_VERSION, "kind": configreader.KIND})


def _constructed(node: yaml.Node) -> Any:
    for each in _mappings(node):
        names = [key.value for key, _ in each.value]
        if twice := next((name for name in names if names.count(name) > 1), None):
            raise ValueError(f"{twice} is there twice")
    loader = yaml.SafeLoader("")
    try:
        return loader.construct_document(node)
    finally:
        loader.dispose()


def _mappings(node: yaml.Node) -> Iterator[yaml.MappingNode]:
    if isinstance(node, yaml.MappingNode):
        yield node
        for _, value in node.value:
            yield from _mappings(value)
    elif isinstance(node, yaml.SequenceNode):
        for each in node.value:
            yield from _mappings(each)


def _converted(action: argparse.Action, node: yaml.Node, content: Any) -> Any:
    """Convert a value as the flag would. Raises ValueError, ArgumentTypeError."""
    if node.tag == _NULL:
        raise ValueError("is empty; leave the field out for the default")
    if action.nargs == 0:  # a flag without a value
        if not isinstance(content, bool):
            raise ValueError(f"must be true or false, is {content!r}")
        return content
    if isinstance(action, argparse._AppendAction):  # pyright: ignore[reportPrivateUsage]
        if not isinstance(node, yaml.SequenceNode):
            raise ValueError("must be a list")  # noqa: TRY004 - a finding about the file
        return [_read(action, _text(each)) for each in node.value]
    if isinstance(node, yaml.SequenceNode):
        return _read(action, ",".join(_part(each) for each in node.value))
    if isinstance(node, yaml.MappingNode):
        return _read(action, ",".join(f"{_part(key)}={_part(value)}" for key, value in node.value))
    return _read(action, _text(node))


def _read(action: argparse.Action, text: str) -> Any:
    value = action.type(text) if callable(action.type) else text
    if action.choices is not None and value not in action.choices:
        raise ValueError(f"must be one of {', '.join(map(str, action.choices))}, is {text}")
    return value


def _text(node: yaml.Node) -> str:
    """Return the text as written: the flag parses numbers and times, not YAML."""
    if not isinstance(node, yaml.ScalarNode):
        raise ValueError("must be a single value")  # noqa: TRY004 - a finding about the file
    return str(node.value)


def _part(node: yaml.Node) -> str:
    text = _text(node)
    if "," in text:
        raise ValueError(f"{text!r} has a comma in it")
    return text


def _repeated(documents: list[ConfigDocument]) -> Iterator[tuple[int, str]]:
    for at, document in enumerate(documents):
        if document.kind in [each.kind for each in documents[:at]]:
            yield document.line, f"{document.kind}: there is one already; a file has one at most"


def _camel(flag: str) -> str:
    first, *rest = flag.split("-")
    return first + "".join(word.capitalize() for word in rest)
