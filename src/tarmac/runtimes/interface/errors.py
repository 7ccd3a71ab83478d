"""What a runtime says when it does not do what it was asked to."""

from __future__ import annotations


class RuntimeFault(Exception):
    """Root of a runtime's errors.

    RuntimeFault ─┬─ NotFound          there is no such sandbox, container or image
                  ├─ Unreachable       the runtime does not answer; nothing is known
                  └─ Refused           the runtime says no; the message is its own
                       └─ ImageRefused   the image cannot be had
    """


class NotFound(RuntimeFault):
    """There is no such sandbox, container or image."""


class Unreachable(RuntimeFault):
    """The runtime does not answer; whether the call took effect is not known."""


class RuntimeRefused(RuntimeFault):
    """The runtime says no. The message is its own."""


class ImageRefused(RuntimeRefused):
    """The image cannot be had."""
