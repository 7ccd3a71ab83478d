"""Reads struct types out of Go source: what OpenAPI leaves out about how Go encodes and decodes an object.

Only the shape of Kubernetes' `types.go` files is understood: top-level `type X struct {…}` with one tagged field per
line, and `type X Y`. That is enough to know, for each JSON field, its Go type (error messages name it), whether it is a
pointer and whether it is left out when empty (so whether the server shows `status: {}` or `rules: null`), and which
protobuf field it is (embedded structs are flat in JSON and nested in protobuf).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

_IMPORT = re.compile(r'^\t(?:(\w+) )?"([^"]+)"', re.MULTILINE)
_STRUCT = re.compile(r"^type (\w+) struct \{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
_NAMED = re.compile(r"^type (\w+) (=\s)?([^\s{(]+)$", re.MULTILINE)
_FIELD = re.compile(r"^\t(?:(\w+)\s+)?([^\s`/]+)\s+`([^`]*)`", re.MULTILINE)
_ENUMERATION = re.compile(r"^// \+enum\n(?://.*\n)*type (\w+) string$", re.MULTILINE)
_CONSTANT = re.compile(r'^(?:\t|const )(\w+)\s+(\w+)\s+= "([^"]*)"', re.MULTILINE)
_CONVERTED = re.compile(r'^\t(\w+)\s+= (\w+)\((?:"([^"]*)"|\w+\.(\w+))\)', re.MULTILINE)
_TAG = re.compile(r'(\w+):"([^"]*)"')


@dataclass(frozen=True)
class Field:
    """One struct field. `go_type` is as reflection prints it, without a leading pointer."""

    json: str  # empty: embedded, its fields are inlined
    number: str  # of the field in protobuf; empty: not on the wire
    go_type: str
    target: str  # full name of the type, or of what it is a list or map of
    pointer: bool
    omit_empty: bool
    omit_zero: bool
    doc: str = ""
    spaced: bool = False  # a blank line parts the comment from its generator markers


@dataclass(frozen=True)
class Constant:
    """One value of an enumeration."""

    name: str
    text: str
    doc: str
    same_as: str = ""  # the constant of another package that has the text


@dataclass
class Package:
    """One Go package: its structs, its other named types and its enumerations, by name."""

    prefix: str  # io.k8s.api.core.v1
    structs: dict[str, list[Field]] = field(default_factory=dict)
    named: dict[str, str] = field(default_factory=dict)
    docs: dict[str, str] = field(default_factory=dict)
    enumerations: set[str] = field(default_factory=set)
    constants: dict[str, list[Constant]] = field(default_factory=dict)


class GoTypes:
    """All packages that were read, addressed by the full names OpenAPI uses."""

    def __init__(self) -> None:
        self._packages: dict[str, Package] = {}

    def read(self, import_path: str, folder: Path) -> None:
        """Read one package from its folder."""
        package = Package(openapi_prefix(import_path))
        for path in sorted(folder.glob("*.go")):
            if not path.name.endswith(("_test.go", ".pb.go")) and not path.name.startswith("zz_"):
                _read_file(package, import_path, path.read_text())
        self._packages[package.prefix] = package

    def struct(self, full_name: str) -> list[Field] | None:
        """The fields of a struct as declared, embedded ones included; None if it is no struct that was read."""
        prefix, _, name = full_name.rpartition(".")
        package = self._packages.get(prefix)
        return package.structs.get(name) if package else None

    def extend(self, full_name: str, fields: list[Field]) -> None:
        """Give a struct more fields, or a package of those read one more struct."""
        prefix, _, name = full_name.rpartition(".")
        structs = self._packages[prefix].structs
        structs[name] = structs.get(name, []) + fields

    def doc(self, full_name: str) -> str:
        """The comment above a struct."""
        prefix, _, name = full_name.rpartition(".")
        return self._packages[prefix].docs.get(name, "")

    def underlying(self, full_name: str) -> str | None:
        """What a named type that is no struct stands for."""
        prefix, _, name = full_name.rpartition(".")
        package = self._packages.get(prefix)
        return package.named.get(name) if package else None

    def enumeration(self, full_name: str) -> list[Constant]:
        """The values of a type that is an enumeration, as declared; of any other type none."""
        prefix, _, name = full_name.rpartition(".")
        package = self._packages.get(prefix)
        if package is None or name not in package.enumerations:
            return []
        return [replace(each, text=self._text(each)) for each in package.constants.get(name, [])]

    def _text(self, constant: Constant) -> str:
        if not constant.same_as:
            return constant.text
        known = (each for package in self._packages.values() for group in package.constants.values() for each in group)
        return next(each.text for each in known if each.name == constant.same_as)

    def json_fields(self, full_name: str) -> Iterator[Field]:
        """The fields of a struct as JSON shows them: embedded structs flattened."""
        for item in self.struct(full_name) or []:
            if item.json:
                yield item
            else:
                yield from self.json_fields(item.target)

    def embedded(self, full_name: str, under: str = "") -> Iterator[tuple[str, str]]:
        """JSON field -> dotted names of the embedded structs it comes from, for fields that do."""
        for item in self.struct(full_name) or []:
            if not item.json:
                name = item.target.rpartition(".")[2]
                yield from self.embedded(item.target, f"{under}.{name}" if under else name)
            elif under and under != "TypeMeta":
                yield item.json, under


def openapi_prefix(import_path: str) -> str:
    """`k8s.io/api/core/v1` as OpenAPI names it: `io.k8s.api.core.v1`."""
    host, _, rest = import_path.partition("/")
    return ".".join([*reversed(host.split(".")), *rest.split("/")])


def _read_file(package: Package, import_path: str, text: str) -> None:
    imports = {alias or path.rpartition("/")[2]: path for alias, path in _IMPORT.findall(text)}
    for match in _STRUCT.finditer(text):
        name, body = match.groups()
        package.structs[name] = list(_fields(body, imports, import_path))
        package.docs[name] = _comment_before(text, match.start())
    for name, _, target in _NAMED.findall(text):
        package.named[name] = target
    package.enumerations.update(_ENUMERATION.findall(text))
    for match in (*_CONSTANT.finditer(text), *_CONVERTED.finditer(text)):
        name, kind, value, *elsewhere = match.groups("")
        constant = Constant(name, value, _comment_before(text, match.start()), *elsewhere)
        package.constants.setdefault(kind, []).append(constant)


def _fields(body: str, imports: dict[str, str], here: str) -> Iterator[Field]:
    for match in _FIELD.finditer(body):
        written, tags = match.group(2), dict(_TAG.findall(match.group(3)))
        name, *options = tags.get("json", "").split(",")
        if "json" not in tags or name == "-":
            continue
        bare = written.removeprefix("*")
        yield Field(
            json=name,
            number=tags["protobuf"].split(",")[1] if "protobuf" in tags else "",
            go_type=_reflected(bare, imports, here),
            target=_full_name(_ELEMENTS.sub("", bare), imports, here),
            pointer=written.startswith("*"),
            omit_empty="omitempty" in options,
            omit_zero="omitzero" in options,
            doc=_comment_before(body, match.start()),
            spaced=_ends_blank(body, match.start()),
        )


_ELEMENTS = re.compile(r"^(\[\]|map\[[^\]]*\])\*?")
_IDENTIFIER = re.compile(r"(?:(\w+)\.)?\b([A-Za-z]\w*)")
_BUILTIN = {"string", "bool", "int32", "int64", "int", "byte", "float64", "map", "uint32", "uint64"}


def _reflected(written: str, imports: dict[str, str], here: str) -> str:
    """`map[ResourceName]resource.Quantity` -> `map[v1.ResourceName]resource.Quantity`; `[]byte` -> `[]uint8`."""

    def qualify(match: re.Match[str]) -> str:
        alias, name = match.groups()
        if alias:
            return f"{imports[alias].rpartition('/')[2]}.{name}"
        if name == "byte":
            return "uint8"
        return name if name in _BUILTIN else f"{here.rpartition('/')[2]}.{name}"

    return _IDENTIFIER.sub(qualify, written)


def _full_name(written: str, imports: dict[str, str], here: str) -> str:
    alias, _, name = written.rpartition(".")
    return f"{openapi_prefix(imports.get(alias, here) if alias else here)}.{name}"


def _comment_before(text: str, position: int) -> str:
    """The comment block that ends right above a position, as one paragraph, without generator markers."""
    return " ".join(line for line in _comment_lines(text, position) if line and not line.startswith("+"))


def _ends_blank(text: str, position: int) -> bool:
    """Whether a blank line parts the comment from its generator markers."""
    lines = [line for line in _comment_lines(text, position) if not line.startswith("+")]
    return bool(lines) and not lines[-1]


def _comment_lines(text: str, position: int) -> list[str]:
    lines: list[str] = []
    for line in reversed(text[:position].rstrip("\n").split("\n")):
        comment = line.strip()
        if not comment.startswith("//"):
            break
        lines.append(comment.removeprefix("//").strip())
    return lines[::-1]
