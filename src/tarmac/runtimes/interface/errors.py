"""What a runtime says when it does not do what it was asked to."""

from __future__ import annotations


class RuntimeFault(Exception):
    """Root of a runtime's errors.

    RuntimeFault ─┬─ NotFound          there is no such sandbox, container or image
                  ├─ Unreachable       the runtime does not answer; nothing is known
                  └─ Refused           the runtime says no; the message is its own
                       ├─ ImageRefused     the image cannot be had
                       │    └─ ImageMismatch   it can, and is not what it is said to be
                       ├─ NotOffered       what runs here has no such thing
                       ├─ TooManyStreams   as many as there may be are open already
                       └─ WrongState       it makes no sense in the state it is in
    """


class NotFound(RuntimeFault):
    """There is no such sandbox, container or image."""


class Unreachable(RuntimeFault):
    """The runtime does not answer; whether the call took effect is not known."""


class RuntimeRefused(RuntimeFault):
    """The runtime says no. The message is its own."""


class ImageRefused(RuntimeRefused):
    """The image cannot be had."""


class ImageMismatch(ImageRefused):
    """The image is not what the catalogue says of it: nothing helps until one of the two has changed."""


class NotOffered(RuntimeRefused):
    """What runs here has no such thing: a machine no exec, a sandbox no power button."""


class TooManyStreams(RuntimeRefused):
    """As many as there may be are open already."""


class WrongState(RuntimeRefused):
    """It makes no sense in the state it is in."""
