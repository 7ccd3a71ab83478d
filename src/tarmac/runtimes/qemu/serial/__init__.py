"""The serial port of a machine: QEMU appends its output to a file, and a pipe takes keyboard input.

    serial.raw    every byte that the guest has written; followed by offset, never copied into the log twice
    serial.in     the pipe for keyboard input; open only while a session has the keyboard

- `lines`: converts bytes of a guest to lines of a container's log. Pure
- `position`: progress of the log, persisted so that a killed agent neither loses nor duplicates lines
- `log`: one file followed into one log
- `logs`: all of them, polled by one timer
- `keyboard`: the client of the pipe

The guest's output goes only to the file, so no slow viewer can block the guest.
"""

from tarmac.runtimes.qemu.serial.keyboard import KEYS, KeyboardConnection, connect_keyboard
from tarmac.runtimes.qemu.serial.log import KEPT, SerialFiles, SerialLog
from tarmac.runtimes.qemu.serial.logs import SerialLogs

__all__ = ["KEPT", "KEYS", "KeyboardConnection", "SerialFiles", "SerialLog", "SerialLogs", "connect_keyboard"]
