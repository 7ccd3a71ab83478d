"""Explains obstacles to the readiness of a virtual machine that are the machine's own: rule `machine`.

A Pod's conditions have the same reasons for machines as for containers, but the remedies differ: an image is an entry
of a catalogue, logs are those of the serial port, and a command resumes a paused machine.
"""

from __future__ import annotations

from typing import Final

import msgspec

from tarmac.api.compute.explanations import ExplanationLine
from tarmac.api.compute.machineimage import described_image
from tarmac.api.kubernetes.runtimeclasses import MACHINE_CLASS
from tarmac.api.schema import JsonObject
from tarmac.decide import reasons

RULE: Final = "machine"
_LOGS: Final = "See `kubectl logs --previous -n {namespace} {name}`, the serial port of the machine that ended, and "
_CHANGES: Final = {
    reasons.IMAGE_UNAVAILABLE: "Correct spec.source of {image}, or have the node reach it.",
    reasons.IMAGE_REFUSED: "Correct the entry of {image} or its file; the message has the difference.",
    reasons.GUEST_PANICKED: _LOGS + "correct its image or kernel.",
    reasons.MACHINE_FAILED: _LOGS + "the journal of the node.",
    reasons.INSTANCE_CRASHING: _LOGS + "keep its operating system from ending.",
    reasons.OUT_OF_MEMORY: "Choose a larger instance type, or raise the overhead of RuntimeClass vm.",
    reasons.MACHINE_PAUSED: "Run `tarmac machine resume -n {namespace} {name}`.",
    reasons.DISK_FULL: "Free space on the node's disk: the machine goes on by itself.",
    reasons.CONFIGURATION_ERROR: "Correct the virtualMachine as the message says.",
}


def of_machine(pod: JsonObject, line: ExplanationLine) -> ExplanationLine:
    """Return the line about a pod; for a machine, with the change that helps a machine."""
    if line.answer == "Yes" or line.reason not in _CHANGES or not is_machine(pod):
        return line
    own, image = pod["metadata"], described_image(pod["spec"]["containers"][0].get("image", ""))
    change = _CHANGES[line.reason].format(name=own["name"], namespace=own["namespace"], image=image)
    return msgspec.structs.replace(line, rule=RULE, change=change)


def is_machine(pod: JsonObject) -> bool:
    """Return True if the pod is a virtual machine."""
    return pod["spec"].get("runtimeClassName") == MACHINE_CLASS
