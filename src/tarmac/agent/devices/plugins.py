"""One device plugin: its lists of devices, and its calls.

Lists come on a separate connection, which is not read while the last list is processed: a plugin that floods is blocked
by its own socket, without delaying its answers to calls. Only the newest list counts.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Collection, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Final

from google.protobuf.message import DecodeError, Message

from tarmac.agent.devices._generated import deviceplugin_subset_pb2 as pb
from tarmac.agent.devices.answers import MAX_TEXT, InvalidPluginResponse, of_one_container
from tarmac.base.clock import Clock
from tarmac.base.log import log
from tarmac.http.grpc import Code, GrpcConnection, GrpcError

MAX_DEVICES: Final = 10_000
"""Maximum devices of one plugin."""
MAX_LIST: Final = 1 << 20
MAX_ID: Final = 256
PACE: Final = 0.1
"""Seconds between two lists of a plugin."""
_DIAL: Final = 10.0
_QUICK: Final = 10.0
_PRE_START: Final = 30.0
_ALLOCATE: Final = 60.0
_SERVICE: Final = "v1beta1.DevicePlugin/"
_MAX_ERROR_CHARS: Final = 1024  # characters of a plugin's error that are passed on
_DEVICE: Final = 0x0A  # the tag of the only field of a list
_MAX_SHIFT: Final = 28

_CODES: Final = (
    "OK", "Canceled", "Unknown", "InvalidArgument", "DeadlineExceeded", "NotFound", "AlreadyExists", "PermissionDenied",
    "ResourceExhausted", "FailedPrecondition", "Aborted", "OutOfRange", "Unimplemented", "Internal", "Unavailable",
    "DataLoss", "Unauthenticated",
)  # fmt: skip
_log = log("devices")


class DeviceFault(Exception):
    """Devices cannot be allocated; the text is kubelet's, or the plugin's."""


class DevicePlugin:
    """A registered plugin. Create it with `dial`."""

    def __init__(self, resource: str, calls: GrpcConnection, lists: GrpcConnection, clock: Clock) -> None:
        self.resource = resource
        self.options = pb.DevicePluginOptions()
        self._calls = calls
        self._lists = lists
        self._clock = clock

    @staticmethod
    async def dial(resource: str, path: Path, clock: Clock) -> DevicePlugin:
        """Connect, and query its options. Raises DeviceFault."""
        made: list[GrpcConnection] = []
        try:
            async with asyncio.timeout(_DIAL):
                made.append(await _connected(path, MAX_TEXT))
                # A second connection: a list of many devices would delay an allocation on the same one.
                made.append(await _connected(path, MAX_LIST))
            plugin = DevicePlugin(resource, made[0], made[1], clock)
            plugin.options = await plugin._options()
        except BaseException as error:
            # The first connection may exist when the second fails, the timeout strikes, or the dial is cancelled.
            for each in made:
                each.close()
            if isinstance(error, OSError | TimeoutError):
                why = error or "context deadline exceeded"
                raise DeviceFault(f"failed to dial device plugin: {why}") from error
            if isinstance(error, DeviceFault):
                raise DeviceFault(f"failed to get device plugin options: {error}") from error
            raise
        return plugin

    def close(self) -> None:
        """Disconnect; pending calls fail."""
        self._calls.close()
        self._lists.close()

    async def lists(self) -> AsyncGenerator[dict[str, bool]]:
        """Yield the devices and their health, repeatedly until the plugin goes. Raises DeviceFault."""
        try:
            messages = self._lists.stream(f"{_SERVICE}ListAndWatch", b"", newest=True)
            async with aclosing(messages):
                async for message in messages:
                    # Held while the last list is processed: a plugin that sends lists without pause waits in its own
                    # buffers.
                    self._lists.hold(True)
                    yield devices_of(message, self.resource)
                    await self._clock.sleep(PACE)
                    self._lists.hold(False)
        except GrpcError as error:
            raise DeviceFault(_worded(error)) from error

    async def preferred(self, available: Collection[str], included: Collection[str], number: int) -> Sequence[str]:
        """Return the plugin's preferred devices among the available ones. Raises DeviceFault."""
        if not self.options.get_preferred_allocation_available:
            return ()
        one = pb.ContainerPreferredAllocationRequest(
            available_deviceIDs=available, must_include_deviceIDs=included, allocation_size=number
        )
        request = pb.PreferredAllocationRequest(container_requests=[one])
        longest = 1024 + number * (MAX_ID + 8)
        try:
            answer = await self._call("GetPreferredAllocation", request, _QUICK, longest)
            responses = pb.PreferredAllocationResponse.FromString(answer).container_responses
        except (DeviceFault, DecodeError) as fault:
            raise DeviceFault(f"device plugin GetPreferredAllocation rpc failed with err: {fault}") from fault
        return tuple(responses[0].deviceIDs) if responses else ()

    async def allocate(self, ids: Sequence[str]) -> bytes:
        """Allocate devices to one container; return its settings. Raises DeviceFault."""
        request = pb.AllocateRequest(container_requests=[pb.ContainerAllocateRequest(devices_ids=ids)])
        answer = await self._call("Allocate", request, _ALLOCATE, MAX_TEXT)
        try:
            return of_one_container(answer)
        except InvalidPluginResponse as error:
            raise DeviceFault(str(error)) from error

    async def pre_start(self, ids: Sequence[str]) -> None:
        """Call PreStartContainer, if the plugin requires it. Raises DeviceFault."""
        if not self.options.pre_start_required:
            return
        try:
            request = pb.PreStartContainerRequest(devices_ids=ids)
            await self._call("PreStartContainer", request, _PRE_START, MAX_TEXT)
        except DeviceFault as fault:
            raise DeviceFault(f"device plugin PreStartContainer rpc failed with err: {fault}") from fault

    async def _options(self) -> pb.DevicePluginOptions:
        try:
            answer = await self._call("GetDevicePluginOptions", pb.Empty(), _QUICK, 1024)
            return pb.DevicePluginOptions.FromString(answer)
        except DecodeError as error:
            raise DeviceFault(f"options that are no message of the device plugin API: {error}") from error

    async def _call(self, method: str, request: Message, timeout: float, longest: int) -> bytes:
        if not self._calls.usable:
            raise DeviceFault(f"endpoint {self.resource} has been stopped")
        try:
            return await self._calls.call(f"{_SERVICE}{method}", request.SerializeToString(), timeout, longest=longest)
        except GrpcError as error:
            raise DeviceFault(_worded(error)) from error


