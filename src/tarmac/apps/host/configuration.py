"""Writes the host's configuration file. Existing fields stay; missing ones are added."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import yaml

from tarmac.apps.commands import parser
from tarmac.cli.command import command_parsers
from tarmac.cli.configfile import API_VERSION, BadConfigFile, read_file
from tarmac.server.security.keys.privatefiles import write_private

Fields = Mapping[str, Any]


def documents_in(path: Path) -> dict[str, dict[str, Any]]:
    """Return the fields of each document by kind; empty without a file. Raises BadConfigFile."""
    if not path.exists():
        return {}
    return {each.kind: dict(each.stated) for each in read_file(path, command_parsers(parser()))}


def have_document(path: Path, kind: str, wanted: Fields) -> list[str]:
    """Ensure a document with these fields. Existing values win; return a line for each that differs.

    Raises BadConfigFile, OSError.
    """
    documents = documents_in(path)
    known = documents.get(kind, {})
    documents[kind] = {**wanted, **known}
    if documents[kind] != known:
        _write(path, documents)
    return [
        f"{path}: {kind}.{name} is {known[name]!r} and stays; {value!r} was asked for"
        for name, value in wanted.items()
        if name in known and known[name] != value
    ]


def replace_field(path: Path, kind: str, name: str, value: str) -> None:
    """Change a field; all other lines of the file stay as they are. Raises BadConfigFile, OSError."""
    lines = path.read_text().splitlines(keepends=True)
    document = next(each for each in read_file(path, command_parsers(parser())) if each.kind == kind)
    start = document.line - 1
    end = next((at for at in range(start + 1, len(lines)) if lines[at].startswith("---")), len(lines))
    known = next((at for at in range(start, end) if lines[at].startswith(f"{name}:")), None)
    line = f"{name}: {msgspec.json.encode(value).decode()}\n"  # JSON strings are valid YAML
    if known is None:
        lines.insert(start, line)
    elif yaml.safe_load(lines[known]) == {name: document.stated[name]}:
        lines[known] = line
    else:  # the value spans several lines: rewrite the file
        _write(path, {**documents_in(path), kind: {**document.stated, name: value}})
        return
    write_private(path, "".join(lines).encode())


def drop_document(path: Path, kind: str) -> None:
    """Remove a document, and the file with the last one. Raises OSError."""
    try:
        documents = documents_in(path)
    except BadConfigFile:
        documents = {}  # an unreadable file has no usable documents
    documents.pop(kind, None)
    if documents:
        _write(path, documents)
    else:
        path.unlink(missing_ok=True)


def _write(path: Path, documents: Mapping[str, Fields]) -> None:
    path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    texts = [
        yaml.safe_dump({"apiVersion": API_VERSION, "kind": kind, **fields}, sort_keys=False)
        for kind, fields in documents.items()
    ]
    write_private(path, "---\n".join(texts).encode())
