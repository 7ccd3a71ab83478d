"""The protobuf table: message -> field number -> [JSON name, shape, type].

Shape is "" for one value, "[]" for a list, "{}" for a map with string keys. Type is a scalar or the published name of a
message. An empty JSON name marks an embedded struct: a message of its own on the wire, flat in JSON. Numbers and types
come from the .proto files, the JSON names from the tags of the Go types; where the two disagree, generation stops.
"""

from __future__ import annotations

import re
from pathlib import Path

from tools.kubernetes_tables.gotypes import GoTypes, openapi_prefix
from tools.kubernetes_tables.published import PACKAGES

_MESSAGE = re.compile(r"^message (\w+) \{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
_FIELD = re.compile(r"^  (optional|repeated|map<string, (\S+)>) ?(\S+)? (\w+) = (\d+);", re.MULTILINE)
_SCALARS = {"string": "string", "bytes": "bytes", "bool": "bool", "int32": "int", "int64": "int", "double": "double"}

Messages = dict[str, dict[str, list[str]]]


def wire_table(modules: dict[str, Path], go: GoTypes, wanted: set[str]) -> Messages:
    """The messages among `wanted`, which are published type names, and those they embed."""
    messages: dict[str, str] = {}
    for module, packages in PACKAGES.items():
        for package in packages:
            path = modules[module] / package / "generated.proto"
            if path.is_file():
                prefix = openapi_prefix(f"{module}/{package}")
                messages |= {f"{prefix}.{name}": body for name, body in _MESSAGE.findall(path.read_text())}
    table: Messages = {}
    waiting = sorted(wanted & messages.keys())
    while waiting:
        name = waiting.pop()
        table[name] = _message(name, messages[name], go)
        embedded = {entry[2] for entry in table[name].values() if not entry[0]}
        waiting += sorted(embedded - table.keys())
    return dict(sorted(table.items()))


def _message(name: str, body: str, go: GoTypes) -> dict[str, list[str]]:
    json_names = {field.number: field.json for field in go.struct(name) or [] if field.number}
    fields: dict[str, list[str]] = {}
    for label, map_value, written, proto_name, number in _FIELD.findall(body):
        if number not in json_names:
            raise SystemExit(f"{name}.{proto_name} is in the .proto file but not in the Go type")
        shape = "{}" if map_value else "[]" if label == "repeated" else ""
        fields[number] = [json_names[number], shape, _type(map_value or written, name, go)]
    return fields


def _type(written: str, message: str, go: GoTypes) -> str:
    if written in _SCALARS:
        return _SCALARS[written]
    if written.startswith("."):
        full = "io.k8s." + written.removeprefix(".k8s.io.")
    else:
        full = f"{message.rpartition('.')[0]}.{written}"
    # a named list of strings travels as a message of its own
    return "strings" if go.underlying(full) == "[]string" else full