def devices_of(message: bytes, resource: str) -> dict[str, bool]:
    """Return the devices of one list and their health. Raises GrpcError if it is invalid, or too long."""
    if _devices_in(message, MAX_DEVICES) > MAX_DEVICES:
        raise GrpcError(Code.RESOURCE_EXHAUSTED, f"a list of more than {MAX_DEVICES} devices")
    try:
        listed = pb.ListAndWatchResponse.FromString(message).devices
    except DecodeError as error:
        raise GrpcError(Code.INTERNAL, "a list that is no message of the device plugin API") from error
    found = {each.ID: each.health == "Healthy" for each in listed if 0 < len(each.ID) <= MAX_ID}
    if len(found) < len(listed):
        _log.warning("devices without a unique id are left out", resource=resource, count=len(listed) - len(found))
    return found


def _devices_in(message: bytes, most: int) -> int:
    """Return the number of devices in a list, counted a little beyond `most`. Raises GrpcError if it is no list.

    A device takes two bytes, so decoding before counting would let a plugin exhaust memory.
    """
    at = count = 0
    while at < len(message) and count <= most:
        if message[at] != _DEVICE:
            raise GrpcError(Code.INTERNAL, "a list of something else than devices")
        length, shift, at = 0, 0, at + 1
        while at < len(message) and shift <= _MAX_SHIFT:
            length |= (message[at] & 0x7F) << shift
            shift, at = shift + 7, at + 1
            if not message[at - 1] & 0x80:
                break
        at += length
        count += 1
    return count


async def _connected(path: Path, longest: int) -> GrpcConnection:
    loop = asyncio.get_running_loop()
    _, connection = await loop.create_unix_connection(
        lambda: GrpcConnection("localhost", longest_message=longest), str(path)
    )
    return connection


def _worded(error: GrpcError) -> str:
    """Return the error in the format of Go's library, without control characters."""
    code = _CODES[error.code] if 0 <= error.code < len(_CODES) else f"Code({error.code})"
    text = "".join(letter if letter.isprintable() else " " for letter in str(error)[:_MAX_ERROR_CHARS])
    return f"rpc error: code = {code} desc = {text}"
