"""Provides container images: looks locally, pulls in the background, backs off after failures.

`ensure` never waits for a registry. It returns the image, or that it is being pulled (the pod is woken afterwards), or
the reason why it is unavailable with the time of the next attempt. So a slow registry never blocks a pod's worker. The
number of parallel pulls per node is limited.

An image of the platform's own registry that is present may have been pulled for a different pod. A pod gets it only if
its service account may pull it or one of its pull secrets gives access. Images of virtual machines are not checked
here: the platform itself writes them into the pod, and the disk of an uploaded one is filled only after a check.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from tarmac.agent.containers.credentials import with_tag
from tarmac.agent.containers.repositories import RepositoryAccess, pull_with_each
from tarmac.agent.model.backoff import BackOffs
from tarmac.agent.model.pod import AgentPod
from tarmac.api.kubernetes.runtimeclasses import MACHINE_CLASS
from tarmac.api.schema import JsonObject
from tarmac.base.clock import Clock
from tarmac.base.duration import format_duration
from tarmac.base.tasks import Tasks
from tarmac.client.eventrecorder import Recorder
from tarmac.runtimes.interface import Image, ImageMismatch, Progress, Runtime, RuntimeFault
from tarmac.volumes.interface import SourceUnavailable

BACKOFF_STATUS_DELAY = 5.0
"""Time in seconds that a failed pull is reported as ErrImagePull before it becomes a back-off."""

PROGRESS_INTERVAL = 30.0
"""Interval of progress events of a pull, in seconds."""


class Pulling:
    """The image is being pulled."""


@dataclass(frozen=True, slots=True)
class ImageUnavailable:
    """Reason and message, and the monotonic time of the next attempt."""

    reason: str
    message: str
    retry_at: float


Outcome = Image | Pulling | ImageUnavailable
_FAILED, _MISMATCH = "ErrImagePull", "ImageRefused"
_PULLING = Pulling()


class ImagePuller:
    """The images of this node's pods."""

    def __init__(
        self, runtime: Runtime, access: RepositoryAccess, recorder: Recorder, clock: Clock, parallel: int
    ) -> None:
        self._runtime = runtime
        self._access = access
        self._recorder = recorder
        self._clock = clock
        self._slots = asyncio.Semaphore(max(1, parallel))
        self._tasks = Tasks()
        self._pulls: dict[str, asyncio.Task[None]] = {}
        self._results: dict[str, Image | ImageUnavailable] = {}
        self._errors: dict[str, tuple[float, str]] = {}  # monotonic time and message of the last failed pull
        self._back_offs = BackOffs()
        self._expected: dict[str, asyncio.Future[Image | None]] = {}
        self._entitled: set[str] = set()  # checked once: containers must restart without the server too

    def expect(self, pod: AgentPod, handler: str) -> None:
        """Look up the images a pod starts with while its sandbox is being created."""
        for container in pod.init_containers[:1] or pod.containers:
            key = f"{pod.uid}_{container['image']}"
            if container.get("imagePullPolicy") != "Always" and key not in self._expected:
                name = _reference(container, handler)
                # A task, so that the lookup overlaps with the creation of the sandbox.
                self._expected[key] = self._tasks.track(self._lookup(name, handler), f"look for {name}")

    async def _lookup(self, name: str, handler: str) -> Image | None:
        with suppress(RuntimeFault):  # `ensure` looks again
            return await self._runtime.image(name, handler)
        return None

    async def ensure(self, pod: AgentPod, container: JsonObject, handler: str, wake: Callable[[], None]) -> Outcome:
        """Return the image from the handler's image store, or start a pull. Raises RuntimeFault."""
        name = container["image"]
        key = f"{pod.uid}_{name}"
        # One pull for each pod and image: containers of one image would otherwise fetch it side by side.
        if key in self._pulls:
            return _PULLING
        if key in self._results:
            # Handed out once: a later start looks again, as the image may be gone by then.
            return self._results.pop(key)
        policy = container.get("imagePullPolicy") or "IfNotPresent"
        if policy != "Always":
            # Used once: the image may be removed before the next container starts.
            expected = self._expected.pop(key, None)
            # A pass cancelled here cancels the lookup too. It is popped already, so the next pass starts another one.
            image = (await expected if expected else None) or await self._runtime.image(
                _reference(container, handler), handler
            )
            if image is not None:
                try:
                    refusal = await self._refusal(pod, name, image, key, handler)
                except SourceUnavailable as error:
                    return self._waiting(pod, container, key) or self._failed(pod, container, key, str(error))
                if not refusal:
                    self._event_present(pod, container)
                    return image
                if policy == "Never":
                    present = "is present with pull policy of Never but does not have the proper credentials"
                    return self._never(pod, container, f"{present} to access the image: {refusal}")
        if policy == "Never":
            return self._never(pod, container, "is not present with pull policy of Never")
        return self._waiting(pod, container, key) or self._start(pod, container, key, handler, wake)

    async def _refusal(self, pod: AgentPod, name: str, image: Image, key: str, handler: str) -> str:
        """Return the reason why a pod may not use an image that is present; empty if it may."""
        if key in self._entitled or handler == MACHINE_CLASS:
            return ""
        refusal = await self._access.refusal(name, image, pod)
        if not refusal:
            self._entitled.add(key)
        return refusal

    def _never(self, pod: AgentPod, container: JsonObject, what: str) -> ImageUnavailable:
        message = f'Container image "{container["image"]}" {what}'
        self._warn(pod, container, "ErrImageNeverPull", message)
        return ImageUnavailable("ErrImageNeverPull", message, self._clock.monotonic() + 10)

    def forget(self, uid: str) -> None:
        """Cancel the pulls of a removed pod and drop its state."""
        # Keys begin with the uid, which no other pod will have.
        self._entitled = {each for each in self._entitled if not each.startswith(uid)}
        for tasks in (self._pulls, self._expected):
            for key in [each for each in tasks if each.startswith(uid)]:
                tasks.pop(key).cancel()
        for known in (self._results, self._errors):
            for key in [each for each in known if each.startswith(uid)]:
                del known[key]
                self._back_offs.forget(key)

    async def close(self) -> None:
        """Cancel all pulls."""
        await self._tasks.close()

    def _waiting(self, pod: AgentPod, container: JsonObject, key: str) -> ImageUnavailable | None:
        """Return the back-off state, if a pull has failed recently."""
        failed_at, error = self._errors.get(key, (0.0, ""))
        until = failed_at + self._back_offs.delay(key, failed_at)
        if not error or until <= self._clock.monotonic():
            return None
        message = f'Back-off pulling image "{container["image"]}"'
        self._event(pod, container, "BackOff", message)
        # A mismatch keeps its own reason: a retry cannot fix it.
        reason = _MISMATCH if error.startswith(f"{_MISMATCH}: ") else "ImagePullBackOff"
        return ImageUnavailable(reason, f"{message}: {error}", until)

    def _start(self, pod: AgentPod, container: JsonObject, key: str, handler: str, wake: Callable[[], None]) -> Pulling:
        self._event(pod, container, "Pulling", f'Pulling image "{container["image"]}"')

        def done(_task: asyncio.Task[None]) -> None:
            # None after `forget`: the pod is gone and must not be woken.
            if self._pulls.pop(key, None) is not None:
                wake()

        task = self._tasks.begin(self._pull(pod, container, key, handler), f"pull {container['image']}")
        self._pulls[key] = task
        task.add_done_callback(done)
        return _PULLING

    async def _pull(self, pod: AgentPod, container: JsonObject, key: str, handler: str) -> None:
        name = container["image"]
        asked = self._clock.monotonic()
        try:
            # Waits in order of arrival; the time in the queue is reported, since it may exceed that of the pull.
            async with self._slots:
                began = self._clock.monotonic()
                # After the wait for a slot: a token is valid for ten minutes, and the queue may be longer than that.
                wanted = _reference(container, handler)
                if handler == MACHINE_CLASS:
                    credentials = [await self._access.for_machine(wanted, pod)]
                else:
                    credentials = await self._access.credentials(wanted, pod)
                progress = self._progress(pod, container)
                image = await pull_with_each(self._runtime, wanted, credentials, progress, handler)
        except (RuntimeFault, SourceUnavailable, TimeoutError) as error:
            reason = _MISMATCH if isinstance(error, ImageMismatch) else _FAILED
            # Before the task ends, whose callback wakes the pod: its pass must find the result.
            self._results[key] = self._failed(pod, container, key, str(error), reason)
            return
        ended = self._clock.monotonic()
        took, waited = (format_duration(round(ended - since, 3)) for since in (began, asked))
        size = f"Image size: {image.size} bytes."
        self._event(
            pod,
            container,
            "Pulled",
            f'Successfully pulled image "{name}" in {took} ({waited} including waiting). {size}',
        )
        # Only after success: an error that is dropped earlier would start the next pull without delay.
        self._errors.pop(key, None)
        self._back_offs.forget(key)
        self._entitled.add(key)
        self._results[key] = image

    def _progress(self, pod: AgentPod, container: JsonObject) -> Progress:
        """Return a callback that records an event about a long pull at intervals."""
        reported_at = self._clock.monotonic()

        def progress(here: int, needed: int) -> None:
            nonlocal reported_at
            if self._clock.monotonic() - reported_at >= PROGRESS_INTERVAL:
                reported_at = self._clock.monotonic()
                amount = f"{here >> 20} of {needed >> 20} MiB are here"
                self._event(pod, container, "Pulling", f'Pulling image "{container["image"]}": {amount}')

        return progress

    def _failed(
        self, pod: AgentPod, container: JsonObject, key: str, error: str, reason: str = _FAILED
    ) -> ImageUnavailable:
        name, now = container["image"], self._clock.monotonic()
        self._warn(pod, container, "Failed", f'Failed to pull image "{name}": {error}')
        self._back_offs.next(key, now, now)
        self._errors[key] = (now, f"{reason}: {error}")
        return ImageUnavailable(reason, error, now + BACKOFF_STATUS_DELAY)

    def _event_present(self, pod: AgentPod, container: JsonObject) -> None:
        present = "already present on machine and can be accessed by the pod"
        self._event(pod, container, "Pulled", f'Container image "{container["image"]}" {present}')

    def _event(self, pod: AgentPod, container: JsonObject, reason: str, message: str) -> None:
        self._recorder.event(pod.container_reference(container["name"]), "Normal", reason, message)

    def _warn(self, pod: AgentPod, container: JsonObject, reason: str, message: str) -> None:
        self._recorder.event(pod.container_reference(container["name"]), "Warning", reason, message)


def _reference(container: JsonObject, handler: str) -> str:
    """Return the image name for the runtime. Machine images are named in the catalogue and have no registry tags."""
    return container["image"] if handler == MACHINE_CLASS else with_tag(container["image"])
