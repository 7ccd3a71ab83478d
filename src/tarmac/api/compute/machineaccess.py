"""Options and responses of the subresources for access to a virtual machine. They are never stored.

`console` and `vnc` are streams, so these types hold their query parameters, as Kubernetes does for exec.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from tarmac.api.declare import Field


class _Answered(msgspec.Struct, rename="camel", frozen=True):
    pass


class InstanceConsoleOptions(_Answered, frozen=True):
    """A session at the serial console."""

    stdin: Annotated[bool, Field("Ask for the keyboard.")] = False
    takeover: Annotated[bool, Field("Take the keyboard from its holder.")] = False
    since: Annotated[str, Field("ATTEMPT:OFFSET up to which everything was received, to go on from there.")] = ""


class InstanceVncOptions(_Answered, frozen=True):
    """A session at the screen."""

    view: Annotated[bool, Field("Watch only: keys and pointer do nothing.")] = False
    takeover: Annotated[bool, Field("Take keys and pointer from their holder.")] = False


PowerAction = Literal["Reboot", "Reset", "Pause", "Resume", "Stop", "Start"]


class InstancePower(_Answered, frozen=True):
    """A button of a virtual machine."""

    action: Annotated[
        PowerAction,
        Field(
            "Reboot: down in order, then up again. Reset: up again at once. Pause: stand still. Resume: go on. "
            "Stop: down in order, until Start; disks and addresses stay."
        ),
    ]


class InstanceRecording(_Answered, frozen=True):
    """A session that somebody had."""

    session: Annotated[str, Field("Its id.")]
    user: Annotated[str, Field("Who was there.")]
    kind: Annotated[str, Field("console, attach or vnc.")]
    keyboard: Annotated[bool, Field("Whether they asked for the keyboard.")]
    began: Annotated[str, Field("When it began.")]
    ended: Annotated[str, Field("When it ended, or last grew.")]
    bytes: Annotated[int, Field("Size of the recording.")]
    instance_uid: Annotated[str, Field("The Instance that had this name then.")]


class InstanceRecordings(_Answered, frozen=True):
    """Recorded sessions at an instance, on the node where it is now."""

    recordings: Annotated[list[InstanceRecording], Field("The newest first.")]
