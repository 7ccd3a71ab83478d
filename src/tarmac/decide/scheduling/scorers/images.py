"""Prefers nodes that have the images; weighted by the share of nodes with them, lest one node attract all pods."""

from __future__ import annotations

from typing import Final

from tarmac.decide.scheduling.cluster import Cluster
from tarmac.decide.scheduling.demand import Pod
from tarmac.decide.scheduling.nodeinfo import NodeInfo
from tarmac.decide.scheduling.scorers.score import Score

_LARGE: Final = 1 << 30


class ImageLocality:
    """A small bonus: at most 20, for a gigabyte that every node has."""

    picky = False

    def prepare(self, pod: Pod, cluster: Cluster) -> Score | None:
        """Return a score that weights each image by the share of nodes with it; None if no node has any."""
        total = len(cluster.nodes) or 1
        shares = {image: cluster.images.get(image, 0) / total for image in pod.demand.images}
        known = {image: share for image, share in shares.items() if share}
        if not known:
            return None

        def score(info: NodeInfo) -> float:
            images = info.node.images
            if images is None:
                return 0.0
            there = sum(images.get(image, 0) * share for image, share in known.items())
            return 20.0 * min(1.0, there / _LARGE)

        return score
