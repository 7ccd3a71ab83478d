"""Reads manifests: YAML or JSON, one or many documents, lists expanded."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from tarmac.api.schema import JsonObject
from tarmac.base.stderr import file_problem


class BadManifest(Exception):
    """A file without a manifest."""


def read_manifests(filename: str) -> list[JsonObject]:
    """Return every object in a file; `-` is standard input. Raises BadManifest."""
    try:
        text = sys.stdin.read() if filename == "-" else Path(filename).read_text()
        documents: list[Any] = list(yaml.safe_load_all(text))
        found = [obj for document in documents if document is not None for obj in _opened(filename, document)]
    except OSError as error:
        raise BadManifest(f"{filename}: {file_problem(error)}") from error
    except (ValueError, yaml.YAMLError) as error:  # ValueError: a day 2026-99-99, a number of 5,000 digits
        raise BadManifest(f"{filename}: {error}") from error
    except RecursionError:
        raise BadManifest(f"{filename}: nested too deeply") from None
    if not found:
        raise BadManifest(f"{filename}: there is no object in it")
    return found


def _opened(filename: str, document: Any) -> Iterator[JsonObject]:
    if not isinstance(document, dict) or not document.get("kind") or not isinstance(document["kind"], str):
        raise BadManifest(f"{filename}: every document must be an object with a kind")
    if not isinstance(document.get("metadata") or {}, dict):
        raise BadManifest(f"{filename}: metadata must be an object")
    if document["kind"] == "List":
        items = document.get("items") or []
        if not isinstance(items, list):
            raise BadManifest(f"{filename}: items must be a list")
        for item in items:
            yield from _opened(filename, item)
    else:
        yield document
