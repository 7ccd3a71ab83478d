"""Messages about waves, shared by conditions, `why` and `tarmac rollout status`."""

from __future__ import annotations

from collections.abc import Sequence

from tarmac.base.duration import human_duration
from tarmac.decide import reasons
from tarmac.decide.rollout.waves import RESTART_WINDOW, Waves
from tarmac.decide.verdict import Refusal


def rollout_failure(waves: Waves) -> Refusal | None:
    """Return the failure that stopped the newest revision; None while nothing has failed."""
    failure, status = waves.status.failure, waves.status
    if failure is None:
        return None
    what = f"{failure.instance}: {failure.reason}" if failure.instance else failure.reason
    message = f"revision {status.revision} failed in wave {status.wave} of {status.waves}: {what}: {failure.message}"
    if waves.restored is not None:
        message = f"{message.rstrip('.')}; cities go back to revision {waves.restored.number}"
    change = "Mend the template and apply it, or go back with `tarmac rollout undo`."
    return Refusal(reasons.ROLLOUT_FAILED, message, failure.city, "rollout", change)


def wave_progress(waves: Waves) -> Refusal | None:
    """Return the reason the next wave waits; None when no city is left or the rollout has failed."""
    status = waves.status
    if not waves.waiting or status.failure is not None:
        return None
    message = f"Wave {status.wave} of {status.waves} is under way; {', '.join(waves.waiting)} come later"
    if waves.settling:
        message = f"{message}, when {', '.join(waves.settling)} {_have(waves.settling)} stayed ready"
    if waves.restarted:
        window = human_duration(RESTART_WINDOW)
        message = f"{message}; {', '.join(waves.restarted)} for {window}, since an instance has restarted"
    return Refusal(reasons.WAITING_FOR_WAVE, message, rule="rollout")


def _have(names: Sequence[str]) -> str:
    return "has" if len(names) == 1 else "have"
