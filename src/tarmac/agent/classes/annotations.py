"""Annotations about classes that runtimes read: the one that the agent sends, and those that no pod may send past it.

A runtime with a class file believes any pod that carries one of its keys. With the feature on, classes are had by
asking this node for them, where quotas and capacities count; a key that asks the runtime itself is not handed on.
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
    """The annotations of a container that put it into classes which the runtime owns."""
    return {_TO_RUNTIME[kind]: name for kind, name in classes.items() if kind in _TO_RUNTIME}


def withheld(annotations: Mapping[str, str]) -> dict[str, str]:
    """Keys that are not handed on, each with the one to use instead."""
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
