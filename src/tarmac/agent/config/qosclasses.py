"""Validation of `classResources`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tarmac.agent.config.kubelet import KubeletClassResources, OfferedClassType
from tarmac.api.kubernetes.core.pods.podclasses import BLOCKIO, POD_QOS, stored_type
from tarmac.base import names


def class_findings(stated: KubeletClassResources) -> Iterator[str]:
    """Yield the errors."""
    for name, each in stated.types.items():
        path = f"classResources.types.{name}"
        if problems := names.label_key(name):
            yield f"{path}: {problems[0]}"
        elif name == POD_QOS or stored_type(name) != name:
            yield f"{path}: {'cannot be offered' if name == POD_QOS else f'write {stored_type(name)}'}"
        yield from _type_findings(path, name, each)


def _type_findings(path: str, name: str, stated: OfferedClassType) -> Iterator[str]:
    if stated.config_file and name != BLOCKIO:
        yield f"{path}.configFile: only classes of type {BLOCKIO} are defined by a file of the agent's"
    elif stated.config_file and not Path(stated.config_file).is_absolute():
        yield f"{path}.configFile: {stated.config_file!r} must be an absolute path"
    for each, offered in (stated.classes or {}).items():
        if not each or names.label_value(each):
            yield f"{path}.classes.{each}: a name has 1 to 63 letters, digits and, inside, '-', '_', '.'"
        if offered.capacity is not None and offered.capacity < 1:
            yield f"{path}.classes.{each}.capacity: {offered.capacity} must be 1 or more; without it there is no limit"
