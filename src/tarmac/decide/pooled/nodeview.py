"""The view of a node for decisions about addresses of classes and pools."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tarmac.api.egress.nodefacts import NodeFacts


@dataclass(frozen=True, slots=True)
class NodeView:
    """A node. `facts` is None if its agent does not take part in egress.

    `cordoned_at` is the Unix time of the cordon; None until the node controller has recorded it.
    """

    name: str
    address: str = ""
    city: str = ""
    location: str = ""
    ready: bool = True
    cordoned: bool = False
    cordoned_at: float | None = None
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    facts: NodeFacts | None = None
