"""A private containerd: its configuration, its start in a network namespace, its end with all its processes."""

from __future__ import annotations

from tarmac.runtimes.containerd.config import ContainerdSettings, config_text, runsc_text, sandboxes
from tarmac.runtimes.containerd.process import (
    adopt,
    answers,
    images,
    import_image,
    own_processes,
    processes,
    start,
    stop,
)

__all__ = [
    "ContainerdSettings",
    "adopt",
    "answers",
    "config_text",
    "images",
    "import_image",
    "own_processes",
    "processes",
    "runsc_text",
    "sandboxes",
    "start",
    "stop",
]
