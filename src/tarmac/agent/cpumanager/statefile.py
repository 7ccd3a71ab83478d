"""`cpu_manager_state`: the CPU assignments, kept across restarts of the agent.

The file has kubelet's format, with the CRC-32 of all other fields as its checksum. It is replaced atomically before a
process relies on it, so after kill -9 it lists at least the CPUs in use. An invalid file prevents the start of the
agent: ignoring it could put two containers on one CPU.
"""

from __future__ import annotations

import binascii
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from tarmac.agent.config.configreader import BadConfig
from tarmac.base.cpuset import CPUSet
from tarmac.base.statefiles import read_state, replace_state

NAME: Final = "cpu_manager_state"
STATIC: Final = "static"
_MAX_BYTES: Final = 4 << 20  # far more than the pods of a node need
_MAX_SHOWN: Final = 500  # characters of an error that quotes the file
_REMEDY: Final = "drain the node, delete this file and start the agent again"

Assignments = dict[str, dict[str, CPUSet]]
"""CPUs of containers, by pod uid and container name."""


class _State(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    policy_name: str
    default_cpu_set: str
    entries: dict[str, dict[str, str]]
    checksum: int = 0


class StateFile:
    """The state file of one agent."""

    def __init__(self, root_dir: Path) -> None:
        self._path = root_dir / NAME

    def exists(self) -> bool:
        """Return True if an agent with the static policy ran here."""
        return self._path.exists()

    def read(self, online: CPUSet, reserved: CPUSet) -> Assignments | None:
        """Return the assignments, if the file exists and is of the static policy. Raises BadConfig."""
        try:
            state = msgspec.json.decode(read_state(self._path, _MAX_BYTES), type=_State)
            # A file cut short by a power loss could decode as a shorter one, and its CPUs be assigned twice.
            if state.checksum != _checksum(state):
                raise ValueError("checksum does not match")
            if state.policy_name != STATIC:
                return None
            found = {uid: _sets(entries) for uid, entries in state.entries.items()}
            _check(found, online, reserved)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise BadConfig(f"{self._path}: {error.strerror or error}; {_REMEDY}") from error
        except ValueError as error:
            raise BadConfig(f"{self._path}: {str(error)[:_MAX_SHOWN]}; {_REMEDY}") from error
        return found

    def write(self, shared: CPUSet, assignments: Assignments) -> None:
        """Replace the file without syncing it. Raises OSError.

        It survives a killed agent. After a power loss no process runs that would need it, and the checksum detects a
        truncated file.
        """
        entries = {uid: {name: str(cpus) for name, cpus in own.items()} for uid, own in assignments.items()}
        state = _State(STATIC, str(shared), entries)
        state.checksum = _checksum(state)
        # By a rename: a kill during the write leaves the assignments that running containers rely on.
        replace_state(self._path, msgspec.json.encode(state))

    def remove(self) -> None:
        """Delete the file: the policy is no longer static."""
        self._path.unlink(missing_ok=True)


def _checksum(state: _State) -> int:
    rest = {name: value for name, value in msgspec.to_builtins(state).items() if name != "checksum"}
    return binascii.crc32(msgspec.json.encode(rest, order="sorted"))


def _sets(entries: Mapping[str, str]) -> dict[str, CPUSet]:
    return {name: CPUSet.parse(text) for name, text in entries.items()}


def _check(found: Assignments, online: CPUSet, reserved: CPUSet) -> None:
    """Validate the assignments.

    Raises ValueError. Containers of one pod may share CPUs if they run one after the other.
    """
    taken: dict[int, str] = {}
    for uid, own in found.items():
        for name, cpus in own.items():
            if missing := cpus - online:
                raise ValueError(f"pod {uid}, container {name}: CPUs {missing} are not online")
            if cpus & reserved:
                raise ValueError(f"pod {uid}, container {name}: CPUs {cpus & reserved} are reserved")
            for cpu in cpus:
                if taken.setdefault(cpu, uid) != uid:
                    raise ValueError(f"CPU {cpu} is assigned to pod {taken[cpu]} and to pod {uid}")
