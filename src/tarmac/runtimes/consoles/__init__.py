"""Consoles and displays of virtual machines, shared by several sessions; independent of the driver.

- `keyboardorder`: the owner of the one keyboard, and the queue behind it
- `console`: delivers the guest's output to all sessions; `consoles` has one console for each machine
- `session`: one console session; `escape`: its escape sequence; `attempt`: one process of the machine
- `notices`: messages about the session beside the output, for programs and for people
- `display`: the screen, with one connection per viewer; `rfb` parses the viewers' messages

A driver gives a `MachineConsole` access to its guest's output (`SerialSource`) and a way to send keys.
"""

from tarmac.runtimes.consoles.attempt import SerialSource
from tarmac.runtimes.consoles.console import MachineConsole
from tarmac.runtimes.consoles.consoles import Consoles
from tarmac.runtimes.consoles.display import Display

__all__ = ["Consoles", "Display", "MachineConsole", "SerialSource"]
