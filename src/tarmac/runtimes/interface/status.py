"""Status of a runtime: its identity, its handlers and its readiness."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

# Classes of QoS-class resources, for runtimes that support them. A stock runtime announces none.


@dataclass(frozen=True, slots=True)
class RuntimeClassType:
    """A type announced by the runtime. `classes`: the capacity of each class, 0 for unlimited."""

    name: str
    classes: Mapping[str, int]
    immutable: bool = False


@dataclass(frozen=True, slots=True)
class RuntimeClasses:
    """All types announced by a runtime, for whole pods and for containers."""

    pod: tuple[RuntimeClassType, ...] = ()
    container: tuple[RuntimeClassType, ...] = ()


@dataclass(frozen=True, slots=True)
class Handler:
    """A way to run sandboxes, selected by RuntimeClass. `own_kernel`: containers do not see the host's kernel.

    `proxies_devices`: that kernel nevertheless passes some devices of the host through.
    """

    name: str
    own_kernel: bool = False
    proxies_devices: bool = False
    recursive_read_only_mounts: bool = False
    user_namespaces: bool = False

    @property
    def devices(self) -> bool:
        """Containers can be given devices of the host."""
        return not self.own_kernel or self.proxies_devices


@dataclass(frozen=True, slots=True)
class RuntimeStatus:
    """Identity, handlers and readiness of a runtime. `reason` and `message` explain a False.

    `default` runs sandboxes that name no handler. `strict_groups`: a container can be kept out of the groups that its
    image assigns to its user; None when the runtime does not report it.
    """

    name: str
    version: str
    ready: bool
    network_ready: bool
    handlers: tuple[Handler, ...]
    reason: str = ""
    message: str = ""
    default: Handler = Handler("")
    strict_groups: bool | None = None
    sandbox_image: str = ""  # the image of every sandbox, if the runtime reports it: must never be removed
    classes: RuntimeClasses | None = None  # None: classes are not supported, and must not be sent
