"""The common ground of Kubernetes' simpler kinds."""

from __future__ import annotations

from tarmac.api.resource import Strategy


class NativeStrategy(Strategy):
    """A kind without `metadata.generation`, which is most of Kubernetes' own."""

    generation = False
