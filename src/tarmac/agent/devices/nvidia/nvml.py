"""NVIDIA's management library (NVML), through ctypes. For the sampling program only (`nvmlprogram`).

Only calls and structures that have been the same in every driver that gVisor knows. A call that fails, or that the
library does not have, yields None: figures are optional, and a GPU is offered without them.
"""

from __future__ import annotations

import ctypes
from typing import Any, Final

_OK: Final = 0
_GPU_IS_LOST: Final = 15
_RECOVERY_ACTION: Final = 230  # a field, known from R550 on
_NO_ACTION: Final = 0
_TEMPERATURE_OF_GPU: Final = 0
_FIGURES: Final = ("utilization", "memory_used", "memory_total", "power", "temperature", "needs_repair")

_Handle = ctypes.c_void_p


class _Memory(ctypes.Structure):
    _fields_ = [("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong)]


class _Utilization(ctypes.Structure):
    _fields_ = [("gpu", ctypes.c_uint), ("memory", ctypes.c_uint)]


class _Field(ctypes.Structure):
    _fields_ = [
        ("id", ctypes.c_uint),
        ("scope", ctypes.c_uint),
        ("timestamp", ctypes.c_longlong),
        ("latency", ctypes.c_longlong),
        ("type", ctypes.c_uint),
        ("result", ctypes.c_int),
        ("value", ctypes.c_ulonglong),
    ]


class NvmlMissing(Exception):
    """The library is not there, or does not answer; the message says why."""


class Nvml:
    """The loaded library. Its calls block."""

    def __init__(self, path: str) -> None:
        """Load and initialize it. Raises NvmlMissing."""
        try:
            self._library = ctypes.CDLL(path)
            code = self._library.nvmlInit_v2()
        except (OSError, AttributeError) as error:
            raise NvmlMissing(str(error)) from error
        if code != _OK:
            raise NvmlMissing(f"{path}: nvmlInit_v2 failed with {code}")

    def sample(self, uuid: str) -> dict[str, bool | float | None]:
        """Query one GPU; return the fields of a `GpuSample`."""
        handle = self._handle(uuid)
        if handle is None:
            return {**dict.fromkeys(_FIGURES), "alive": False, "mig": False}
        memory, busy = _Memory(), _Utilization()
        power, heat = ctypes.c_uint(), ctypes.c_uint()
        answered = self._call("nvmlDeviceGetMemoryInfo", handle, ctypes.byref(memory))
        knows_load = self._call("nvmlDeviceGetUtilizationRates", handle, ctypes.byref(busy)) == _OK
        knows_power = self._call("nvmlDeviceGetPowerUsage", handle, ctypes.byref(power)) == _OK
        knows_heat = self._call("nvmlDeviceGetTemperature", handle, _TEMPERATURE_OF_GPU, ctypes.byref(heat)) == _OK
        return {
            "alive": answered != _GPU_IS_LOST,
            "mig": self._mig(handle),
            "utilization": busy.gpu / 100 if knows_load else None,
            "memory_used": memory.used if answered == _OK else None,
            "memory_total": memory.total if answered == _OK else None,
            "power": power.value / 1000 if knows_power else None,
            "temperature": heat.value if knows_heat else None,
            "needs_repair": self._needs_repair(handle),
        }

    def _handle(self, uuid: str) -> _Handle | None:
        handle = _Handle()
        found = self._call("nvmlDeviceGetHandleByUUID", ctypes.c_char_p(uuid.encode()), ctypes.byref(handle)) == _OK
        return handle if found else None

    def _mig(self, handle: _Handle) -> bool:
        now, later = ctypes.c_uint(), ctypes.c_uint()
        known = self._call("nvmlDeviceGetMigMode", handle, ctypes.byref(now), ctypes.byref(later)) == _OK
        return known and bool(now.value)

    def _needs_repair(self, handle: _Handle) -> bool | None:
        field = _Field(id=_RECOVERY_ACTION)
        if self._call("nvmlDeviceGetFieldValues", handle, 1, ctypes.byref(field)) != _OK or field.result != _OK:
            return None
        # A union of several types: an unsigned int fills only its lower half.
        return (field.value & 0xFFFFFFFF) != _NO_ACTION

    def _call(self, name: str, *arguments: Any) -> int:
        try:
            function = getattr(self._library, name)
        except AttributeError:
            return -1
        return int(function(*arguments))
