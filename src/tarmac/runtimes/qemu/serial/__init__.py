"""The serial port of a machine: a file that QEMU appends to is the truth, and a pipe takes keys.

    serial.raw    every byte that the guest has written; followed by offset, never read twice into the log
    serial.in     a pipe that keys go into; opened only while somebody has the keyboard

- `lines`: bytes of a guest as lines of a container's log. Pure
- `position`: how far the log has come, kept so that an agent that is killed loses and doubles nothing
- `log`: one file followed into one log
- `logs`: all of them, by one timer
- `keyboard`: the pipe, for whoever types

What the guest writes goes nowhere but into the file, so nobody who watches can stop it.
"""

from tarmac.runtimes.qemu.serial.keyboard import KEYS, KeyboardConnection, connect_keyboard
from tarmac.runtimes.qemu.serial.log import KEPT, SerialFiles, SerialLog
from tarmac.runtimes.qemu.serial.logs import SerialLogs

__all__ = ["KEPT", "KEYS", "KeyboardConnection", "SerialFiles", "SerialLog", "SerialLogs", "connect_keyboard"]
