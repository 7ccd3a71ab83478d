"""Names in OpenAPI documents."""

from __future__ import annotations

import re

from tarmac.api.resource import Subresource

COMPONENTS = "#/components/schemas/"


def document_path(group: str, version: str) -> str:
    """Return `api/v1` or `apis/<group>/<version>`: the path of a group's document and the root of its URLs."""
    return f"apis/{group}/{version}" if group else f"api/{version}"


def reference(name: str) -> dict[str, str]:
    """Return a reference to a type."""
    return {"$ref": COMPONENTS + name}


def operation_group(group: str, version: str) -> str:
    """Return `ComputeDatumapisComV1alpha` for `compute.datumapis.com`, `v1alpha`."""
    return "".join(part[:1].upper() + part[1:] for part in re.split(r"[.\-]", group or "core")) + version.capitalize()


def tag(group: str, version: str) -> str:
    """Return `computeDatumapisCom_v1alpha`."""
    name = operation_group(group, "")
    return f"{name[:1].lower()}{name[1:]}_{version}"


def answer_name(subresource: Subresource) -> str:
    """Return the published name of a subresource's response type, when it is not its parent's."""
    group, version, kind = subresource.group or "", subresource.version, subresource.kind
    if subresource.answer is None:
        return f"io.k8s.api.{group}.{version}.{kind}"
    return f"{'.'.join(reversed(group.split('.')))}.{version}.{kind}"
