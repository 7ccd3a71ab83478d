"""What a runtime is, which handlers it offers, and whether it can work."""

from __future__ import annotations

from dataclasses import dataclass

from tarmac.runtimes.interface.classes import RuntimeClasses


@dataclass(frozen=True, slots=True)
class Handler:
    """A way to run sandboxes, chosen by RuntimeClass. `own_kernel`: containers do not see the host's kernel.

    `proxies_devices`: that kernel passes some devices of the host on all the same.
    """

    name: str
    own_kernel: bool = False
    proxies_devices: bool = False
    recursive_read_only_mounts: bool = False
    user_namespaces: bool = False

    @property
    def devices(self) -> bool:
        """Whether containers can be given devices of the host."""
        return not self.own_kernel or self.proxies_devices


@dataclass(frozen=True, slots=True)
class RuntimeStatus:
    """What the runtime is, and whether it can work. `reason` and `message` explain a False.

    `default` is what runs sandboxes that name no handler. `strict_groups`: whether a container can be kept out of the
    groups that its image puts its user into; None when the runtime does not know the question.
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
    sandbox_image: str = ""  # what every sandbox is made from, if the runtime tells: never to be removed
    classes: RuntimeClasses | None = None  # None: it does not speak of classes, and must not be told of any
