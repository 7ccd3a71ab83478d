"""A node's own connection to a public address: the response of its agent, at `CHECK_PATH`."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec

from tarmac.api.compute.explanations import Answered

CHECK_PATH: Final = "/tarmac/v1/ingress/check/{address}/{port}"
"""Path in a node's own API: GET opens a TCP connection and returns a `NodeIngressCheck`. 404: not in its rules."""

# Decoded with bounds: an extreme value invalidates that response only.
_Text = Annotated[str, msgspec.Meta(max_length=400)]
_Seconds = Annotated[float, msgspec.Meta(ge=0, le=3600)]


class NodeIngressCheck(Answered, frozen=True):
    """The result. `problem` is empty if the connection was made; `closed`: source ranges leave the node out.

    `seen_as` is the address that represents the node in the pod's Network, `nodes` are the nodes that connections from
    this one go to, by address.
    """

    problem: _Text = ""
    closed: bool = False
    seconds: _Seconds = 0.0
    seen_as: _Text = ""
    nodes: Annotated[list[_Text], msgspec.Meta(max_length=256)] = []
