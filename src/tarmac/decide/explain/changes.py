"""What usually helps, for reasons that only a condition tells: a condition has no room for the change itself."""

from __future__ import annotations

from typing import Final

from tarmac.decide import reasons

_USUAL: Final = {
    reasons.IMAGE_UNAVAILABLE: "Name an image that exists, or give imagePullSecrets that may pull it.",
    reasons.CONFIGURATION_ERROR: "Correct the container as the message says.",
    reasons.SOURCE_NOT_FOUND: "Create the object that the message names.",
    reasons.INSTANCE_CRASHING: "See `kubectl logs --previous` of the instance, and correct the container.",
    reasons.OUT_OF_MEMORY: "Choose a larger instance type, or a higher memory limit.",
    reasons.NETWORK_NOT_FOUND: "Create the network that the message names.",
    reasons.NETWORK_IN_USE: "Attach to another Network; this one goes when nothing uses it any more.",
    reasons.NETWORK_FAILED_TO_CREATE: "Correct the Network as the message says.",
    reasons.ADDRESS_FAMILY_NOT_CARRIED: "Remove the family from the interface, or use a Network that carries it.",
    reasons.ADDRESS_RANGE_EXHAUSTED: "Use a Network with a larger range.",
    reasons.ADDRESS_POOL_EXHAUSTED: "Scale down, or use another Network.",
    reasons.QUOTA_EXHAUSTED: "Raise the ResourceQuota that the message names, or scale something else down.",
    reasons.NO_CANDIDATE_LOCATIONS: "Create a Location in the city, or bring a node of it back to ready.",
    reasons.NO_READY_NODES: "Bring a node of the Location back to ready.",
    reasons.LOCATION_UNREACHABLE: "Restore the connection to the Location.",
    reasons.CITY_LOST: "Bring the city back, or set onCityLoss.policy to Move and name cities.",
    reasons.DISK_ON_LOST_NODE: "Bring the node back, or delete the claim and lose what is on the disk.",
    reasons.NAME_TAKEN: "Delete the object that holds the name, or rename yours.",
    reasons.INSTANCE_TYPE_NOT_FOUND: "Use an instance type that exists: `kubectl get instancetypes`.",
    reasons.PAUSED: "Set spec.paused to false.",
    reasons.TOO_MANY_REPLICAS: "Raise the placement's maxReplicas to the number that the message names.",
    reasons.METRICS_UNAVAILABLE: "Make the metric that the message names exist where it is looked for.",
}


def usual_change(reason: str) -> str:
    """What usually helps; empty when that cannot be said, or nothing is needed."""
    return _USUAL.get(reason, "")
