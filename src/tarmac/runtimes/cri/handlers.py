"""The handlers of a runtime, read from its configuration in the response to `Status`.

containerd 2.x lists its handlers; 1.7 only shows its configuration, as JSON, in a verbose response. Both name the shim
of each handler there, and the shim determines if containers see the host's kernel.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import msgspec

from tarmac.api.kubernetes.runtimeclasses import NVIDIA_HANDLER
from tarmac.runtimes.cri._generated import cri_subset_pb2 as pb
from tarmac.runtimes.interface import Handler

_OWN_KERNEL_SHIMS = ("io.containerd.runsc.", "io.containerd.kata")


def handlers(status: pb.StatusResponse) -> tuple[Handler, ...]:
    """Return the handlers in the order of their names, without the default, which has an empty name."""
    shims = _shims(status.info.get("config", ""))
    reported = {each.name: _decode_handler(each) for each in status.runtime_handlers if each.name}
    return tuple(
        replace(
            reported.get(name, Handler(name)),
            own_kernel=shims.get(name, "").startswith(_OWN_KERNEL_SHIMS),
            proxies_devices=name == NVIDIA_HANDLER,
        )
        for name in sorted({*shims, *reported})
    )


def default_handler(status: pb.StatusResponse) -> Handler:
    """Return the handler that 2.x lists under an empty name."""
    return next((_decode_handler(each) for each in status.runtime_handlers if not each.name), Handler(""))


def _decode_handler(handler: pb.RuntimeHandler) -> Handler:
    features = handler.features
    return Handler(
        handler.name,
        recursive_read_only_mounts=features.recursive_read_only_mounts,
        user_namespaces=features.user_namespaces,
    )


def sandbox_image(status: pb.StatusResponse) -> str:
    """Return the image of sandboxes, or an empty string if the configuration does not show it."""
    try:
        config: Any = msgspec.json.decode(status.info.get("config", ""))
    except msgspec.DecodeError:
        return ""
    return str(config.get("sandboxImage", "")) if isinstance(config, Mapping) else ""


def _shims(config: str) -> dict[str, str]:
    """Return the shim of each handler that the configuration shows."""
    try:
        found: Any = msgspec.json.decode(config)
    except msgspec.DecodeError:
        return {}
    for key in ("containerd", "runtimes"):
        found = found.get(key) if isinstance(found, Mapping) else None
    if not isinstance(found, Mapping):
        return {}
    return {str(name): str(each.get("runtimeType", "")) for name, each in found.items() if isinstance(each, Mapping)}
