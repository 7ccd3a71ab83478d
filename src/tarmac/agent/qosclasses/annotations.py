"""Annotations about classes that runtimes read: the one that the agent sends, and those that pods may not send.

A runtime with a class file accepts its keys from any pod. With the feature on, classes are requested from this node,
where quotas and capacities count; a key for the runtime itself is not forwarded.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tarmac.api.kubernetes.core.pods.podclasses import (
    ANNOTATED_TYPES,
    container_annotation,
    default_annotation,
)

_TO_RUNTIME: Final = {kind: f"io.kubernetes.cri.{kind}-class" for kind in ANNOTATED_TYPES}
_BETA: Final = ".resources.beta.kubernetes.io/"
_OF_CONTAINER: Final = "container."


def to_runtime(classes: Mapping[str, str]) -> dict[str, str]:
    """Return the annotations that put a container into classes owned by the runtime."""
    return {_TO_RUNTIME[kind]: name for kind, name in classes.items() if kind in _TO_RUNTIME}


def withheld(annotations: Mapping[str, str]) -> dict[str, str]:
    """Return the keys that are not forwarded, each with the one to use instead."""
    return {key: use for key in annotations if (use := _instead(key))}


def _instead(key: str) -> str:
    for kind, sent in _TO_RUNTIME.items():
        if key == sent:
            return default_annotation(kind)
    kind, found, rest = key.partition(_BETA)
    if not found:
        return ""
    if kind not in ANNOTATED_TYPES:
        return f"{kind}.resources.alpha.kubernetes.io/default"
    if rest.startswith(_OF_CONTAINER):
        return container_annotation(kind, rest.removeprefix(_OF_CONTAINER))
    return default_annotation(kind)
