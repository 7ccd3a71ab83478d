"""Measures one GPU through the driver's API and cuBLAS, by ctypes: prints one line of JSON.

The same file runs inside and outside the sandbox, on the same interpreter and libraries.
"""

from __future__ import annotations

import ctypes
import glob
import json
import os
import statistics
import sys
import time
from typing import Any, Final

SIZE: Final = 8192
COPY: Final = 1 << 30
_BF16, _F32, _COMPUTE_F32 = 14, 0, 68  # cuBLAS's numbers
_N, _DEFAULT_ALGORITHM = 0, -1
_EMPTY_KERNEL: Final = b""".version 7.0
.target sm_70
.address_size 64
.visible .entry empty() { ret; }
"""
_PLACES: Final = (
    "/usr/local/cuda/lib64", "/usr/local/cuda/targets/x86_64-linux/lib", "/usr/lib/x86_64-linux-gnu", "/opt/trial/lib",
    "/opt/*/.venv/lib/python3*/site-packages/nvidia/*/lib", "/usr/local/lib/python3*/dist-packages/nvidia/*/lib",
    "/opt/*/lib/python3*/site-packages/nvidia/*/lib",
)  # fmt: skip


class CudaFailed(Exception):
    """A call of the driver or of cuBLAS failed."""


def find_library(stem: str) -> str | None:
    """Return the newest library of that name on this machine, or None."""
    found = [path for place in _PLACES for path in sorted(glob.glob(f"{place}/{stem}.so.[0-9]*"), key=len)[:1]]
    return found[0] if found else None


class Gpu:
    """The first GPU that this process sees."""

    def __init__(self) -> None:
        self.cuda = ctypes.CDLL("libcuda.so.1")
        self.call("cuInit", 0)
        device, context = ctypes.c_int(), ctypes.c_void_p()
        self.call("cuDeviceGet", ctypes.byref(device), 0)
        name = ctypes.create_string_buffer(96)
        self.call("cuDeviceGetName", name, len(name), device)
        self.name = name.value.decode()
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self.call("cuCtxSetCurrent", context)

    def call(self, name: str, *arguments: Any) -> None:
        """Call the driver. Raises CudaFailed."""
        if code := getattr(self.cuda, name)(*arguments):
            raise CudaFailed(f"{name} failed with {code}")

    def allocate(self, size: int) -> ctypes.c_uint64:
        """Return device memory."""
        address = ctypes.c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(size))
        return address

    def seconds(self, work: Any, times: int) -> float:
        """Return the seconds of one of several, measured by events on the GPU's own clock."""
        first, last, passed = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_float()
        for event in (first, last):
            self.call("cuEventCreate", ctypes.byref(event), 0)
        self.call("cuEventRecord", first, None)
        for _ in range(times):
            work()
        self.call("cuEventRecord", last, None)
        self.call("cuEventSynchronize", last)
        self.call("cuEventElapsedTime_v2" if hasattr(self.cuda, "cuEventElapsedTime_v2") else "cuEventElapsedTime",
                  ctypes.byref(passed), first, last)  # fmt: skip
        return passed.value / 1000 / times


def copy_rate(gpu: Gpu) -> float:
    """Return GB/s from pinned host memory to the device."""
    host = ctypes.c_void_p()
    gpu.call("cuMemHostAlloc", ctypes.byref(host), ctypes.c_size_t(COPY), 0)
    ctypes.memset(host, 1, COPY)
    device = gpu.allocate(COPY)

    def once() -> None:
        gpu.call("cuMemcpyHtoDAsync_v2", device, host, ctypes.c_size_t(COPY), None)

    once()
    return COPY / statistics.median(gpu.seconds(once, 4) for _ in range(5)) / 1e9


def launch_time(gpu: Gpu) -> float:
    """Return the microseconds from a launch of an empty kernel until the host knows its end."""
    module, kernel = ctypes.c_void_p(), ctypes.c_void_p()
    gpu.call("cuModuleLoadData", ctypes.byref(module), ctypes.c_char_p(_EMPTY_KERNEL))
    gpu.call("cuModuleGetFunction", ctypes.byref(kernel), module, b"empty")
    launch, wait = gpu.cuda.cuLaunchKernel, gpu.cuda.cuStreamSynchronize
    rounds: list[float] = []
    for _ in range(20):
        began = time.perf_counter()
        for _ in range(500):
            launch(kernel, 1, 1, 1, 1, 1, 1, 0, None, None, None)
            wait(None)
        rounds.append((time.perf_counter() - began) / 500)
    return statistics.median(rounds) * 1e6


def random_numbers(size: int) -> bytes:
    """Return bf16 numbers between -2 and 2: equal ones would need less power, and be faster."""
    low, high = os.urandom(1 << 16), os.urandom(1 << 16)
    piece = bytes(byte for pair in zip(low, high, strict=True) for byte in (pair[0], 0x3E | pair[1] & 0x81))
    return piece * (size // len(piece))


def matrix_rate(gpu: Gpu) -> float | None:
    """Return TFLOP/s of a bf16 matrix product with cuBLAS; None without cuBLAS."""
    path = find_library("libcublas")
    if path is None:
        return None
    if light := find_library("libcublasLt"):
        ctypes.CDLL(light, mode=ctypes.RTLD_GLOBAL)
    blas, handle = ctypes.CDLL(path), ctypes.c_void_p()
    if code := blas.cublasCreate_v2(ctypes.byref(handle)):
        raise CudaFailed(f"cublasCreate_v2 failed with {code}")
    size = SIZE * SIZE * 2
    a, b, c = (gpu.allocate(size) for _ in range(3))
    for matrix in (a, b):
        gpu.call("cuMemcpyHtoD_v2", matrix, random_numbers(size), ctypes.c_size_t(size))
    one, zero = ctypes.c_float(1.0), ctypes.c_float(0.0)

    def once() -> None:
        code = blas.cublasGemmEx(
            handle, _N, _N, SIZE, SIZE, SIZE, ctypes.byref(one), ctypes.c_void_p(a.value), _BF16, SIZE,
            ctypes.c_void_p(b.value), _BF16, SIZE, ctypes.byref(zero), ctypes.c_void_p(c.value), _BF16, SIZE,
            _COMPUTE_F32, _DEFAULT_ALGORITHM,
        )  # fmt: skip
        if code:
            raise CudaFailed(f"cublasGemmEx failed with {code}")

    for _ in range(20):
        once()
    return 2 * SIZE**3 / statistics.median(gpu.seconds(once, 20) for _ in range(5)) / 1e12


def main() -> int:
    """Measure all; print the figures."""
    gpu = Gpu()
    figures = {"name": gpu.name, "copy": copy_rate(gpu), "launch": launch_time(gpu), "matrix": matrix_rate(gpu)}
    print("FIGURES " + json.dumps(figures), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
