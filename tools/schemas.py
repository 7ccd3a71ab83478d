"""JSON schemas of Tarmac's kinds, for editors and validators: `python -m tools.schemas` writes `deploy/schemas`.

They are the server's own schemas (`/openapi/v3`), each complete in one file, at the paths that kubeconform looks for.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import msgspec

from tarmac.api.catalog import Catalog, build_catalog
from tarmac.api.crds import crd_documents
from tarmac.api.openapi.documents import OpenAPI
from tools.cache import ROOT

FOLDER = ROOT / "deploy" / "schemas"
_PREFIX = "#/components/schemas/"


def schemas() -> dict[str, str]:
    """Return the content of each file by its path below the folder."""
    catalog = build_catalog()
    return dict(_file(catalog, document["spec"]) for document in crd_documents(catalog))


def workload_schema() -> dict[str, Any]:
    """Return the schema of Workload, complete in itself."""
    return json.loads(schemas()["compute.datumapis.com/workload_v1alpha.json"])


def _file(catalog: Catalog, definition: dict[str, Any]) -> tuple[str, str]:
    group, kind = definition["group"], definition["names"]["kind"]
    [version] = [each["name"] for each in definition["versions"]]
    served = OpenAPI(catalog).v3(f"apis/{group}/{version}")
    assert served is not None, "every kind of ours has a document"
    components: dict[str, Any] = msgspec.json.decode(served.body)["components"]["schemas"]
    name = next(each for each in components if each.endswith(f".{version}.{kind}"))
    text = json.dumps(_complete(components, name, f"{group}/{version}", kind), indent=1) + "\n"
    return f"{group}/{kind.lower()}_{version}.json", text


def _complete(components: dict[str, Any], name: str, api_version: str, kind: str) -> dict[str, Any]:
    """Return the schema with everything that it refers to."""
    needed: dict[str, Any] = {}
    wanted = _references(components[name])
    while wanted:
        each = wanted.pop()
        if each not in needed:
            needed[each] = components[each]
            wanted |= _references(components[each])
    text = json.dumps({**components[name], "definitions": dict(sorted(needed.items()))})
    schema = json.loads(text.replace(_PREFIX, "#/definitions/"), object_hook=_or_name)
    schema["properties"]["apiVersion"]["const"] = api_version
    schema["properties"]["kind"]["const"] = kind
    schema["required"] = sorted({"apiVersion", "kind", *schema.get("required", ())})
    return {"$schema": "http://json-schema.org/draft-07/schema#", "title": kind, **schema}


def _or_name(schema: dict[str, Any]) -> dict[str, Any]:
    """Accept a name for an object that the server accepts a name for."""
    if not schema.pop("x-tarmac-or-name", False):
        return schema
    return {"description": schema.get("description", ""), "anyOf": [{"type": "string"}, schema]}


def _references(schema: Any) -> set[str]:
    return set(re.findall(rf'"\$ref": "{_PREFIX}([^"]+)"', json.dumps(schema)))


def main() -> int:
    """Write every file, and remove those of kinds that are gone."""
    found = schemas()
    for path in FOLDER.rglob("*.json"):
        if str(path.relative_to(FOLDER)) not in found:
            path.unlink()
    for name, text in found.items():
        place: Path = FOLDER / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
        print(place)
    return 0


if __name__ == "__main__":
    sys.exit(main())
