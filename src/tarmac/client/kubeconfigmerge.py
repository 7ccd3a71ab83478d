"""Adds the context of a local server to a user's kubeconfig, and removes it.

The context carries an extension with the server's data directory and the context that was current before: only entries
with it are ever replaced or removed. Other entries are kept as they are; comments are lost, as with kubectl.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any

from tarmac.client.errors import BadKubeconfig

EXTENSION = "tarmac.dev/up"
_NAME = "tarmac"
_SECTIONS = (("clusters", "cluster"), ("users", "user"), ("contexts", "context"))


def merged(text: str, own: str, data_dir: str) -> tuple[str, str]:
    """Return the kubeconfig with the only context of `own` as the current one, and its name. Raises BadKubeconfig.

    `data_dir` identifies the server. Its earlier entries are replaced under the same name.
    """
    document, added = _document(text), _document(own)
    known = _context_of(document, data_dir)
    name = known["name"] if known is not None else _free_name(document)
    previous = _previous(known) if known is not None else document.get("current-context") or ""
    for section, field in _SECTIONS:
        try:
            entry = dict(added[section][0][field])
        except (KeyError, IndexError, TypeError) as error:
            raise BadKubeconfig(f"the server's kubeconfig has no {field}") from error
        if section == "contexts":
            facts = {"dataDir": data_dir, "previous": previous}
            entry |= {"cluster": name, "user": name, "extensions": [{"name": EXTENSION, "extension": facts}]}
        others = [each for each in _items(document, section) if each.get("name") != name]
        document[section] = [*others, {"name": name, field: entry}]
    document |= {"apiVersion": "v1", "kind": "Config", "current-context": name}
    return _text_of(document), name


def without(text: str, data_dir: str) -> str | None:
    """Return the kubeconfig without the server's entries; empty if it had no others, None if it has none of them.

    Raises BadKubeconfig.
    """
    document = _document(text)
    known = _context_of(document, data_dir)
    if known is None:
        return None
    name = known["name"]
    for section, _ in _SECTIONS:
        document[section] = [each for each in _items(document, section) if each.get("name") != name]
    if document.get("current-context") == name:
        names = {each.get("name") for each in document["contexts"]}
        previous = _previous(known)
        document["current-context"] = previous if previous in names else ""
    others = any(value for key, value in document.items() if key not in ("apiVersion", "kind"))
    return _text_of(document) if others else ""


def has_context(text: str, data_dir: str) -> bool:
    """Return True if the kubeconfig has the server's entries. Raises BadKubeconfig."""
    return _context_of(_document(text), data_dir) is not None


def _context_of(document: dict[str, Any], data_dir: str) -> dict[str, Any] | None:
    return next((each for each in _items(document, "contexts") if _facts(each).get("dataDir") == data_dir), None)


def _facts(item: dict[str, Any]) -> dict[str, Any]:
    context = item.get("context")
    extensions = context.get("extensions") if isinstance(context, dict) else None
    for each in extensions if isinstance(extensions, list) else ():
        if isinstance(each, dict) and each.get("name") == EXTENSION and isinstance(each.get("extension"), dict):
            return each["extension"]
    return {}


def _previous(item: dict[str, Any]) -> str:
    previous = _facts(item).get("previous")
    return previous if isinstance(previous, str) else ""


def _free_name(document: dict[str, Any]) -> str:
    taken = {each.get("name") for section, _ in _SECTIONS for each in _items(document, section)}
    return next(name for name in _names() if name not in taken)


def _names() -> Iterator[str]:
    yield _NAME
    for number in count(2):
        yield f"{_NAME}-{number}"


def _items(document: dict[str, Any], section: str) -> list[dict[str, Any]]:
    """Return the entries of a section. Raises BadKubeconfig."""
    found = document.get(section) or []
    if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
        raise BadKubeconfig(f"not a kubeconfig: {section} is not a list of entries")
    if not all(isinstance(each.get("name", ""), str) for each in found):
        raise BadKubeconfig(f"not a kubeconfig: a name in {section} is not text")
    return found


def _document(text: str) -> dict[str, Any]:
    import yaml  # only for changing a kubeconfig: a server never needs the YAML parser

    try:
        document = yaml.load(text, yaml.CSafeLoader) if text.strip() else {}
    except (RecursionError, ValueError, yaml.YAMLError) as error:  # ValueError: a day such as 2026-99-99
        raise BadKubeconfig(f"not a kubeconfig: {error}") from error
    if document is None:
        return {}
    if not isinstance(document, dict):
        raise BadKubeconfig("not a kubeconfig")
    return document


def _text_of(document: dict[str, Any]) -> str:
    import yaml  # as above

    try:
        return yaml.safe_dump(document, sort_keys=False)
    except (RecursionError, ValueError) as error:  # nested too deeply, or a number of 5,000 digits
        raise BadKubeconfig(f"cannot be written again: {error}") from error
