"""`python -m tools.kubernetes_tables`: makes `src/tarmac/api/kubernetes/_generated`, unless it is up to date."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

import msgspec

from tarmac.api.kubernetes.servedresources import BODIES, SERVED
from tools.cache import ROOT, cached, digest, say
from tools.kubernetes_tables.documents import write_documents
from tools.kubernetes_tables.modules import PINS, fetched, pinned
from tools.kubernetes_tables.published import components, read_documents, read_go_types
from tools.kubernetes_tables.resources import discovery_rows
from tools.kubernetes_tables.types import type_table
from tools.kubernetes_tables.wire import wire_table

TARGET = ROOT / "src" / "tarmac" / "api" / "kubernetes" / "_generated"
_STAMP = "made-of"


def _key() -> str:
    """Changes whenever the tables could: pins, what is served, our own fields, and this generator."""
    kinds = ROOT / "src/tarmac/api/kubernetes"
    sources = [PINS / "go.mod", PINS / "go.sum", kinds / "servedresources.py", kinds / "extensionfields.py"]
    sources += sorted(Path(__file__).parent.glob("*.py")) + sorted((ROOT / "src/tarmac/api/openapi").glob("*.py"))
    return digest(path.read_bytes() for path in sources)


def up_to_date() -> bool:
    """Whether what is there is what would be made."""
    stamp = TARGET / _STAMP
    return stamp.is_file() and stamp.read_text() == _key()


def _generate(folder: Path) -> None:
    with fetched() as modules:
        _generate_from(modules, folder)


def _generate_from(modules: dict[str, Path], folder: Path) -> None:
    say("making the tables of Kubernetes' own kinds")
    go = read_go_types(modules)
    documents = read_documents(modules["k8s.io/kubernetes"])
    published = components(documents, go)
    rows = discovery_rows(modules["k8s.io/kubernetes"])
    names = _names(published)
    kinds = _kinds(rows, names)
    types = type_table(published, go, list(kinds.values()))
    _write(folder / "types.json", {"kinds": kinds, "published": sorted(names), "types": types})
    _write(folder / "wire.json", wire_table(modules, go, set(types)))
    _write(folder / "resources.json", rows)
    write_documents(folder / "openapi", documents, published)


def _names(published: dict[str, Any]) -> dict[str, str]:
    """`group/version/Kind` -> published type name, for every kind of Kubernetes."""
    return {
        f"{gvk['group']}/{gvk['version']}/{gvk['kind']}": name
        for name, schema in published.items()
        for gvk in schema.get("x-kubernetes-group-version-kind", [])
    }


def _kinds(rows: list[dict[str, Any]], names: dict[str, str]) -> dict[str, str]:
    """The same for every kind that may be in a body."""
    wanted = [f"{row['group']}/{row['version']}/{row['kind']}" for row in rows]
    wanted += ["/".join(body) for body in BODIES]
    return {kind: names[kind] for kind in sorted(wanted)}


def _write(path: Path, content: Any) -> None:
    path.write_bytes(msgspec.json.encode(content))


def main() -> int:
    """Bring the generated tables up to date."""
    if up_to_date():
        return 0
    key = _key()
    made = cached("kubernetes-tables", pinned()["k8s.io/kubernetes"], key, _generate)
    shutil.rmtree(TARGET, ignore_errors=True)
    shutil.copytree(made, TARGET)
    (TARGET / _STAMP).write_text(key)
    say(f"Kubernetes tables: {sum(len(plurals) for plurals in SERVED.values())} resources")
    return 0


if __name__ == "__main__":
    sys.exit(main())
