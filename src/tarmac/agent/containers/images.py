"""Having a container's image: look, pull in the background, and wait longer after each failure.

`ensure` never waits for a registry: it says that the image is here, that it is being pulled (the pod is woken when
that is over), or why it cannot be had and when to ask again. So a slow registry never keeps a pod from being looked
after. At most so many pulls run at once on the node.

That an image of the platform's own registry is here says nothing about this pod: it was pulled for another. A pod that
may not pull it is not given it, unless a pull secret of its own opens the registry. Images of virtual machines come
from no registry: what they are stands in the pod, by the platform's hand, and nobody is asked.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from tarmac.agent.containers.credentials import with_tag
from tarmac.agent.containers.repositories import RepositoryAccess, pull_with_each
from tarmac.agent.model.backoff import BackOffs
from tarmac.agent.model.pod import Pod
from tarmac.api.kubernetes.runtimeclasses import MACHINE_CLASS
from tarmac.api.schema import JsonObject
from tarmac.base.clock import Clock
from tarmac.base.duration import format_duration
from tarmac.base.tasks import Tasks
from tarmac.client.events import Recorder
from tarmac.runtimes.interface import Image, ImageMismatch, Progress, Runtime, RuntimeFault
from tarmac.volumes.interface import SourceUnavailable

ERROR_SHOWN = 5.0
"""How long a failed pull is told as what it is, before it is told as a back-off."""

PROGRESS_TOLD = 30.0
"""How often a pull under way is told about."""


class Pulling:
    """Not here yet, but on its way."""


@dataclass(frozen=True, slots=True)
class Unavailable:
    """Why it cannot be had, and when to ask again (Unix seconds)."""

    reason: str
    message: str
    ask_again: float


Outcome = Image | Pulling | Unavailable
_FAILED, _MISMATCH = "ErrImagePull", "ImageRefused"
_PULLING = Pulling()


class Images:
    """The images that this node's pods need."""

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
        self._results: dict[str, Image | Unavailable] = {}
        self._errors: dict[str, tuple[float, str]] = {}  # when a pull failed, and why
        self._back_offs = BackOffs()
        self._expected: dict[str, asyncio.Future[Image | None]] = {}
        self._entitled: set[str] = set()  # asked once: a container starts again also while the server is away

    def expect(self, pod: Pod, handler: str) -> None:
        """Look for the images a pod starts with while its sandbox is being made."""
        for container in pod.init_containers[:1] or pod.containers:
            key = f"{pod.uid}_{container['image']}"
            if container.get("imagePullPolicy") != "Always" and key not in self._expected:
                name = _reference(container, handler)
                self._expected[key] = self._tasks.promise(self._glance(name, handler), f"look for {name}")

    async def _glance(self, name: str, handler: str) -> Image | None:
        with suppress(RuntimeFault):  # whoever needs it asks again
            return await self._runtime.image(name, handler)
        return None

    async def ensure(self, pod: Pod, container: JsonObject, handler: str, wake: Callable[[], None]) -> Outcome:
        """Have the image where its handler needs it, or start to. Raises RuntimeFault if nobody answers there."""
        name = container["image"]
        key = f"{pod.uid}_{name}"
        if key in self._pulls:
            return _PULLING
        if key in self._results:
            return self._results.pop(key)
        policy = container.get("imagePullPolicy") or "IfNotPresent"
        if policy != "Always":
            expected = self._expected.pop(key, None)
            image = (await expected if expected else None) or await self._runtime.image(
                _reference(container, handler), handler
            )
            if image is not None:
                try:
                    refusal = await self._refusal(pod, name, image, key, handler)
                except SourceUnavailable as error:
                    return self._waiting(pod, container, key) or self._failed(pod, container, key, str(error))
                if not refusal:
                    self._tell_present(pod, container)
                    return image
                if policy == "Never":
                    present = "is present with pull policy of Never but does not have the proper credentials"
                    return self._never(pod, container, f"{present} to access the image: {refusal}")
        if policy == "Never":
            return self._never(pod, container, "is not present with pull policy of Never")
        return self._waiting(pod, container, key) or self._start(pod, container, key, handler, wake)

    async def _refusal(self, pod: Pod, name: str, image: Image, key: str, handler: str) -> str:
        """Why a pod may not have an image that is here; empty when it may."""
        if key in self._entitled or handler == MACHINE_CLASS:
            return ""
        refusal = await self._access.refusal(name, image, pod)
        if not refusal:
            self._entitled.add(key)
        return refusal

    def _never(self, pod: Pod, container: JsonObject, what: str) -> Unavailable:
        message = f'Container image "{container["image"]}" {what}'
        self._warn(pod, container, "ErrImageNeverPull", message)
        return Unavailable("ErrImageNeverPull", message, self._clock.monotonic() + 10)

    def forget(self, uid: str) -> None:
        """The pod is gone: stop pulling for it."""
        self._entitled = {each for each in self._entitled if not each.startswith(uid)}
        for tasks in (self._pulls, self._expected):
            for key in [each for each in tasks if each.startswith(uid)]:
                tasks.pop(key).cancel()
        for known in (self._results, self._errors):
            for key in [each for each in known if each.startswith(uid)]:
                del known[key]
                self._back_offs.forget(key)

    async def close(self) -> None:
        """Stop every pull."""
        await self._tasks.close()

    def _waiting(self, pod: Pod, container: JsonObject, key: str) -> Unavailable | None:
        """In back-off, if that is so."""
        failed_at, error = self._errors.get(key, (0.0, ""))
        until = failed_at + self._back_offs.delay(key, failed_at)
        if not error or until <= self._clock.monotonic():
            return None
        message = f'Back-off pulling image "{container["image"]}"'
        self._tell(pod, container, "BackOff", message)
        # What is not what it should be is told as that, and not as something that may come right by itself.
        reason = _MISMATCH if error.startswith(f"{_MISMATCH}: ") else "ImagePullBackOff"
        return Unavailable(reason, f"{message}: {error}", until)

    def _start(self, pod: Pod, container: JsonObject, key: str, handler: str, wake: Callable[[], None]) -> Pulling:
        self._tell(pod, container, "Pulling", f'Pulling image "{container["image"]}"')

        def done(_task: asyncio.Task[None]) -> None:
            if self._pulls.pop(key, None) is not None:
                wake()

        task = self._tasks.begin(self._pull(pod, container, key, handler), f"pull {container['image']}")
        self._pulls[key] = task
        task.add_done_callback(done)
        return _PULLING

    async def _pull(self, pod: Pod, container: JsonObject, key: str, handler: str) -> None:
        name = container["image"]
        asked = self._clock.monotonic()
        try:
            async with self._slots:
                began = self._clock.monotonic()
                wanted = _reference(container, handler)
                machine = handler == MACHINE_CLASS
                credentials = [None] if machine else await self._access.credentials(wanted, pod)
                progress = self._progress(pod, container)
                image = await pull_with_each(self._runtime, wanted, credentials, progress, handler)
        except (RuntimeFault, SourceUnavailable, TimeoutError) as error:
            reason = _MISMATCH if isinstance(error, ImageMismatch) else _FAILED
            self._results[key] = self._failed(pod, container, key, str(error), reason)
            return
        ended = self._clock.monotonic()
        took, waited = (format_duration(round(ended - since, 3)) for since in (began, asked))
        size = f"Image size: {image.size} bytes."
        self._tell(
            pod,
            container,
            "Pulled",
            f'Successfully pulled image "{name}" in {took} ({waited} including waiting). {size}',
        )
        self._errors.pop(key, None)
        self._back_offs.forget(key)
        self._entitled.add(key)
        self._results[key] = image

    def _progress(self, pod: Pod, container: JsonObject) -> Progress:
        """Tells of a pull that takes its time, now and then."""
        told = self._clock.monotonic()

        def progress(here: int, needed: int) -> None:
            nonlocal told
            if self._clock.monotonic() - told >= PROGRESS_TOLD:
                told = self._clock.monotonic()
                amount = f"{here >> 20} of {needed >> 20} MiB are here"
                self._tell(pod, container, "Pulling", f'Pulling image "{container["image"]}": {amount}')

        return progress

    def _failed(self, pod: Pod, container: JsonObject, key: str, error: str, reason: str = _FAILED) -> Unavailable:
        name, now = container["image"], self._clock.monotonic()
        self._warn(pod, container, "Failed", f'Failed to pull image "{name}": {error}')
        self._back_offs.next(key, now, now)
        self._errors[key] = (now, f"{reason}: {error}")
        return Unavailable(reason, error, now + ERROR_SHOWN)

    def _tell_present(self, pod: Pod, container: JsonObject) -> None:
        present = "already present on machine and can be accessed by the pod"
        self._tell(pod, container, "Pulled", f'Container image "{container["image"]}" {present}')

    def _tell(self, pod: Pod, container: JsonObject, reason: str, message: str) -> None:
        self._recorder.event(pod.container_reference(container["name"]), "Normal", reason, message)

    def _warn(self, pod: Pod, container: JsonObject, reason: str, message: str) -> None:
        self._recorder.event(pod.container_reference(container["name"]), "Warning", reason, message)


def _reference(container: JsonObject, handler: str) -> str:
    """What the runtime is asked for. Images of machines are the catalogue's: no registry has tags of them."""
    return container["image"] if handler == MACHINE_CLASS else with_tag(container["image"])
