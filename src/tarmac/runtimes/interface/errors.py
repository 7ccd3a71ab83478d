"""Errors of runtimes."""

from __future__ import annotations


class RuntimeFault(Exception):
    """Root of a runtime's errors.

    RuntimeFault ─┬─ RuntimeObjectNotFound   there is no such sandbox, container or image
                  ├─ RuntimeUnreachable      the runtime does not answer; the state is unknown
                  └─ RuntimeRefused         the runtime rejects the call; the message is its own
                       ├─ ImageRefused     the image cannot be provided
                       │    └─ ImageMismatch   the image contradicts its definition
                       ├─ NotOffered       not supported by this kind of container
                       ├─ TooManyStreams   the maximum of streams is open already
                       └─ WrongState       invalid in the current state
    """


class RuntimeObjectNotFound(RuntimeFault):
    """There is no such sandbox, container or image."""


class RuntimeUnreachable(RuntimeFault):
    """The runtime does not answer; the call may or may not have taken effect."""


class RuntimeRefused(RuntimeFault):
    """The runtime rejects the call. The message is its own."""


class ImageRefused(RuntimeRefused):
    """The image cannot be provided."""


class ImageMismatch(ImageRefused):
    """The image contradicts its definition in the catalogue: retrying is useless until one of the two changes."""


class NotOffered(RuntimeRefused):
    """Not supported by this kind of container: a machine has no exec, a container no power action."""


class TooManyStreams(RuntimeRefused):
    """The maximum of streams is open already."""


class WrongState(RuntimeRefused):
    """The call is invalid in the current state."""
