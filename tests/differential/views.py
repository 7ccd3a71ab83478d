"""Parts of large documents, where the servers have different kinds and only common ones are comparable."""

from __future__ import annotations

import json
from base64 import urlsafe_b64decode
from collections.abc import Callable

from tarmac.api.kubernetes.extensionfields import OWN_FIELDS, OWN_TYPES
from tarmac.api.kubernetes.servedresources import SERVED
from tarmac.api.tables import read_generated
from tests.differential.allowed import SUBRESOURCES_OF_OUR_OWN
from tests.differential.steps import Json

View = Callable[[Json], Json]

_METRICS = "metrics.k8s.io"
_OURS_ALONE = "io.k8s.metrics."  # the real server has these from an extension


def resources(*names: str) -> View:
    """Some entries of an APIResourceList, or all of them; neither they nor their verbs have an order."""

    def view(body: Json) -> Json:
        chosen = [each for each in body["resources"] if not names or each["name"] in names]
        return {**body, "resources": _in_order(chosen, "name")}

    return view


def groups(*names: str) -> View:
    """Some groups of an APIGroupList."""
    return lambda body: {**body, "groups": [each for each in body["groups"] if each["name"] in names]}


def discovered(group: str, *names: str) -> View:
    """Some resources of one group in aggregated discovery."""

    def view(body: Json) -> Json:
        item = next(each for each in body["items"] if each.get("metadata", {}).get("name", "") == group)
        version = item["versions"][0]
        chosen = [each for each in version["resources"] if each["resource"] in names]
        return {**body, "items": [{**item, "versions": [{**version, "resources": _in_order(chosen, "resource")}]}]}

    return view


def _in_order(entries: Json, key: str, of: str = "") -> Json:
    shared = (each for each in entries if not _is_our_own(f"{of}{each[key]}"))
    return [_entry_in_order(each) for each in sorted(shared, key=lambda each: each[key])]


def _is_our_own(name: str) -> bool:
    """A list cannot contain scales of custom resources, as that of Workloads is: no other server can offer it."""
    return name.rpartition("/")[2] in SUBRESOURCES_OF_OUR_OWN or name == "workloads/scale"


def _entry_in_order(entry: Json) -> Json:
    ordered = {**entry, "verbs": sorted(entry["verbs"])}
    below = _in_order(ordered.pop("subresources", []), "subresource", f"{entry.get('resource', '')}/")
    return {**ordered, "subresources": below} if below else ordered


def keys(*path: str) -> View:
    """The names of the fields at a path."""
    return lambda body: sorted(at(body, *path))


def index_entries(body: Json) -> Json:
    """The entries of the OpenAPI index, without groups that only one of the servers has."""
    served = {group for group, _ in SERVED} - {_METRICS} | {"compute.datumapis.com", "networking.datumapis.com"}
    return sorted(path for path in body["paths"] if path.count("/") == 0 or _group(path) in {"", *served})


def _group(path: str) -> str:
    """Return the group of a document; empty for documents outside groups."""
    return path.split("/")[1] if path.startswith("apis/") else ""


def _is_ours_alone(name: str) -> bool:
    return name.startswith(_OURS_ALONE) or name in OWN_TYPES


def _shared(name: str, schema: Json) -> Json:
    """A type without the fields that only ours has."""
    own = {field.name for field in OWN_FIELDS.get(name, ())}
    if not own or schema is None:
        return schema
    properties = {field: value for field, value in schema["properties"].items() if field not in own}
    return {**schema, "properties": properties}


def known_types(document: str, *path: str) -> View:
    """The types at a path, limited to those that ours serves: the real server has more kinds."""
    ours = at(json.loads(read_generated(f"openapi/{document}")), *path)

    def view(body: Json) -> Json:
        types = at(body, *path)
        return {name: _shared(name, types.get(name)) for name in ours if not _is_ours_alone(name)}

    return view


def at(body: Json, *path: str) -> Json:
    """Return the part of a body at a path."""
    for part in path:
        body = body[part]
    return body


def nothing(_: Json) -> Json:
    """Only the status code and the headers."""
    return None


def claims(body: Json) -> Json:
    """Return a TokenRequest with the names of its token's claims, those of kubernetes.io with their values."""
    payload = body["status"]["token"].split(".")[1]
    said = json.loads(urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    audience = ["<issuer>" if each == said["iss"] else each for each in said["aud"]]
    told = {"names": sorted(said), "audience": audience, "subject": said["sub"], "life": said["exp"] - said["iat"]}
    inner = said["kubernetes.io"]
    shown = {**told, "kubernetes.io": {key: sorted(inner[key]) if isinstance(inner[key], dict) else 0 for key in inner}}
    return {**body, "status": {**body["status"], "token": shown}}
