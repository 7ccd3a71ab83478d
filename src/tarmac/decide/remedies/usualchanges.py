"""Usual remedies for reasons that are known only from a condition, which has no field for the change itself."""

from __future__ import annotations

import re
from typing import Final

from tarmac.decide import reasons

_USUAL: Final = {
    reasons.IMAGE_UNAVAILABLE: "Name an image that exists, or give imagePullSecrets that may pull it.",
    reasons.CONFIGURATION_ERROR: "Correct the container as the message says.",
    reasons.SOURCE_NOT_FOUND: "Create the object that the message names.",
    reasons.INSTANCE_CRASHING: "See `kubectl logs --previous` of the instance, and correct the container.",
    reasons.GUEST_PANICKED: "See `kubectl logs --previous` of the instance, and correct its image or kernel.",
    reasons.MACHINE_FAILED: "See `kubectl logs --previous` of the instance, and the journal of its node.",
    reasons.MACHINE_PAUSED: "Let it go on with `tarmac machine resume`.",
    reasons.DISK_FULL: "Free space on the node's disk: the machine goes on by itself.",
    reasons.IMAGE_REFUSED: "Correct the MachineImage, or the file that it names, as the message says.",
    reasons.OUT_OF_MEMORY: "Choose a larger instance type, or a higher memory limit.",
    reasons.NETWORK_NOT_FOUND: "Create the network that the message names.",
    reasons.NETWORK_IN_USE: "Attach to another Network; this one goes when nothing uses it any more.",
    reasons.NETWORK_FAILED_TO_CREATE: "Correct the Network as the message says.",
    reasons.NETWORK_RANGES_OVERLAP: "Attach one of the interfaces to a Network that overlaps none of the others.",
    reasons.ADDRESS_FAMILY_NOT_CARRIED: "Remove the family from the interface, or use a Network that carries it.",
    reasons.ADDRESS_RANGE_EXHAUSTED: "Use a Network with a larger range.",
    reasons.ADDRESS_POOL_EXHAUSTED: "Scale down, or use another Network.",
    reasons.CLASS_UNAVAILABLE: "Ask for a class that the node offers: its status lists them.",
    reasons.CLASS_EXHAUSTED: "Free a place of the class on the node, or ask for another class.",
    reasons.QUOTA_EXHAUSTED: "Raise the ResourceQuota that the message names, or scale something else down.",
    reasons.NO_CANDIDATE_LOCATIONS: "Create a Location in the city, or bring a node of it back to ready.",
    reasons.NO_READY_NODES: "Bring a node of the Location back to ready.",
    reasons.LOCATION_UNREACHABLE: "Restore the connection to the Location.",
    reasons.CITY_LOST: "Bring the city back, or set onCityLoss.policy to Move and name cities.",
    reasons.DISK_ON_LOST_NODE: "Bring the node back, or delete the claim and lose the data on the disk.",
    reasons.RESTORED_CONFLICT: "Keep the pod with `tarmac restored adopt`, or stop it with `tarmac restored remove`.",
    reasons.NAME_TAKEN: "Delete the object that holds the name, or rename yours.",
    reasons.INSTANCE_TYPE_NOT_FOUND: "Use an instance type that exists: `kubectl get instancetypes`.",
    reasons.PAUSED: "Set spec.paused to false.",
    reasons.TOO_MANY_REPLICAS: "Raise the placement's maxReplicas to the number that the message names.",
    reasons.NO_GATEWAY: "Label a node submariner.io/gateway=true.",
    reasons.NO_OUTSIDE_INTERFACE: "Give a gateway an interface on the segment, or name it in the class's subnet.",
    reasons.GATEWAY_FULL: "Add a gateway, or raise maxPerNode of the class.",
    reasons.TOO_FEW_VOTERS: "Have at least three Ready nodes that take part in external services.",
    reasons.NOT_SYNCED: "Install conntrackd on the gateways.",
    reasons.SPEAKER_MISSING: "Install bird2 on the gateways, and restart their agents.",
    reasons.RANGE_OVERLAP: "Take the range out of one of the classes.",
    reasons.NODE_HAS_NO_DATAPATH: "Run the pod on a node with Tarmac's datapath and external services on.",
    reasons.NO_PODS: "Start a pod that the source Service selects.",
    reasons.METRICS_UNAVAILABLE: "Make the metric that the message names exist where it is looked for.",
}


_FITTING: Final = {
    reasons.IMAGE_UNAVAILABLE: [
        (r"MachineImage (\S+) has no source", r"Set spec.source and spec.checksum of MachineImage \1."),
        (r"MachineImage (\S+) does not exist", r"Create MachineImage \1, or name another image."),
        (
            r'may not pull from [^"]*in the namespace "([^"]*)"',
            r"Bind the ClusterRole tarmac:image-puller to that service account in the namespace \1.",
        ),
        (
            r"no such host|name resolution|server misbehaving|lookup .* on ",
            "Correct the registry's name in the image, or have the node's resolver know it.",
        ),
        (
            r"connection (refused|reset)|timeout|no route to host|unreachable|deadline exceeded|RegistryUnavailable",
            "Have the registry reachable from the node, or name an image elsewhere.",
        ),
        (
            r"x509|certificate|HTTP response to HTTPS client",
            "Have the node trust the registry: a certificate it knows, or a hosts.toml for it.",
        ),
        (r"too many requests|\b429\b", "Wait, or give imagePullSecrets: the registry limits how much is pulled."),
        (r"no match for platform", "Name an image that is built for the node's platform."),
        (r"no space left", "Free space on the node's disk."),
        (r"pull policy of Never|NeverPull", "Load the image onto the node, or let imagePullPolicy be IfNotPresent."),
        (
            r"InvalidImageName|parse image name|invalid reference",
            "Correct how the image is written: REGISTRY/NAME:TAG.",
        ),
        (
            r"unauthorized|authori[sz]ation|denied|forbidden|\b40[13]\b",
            "Give imagePullSecrets that may pull the image, or correct its name.",
        ),
        (r"not found|manifest unknown|\b404\b", "Name an image and a tag that exist."),
    ],
    reasons.CONFIGURATION_ERROR: [
        (
            r"no PriorityClass with name (\S+) was found",
            r"Create PriorityClass \1, or name another in priorityClassName.",
        ),
        (
            r"executable|(exec|failed to load) .*(no such file|permission denied|format error)",
            "Correct the container's command, or name an image that has it.",
        ),
    ],
    reasons.INSTANCE_CRASHING: [
        (r"exit code 0\b", "Have the command stay in the foreground: it ends, and an instance is to run on."),
        (r"exit code 12[67]\b", "Correct the container's command, or name an image that has it."),
    ],
    reasons.TOO_MANY_REPLICAS: [
        (r"ask for (\d+) instances", r"Raise the placement's maxReplicas to \1."),
    ],
    reasons.OUT_OF_MEMORY: [
        (r"more than its (\S+) of memory", r"Give it more than \1: a larger instance type, or a higher memory limit."),
    ],
}
"""Remedies for messages that match a pattern, first match wins. Messages of other programs give no better clue."""


def usual_change(reason: str, message: str = "") -> str:
    """Return the usual remedy; empty when none is known or needed."""
    for words, change in _FITTING.get(reason, ()):
        if found := re.search(words, message, re.IGNORECASE):
            return found.expand(change)
    return _USUAL.get(reason, "")
