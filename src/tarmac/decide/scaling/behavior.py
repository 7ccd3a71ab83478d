"""Applies the recent history, the `behavior` policies and the bounds to a recommendation.

The history holds earlier recommendations (for stabilization windows) and actual changes (for policies). It is passed in
and out. A restarted controller starts with `History.begin`: the current number then counts as recommended, so the first
evaluation does not scale down.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from tarmac.api.compute.scaling import ScaleSettings, ScalingPolicy, ScalingRules
from tarmac.api.compute.validation.scaling import MAX_REPLICAS
from tarmac.decide import reasons
from tarmac.decide.scaling.measuring import measured
from tarmac.decide.scaling.metrics import Reading, metric_name, propose
from tarmac.decide.scaling.tolerance import Tolerance
from tarmac.decide.verdict import Refusal, Verdict

_RULE: Final = "scaling.behavior"
_UP: Final = ScalingRules(
    stabilization_window_seconds=0,
    select_policy="Max",
    policies=[
        ScalingPolicy(type="Pods", value=4, period_seconds=15),
        ScalingPolicy(type="Percent", value=100, period_seconds=15),
    ],
)
_DOWN: Final = ScalingRules(
    stabilization_window_seconds=300,
    select_policy="Max",
    policies=[ScalingPolicy(type="Percent", value=100, period_seconds=15)],
)
_MAX_WINDOW: Final = 3600  # seconds of the longest window; periods are shorter

Entry = tuple[float, int]


# Selects the largest proposal over all metrics.


@dataclass(frozen=True, slots=True)
class Recommendation:
    """A number of instances, the metric that asks for it, and that metric's value and target as text."""

    replicas: int
    metric: str
    measured: str = ""


def recommend(settings: ScaleSettings, readings: Sequence[Reading], current: int) -> Verdict[Recommendation]:
    """Return the number the metrics ask for; `readings` are in the order of the settings' metrics.

    While a metric is unavailable, the remaining ones may raise the number, but not lower it: the unavailable one might
    need the instances. The verdict is then a refusal, and the number stays.
    """
    tolerance = Tolerance.of(settings.behavior)
    best: Recommendation | None = None
    refusals: list[Refusal] = []
    for metric, reading in zip(settings.metrics, readings, strict=True):
        proposal = propose(metric, reading, current, tolerance)
        refusals += proposal.refusals
        if proposal.value is not None and (best is None or proposal.value > best.replicas):
            best = Recommendation(proposal.value, metric_name(metric), measured(metric, reading))
    if best is not None and refusals and best.replicas < current:
        best = None
    return Verdict(best, tuple(refusals))


@dataclass(frozen=True, slots=True)
class History:
    """(time, recommended) and (time, change) pairs of the last hour."""

    recommended: tuple[Entry, ...] = ()
    changed: tuple[Entry, ...] = ()

    @staticmethod
    def begin(current: int, now: float) -> History:
        """Return a history in which the current number was recommended."""
        return History(recommended=((now, current),))

    def with_recommendation(self, replicas: int, now: float) -> History:
        """Return the history with a recommendation, whether or not it was followed."""
        return replace(self, recommended=(*_recent(self.recommended, now), (now, replicas)))

    def with_change(self, before: int, after: int, now: float) -> History:
        """Return the history with a change that was actually written."""
        return replace(self, changed=(*_recent(self.changed, now), (now, after - before)))


@dataclass(frozen=True, slots=True)
class ScaleDecision:
    """The number of instances there should be now.

    `refusals` tell why it is limited, or why metrics are unavailable.
    """

    replicas: int
    history: History
    metric: str = ""
    refusals: tuple[Refusal, ...] = ()


def scale(
    settings: ScaleSettings, readings: Sequence[Reading], current: int, history: History, now: float
) -> ScaleDecision:
    """Return the whole decision, from readings to a number within the bounds. Record the write with `with_change`."""
    low, high = _bounds(settings)
    if not low <= current <= high:
        return ScaleDecision(max(low, min(current, high)), history)
    verdict = recommend(settings, readings, current)
    if verdict.value is None:
        return ScaleDecision(current, history, refusals=verdict.refusals)
    outcome = stabilise(settings, verdict.value.replicas, current, history, now)
    held = tuple(_measured(refusal, verdict.value.measured) for refusal in outcome.refusals)
    return replace(outcome, metric=verdict.value.metric, refusals=verdict.refusals + held)


