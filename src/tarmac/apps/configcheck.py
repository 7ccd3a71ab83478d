"""`tarmac config check`: validates the configuration file, by itself and against this host."""

from __future__ import annotations

import argparse
import socket
from collections.abc import Iterator, Sequence
from pathlib import Path

from tarmac.apps.commands import parser
from tarmac.apps.processes import find_processes
from tarmac.base.stderr import print_error
from tarmac.cli.command import command_parsers
from tarmac.cli.configfile import BadConfigFile, ConfigDocument, read_file
from tarmac.store.open import sqlite_path

OBSTACLES = 3
_FILES = ("encryption_key_file", "sizing_provider_config", "sizing_provider_bin_dir")


def main(options: argparse.Namespace) -> int:
    """Print all errors; return 3 if there are any."""
    file: Path = options.file
    try:
        documents = documents_of(file)
    except BadConfigFile as error:
        print_error(error)
        return OBSTACLES
    found = list(clashes_of(file, documents))
    for line in found:
        print_error(line)
    if not found:
        print(f"{file} is fine: {' and '.join(each.kind for each in documents) or 'nothing in it'}")
    return OBSTACLES if found else 0


def documents_of(file: Path) -> list[ConfigDocument]:
    """Read the configuration file. Raises BadConfigFile."""
    return read_file(file, command_parsers(parser()))


def clashes_of(file: Path, documents: Sequence[ConfigDocument]) -> Iterator[str]:
    """Yield requirements of all documents that this host does not meet, with their places in the file."""
    for each in documents:
        yield from (f"{file}:{each.line}: {each.kind}.{what}" for what in clashes(each))


def clashes(document: ConfigDocument) -> Iterator[str]:
    """Yield requirements of the document that this host does not meet."""
    values = document.values
    if (listen := values.get("listen")) and (why := taken(*listen)):
        yield f"listen: {why}"
    for name in _FILES:
        if (path := values.get(name)) and not Path(path).exists():
            yield f"{_camel(name)}: there is no {path}"
    if (store := values.get("store", "")).startswith("sqlite://"):
        try:
            sqlite_path(store)
        except ValueError as error:
            yield f"store: {error}"
    if values.get("processes", 1) > 1 and not values.get("store", "").startswith("etcd://"):
        yield "processes: more than 1 needs a store that several processes can use: etcd://"
    if document.kind == "AgentConfig" and "kubeconfig" not in values:
        yield "kubeconfig: is missing; a node needs one"


def taken(host: str, port: int) -> str:
    """Return the reason why the address cannot be bound; empty if it can, or if a Tarmac server already listens."""
    if port == 0 or find_processes(lambda words: "server" in words and any("tarmac" in word for word in words[:4])):
        return ""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            return f"{host} port {port}: {error.strerror}"
    return ""


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)
