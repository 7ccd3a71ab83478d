"""Random node models for a scenario: capacity, reservations, CPU oversubscription, classes.

In every draw, each city has enough shared CPUs and unlimited classes for all Workloads that users leave at the end.
Exclusive CPUs and limited classes may be scarce or missing.
"""

from __future__ import annotations

from typing import Any

from tarmac.base.randomness import Randomness
from tarmac.sim.nodes.configuration import ClassLimit, SimNodeConfig, model_of
from tarmac.sim.nodes.model import NodeModel

SCARCE, PLENTY, RARE = "slow", "fast", "idle"
"""Classes: limited on each node, unlimited everywhere, and offered in some cities only."""
_CPUS = 32


def drawn_model(dice: Randomness) -> NodeModel:
    """Draw the node model of one city."""
    kubelet = dice.choice((_everything_for_pods, _some_reserved, _few_to_give_away, _few_to_give_away))(dice)
    if dice.uniform(0, 1) < 0.3:
        kubelet["evictionHard"] = {"memory.available": "5%"}
    classes = {SCARCE: ClassLimit(dice.choice((1, 1, 2))), PLENTY: ClassLimit()}
    if dice.uniform(0, 1) < 0.4:
        classes[RARE] = ClassLimit()
    return model_of(SimNodeConfig({"cpu": _CPUS}, kubelet, {"blockio": classes}))


def _everything_for_pods(dice: Randomness) -> dict[str, Any]:
    return {"cpuOverSubscriptionCapacity": dice.choice(("0", "500m", "4"))}


def _some_reserved(dice: Randomness) -> dict[str, Any]:
    return {
        "systemReserved": {"cpu": dice.choice(("250m", "2500m")), "memory": "1Gi"},
        "cpuManagerPolicy": dice.choice(("none", "static")),
        "cpuOverSubscriptionCapacity": dice.choice(("0", "1.5")),
    }


def _few_to_give_away(dice: Randomness) -> dict[str, Any]:
    """Reserve and oversubscribe nearly all CPUs: far more can be requested than containers can have exclusively."""
    few = dice.choice((1, 2, 3))
    return {
        "reservedSystemCPUs": f"0-{_CPUS - few - 1}",
        "cpuManagerPolicy": "static",
        "cpuOverSubscriptionCapacity": str(_CPUS - few),
    }