def _measured(refusal: Refusal, measured: str) -> Refusal:
    return replace(refusal, message=f"{refusal.message[:-1]} ({measured})." if measured else refusal.message)


def stabilise(settings: ScaleSettings, recommended: int, current: int, history: History, now: float) -> ScaleDecision:
    """Return the part of a recommendation that may be followed now."""
    up, down = _rules(settings)
    steady = _steady(recommended, current, history, now, up, down)
    if steady > current:
        limit = max(_limit(up, current, history, now, sign=1), current)
    else:
        limit = min(_limit(down, current, history, now, sign=-1), current)
    low, high = _bounds(settings)
    replicas = min(steady, limit, high) if steady > current else max(steady, limit, low)
    held = _held(recommended, steady, replicas, current, low, high)
    return ScaleDecision(replicas, history.with_recommendation(recommended, now), refusals=held)


def _bounds(settings: ScaleSettings) -> tuple[int, int]:
    return settings.min_replicas, settings.max_replicas or MAX_REPLICAS


def _rules(settings: ScaleSettings) -> tuple[ScalingRules, ScalingRules]:
    behavior = settings.behavior
    if behavior is None:
        return _UP, _DOWN
    return _filled(behavior.scale_up, _UP), _filled(behavior.scale_down, _DOWN)


def _filled(rules: ScalingRules | None, default: ScalingRules) -> ScalingRules:
    if rules is None:
        return default
    window = rules.stabilization_window_seconds
    return ScalingRules(
        stabilization_window_seconds=default.stabilization_window_seconds if window is None else window,
        select_policy=rules.select_policy or default.select_policy,
        policies=rules.policies or default.policies,
    )


def _steady(recommended: int, current: int, history: History, now: float, up: ScalingRules, down: ScalingRules) -> int:
    """Limit scaling up to the lowest, and down to the highest recommendation of the window."""
    lowest = min([recommended, *_since(history.recommended, now, up.stabilization_window_seconds or 0)])
    highest = max([recommended, *_since(history.recommended, now, down.stabilization_window_seconds or 0)])
    return min(max(current, lowest), highest)


def _limit(rules: ScalingRules, current: int, history: History, now: float, *, sign: int) -> int:
    """Return the limit that the policies set, relative to the number at the start of each period."""
    if rules.select_policy == "Disabled":
        return current
    farthest = rules.select_policy != "Min"
    limits = (
        _policy_limit(policy, current - sum(_since(history.changed, now, policy.period_seconds)), sign)
        for policy in rules.policies
    )
    return max(limits) if farthest == (sign > 0) else min(limits)


def _policy_limit(policy: ScalingPolicy, start: int, sign: int) -> int:
    if policy.type == "Pods":
        return start + sign * policy.value
    if sign > 0:
        return -(-start * (100 + policy.value) // 100)
    return max(0, start * (100 - policy.value)) // 100


def _held(recommended: int, steady: int, replicas: int, current: int, low: int, high: int) -> tuple[Refusal, ...]:
    """Return the reason why the number is not the recommended one: a permanent bound first, else a temporary limit."""
    asked = f"The metrics ask for {recommended} instances"
    if replicas == recommended:
        return ()
    if replicas == high < recommended:
        change = f"Raise maxReplicas to {recommended}."
        return (Refusal(reasons.TOO_MANY_REPLICAS, f"{asked}; maxReplicas is {high}.", rule=_RULE, change=change),)
    if replicas == low > recommended:
        change = f"Lower minReplicas to {max(recommended, 1)}."
        return (Refusal(reasons.TOO_FEW_REPLICAS, f"{asked}; minReplicas is {low}.", rule=_RULE, change=change),)
    if replicas == steady:
        past = reasons.SCALE_UP_STABILIZED if recommended > current else reasons.SCALE_DOWN_STABILIZED
        return (Refusal(past, f"{asked}; a recent recommendation holds {replicas}.", rule=_RULE),)
    return (Refusal(reasons.SCALE_RATE_LIMITED, f"{asked}; policies allow {replicas} now.", rule=_RULE),)


def _since(entries: Iterable[Entry], now: float, seconds: int) -> list[int]:
    return [value for moment, value in entries if moment > now - seconds]


def _recent(entries: Iterable[Entry], now: float) -> tuple[Entry, ...]:
    return tuple(entry for entry in entries if entry[0] > now - _MAX_WINDOW)
