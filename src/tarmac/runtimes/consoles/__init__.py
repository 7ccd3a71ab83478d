"""Consoles and displays of virtual machines, for several people at once; whatever runs the machine.

- `keyboardorder`: who has the one keyboard, and who is next
- `console`: what the guest writes, handed to everybody who watches; `consoles` keeps one for each machine
- `session`: one of them; `leaving` knows how they say that they want to go
- `notices`: what a session is told beside the output, for programs and for people
- `display`: the screen, a connection for each viewer; `rfb` reads what viewers send

A driver hands a `Console` where the bytes of its guest are (`SerialSource`) and how keys get there.
"""

from tarmac.runtimes.consoles.console import Console, SerialSource
from tarmac.runtimes.consoles.consoles import Consoles
from tarmac.runtimes.consoles.display import Display

__all__ = ["Console", "Consoles", "Display", "SerialSource"]
