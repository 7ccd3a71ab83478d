"""Feature gates: their stages, defaults and aliases.

Every part of Tarmac with a gate reads it from here, and only this module handles gates without effect: an unknown gate
is a warning, since a configuration for kubelets names many. A gate that looks like a typo of a known one refuses the
start, since its author expects an effect. A stable gate cannot be changed any more.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from tarmac.base.log import log
from tarmac.base.typos import closest_name

Part = Literal["agent", "server", "controllers"]
_log = log("gates")


class BadGate(ValueError):
    """A gate that cannot be set like this. The message names it and the accepted values."""


@dataclass(frozen=True, slots=True)
class FeatureGate:
    """One gate. `aliases` are its alternative names."""

    name: str
    stage: Literal["alpha", "beta", "stable"]
    default: bool
    parts: frozenset[Part]
    aliases: tuple[str, ...] = ()


CLASS_RESOURCES: Final = "ClassResources"
EXTERNAL_SERVICES: Final = "ExternalServices"
SANDBOXED_GPUS: Final = "SandboxedGPUs"
SIZING_PROVIDERS: Final = "KubeletSizingProviders"
WAY_IN: Final = "WayIn"

REGISTRY: Final[tuple[FeatureGate, ...]] = (
    FeatureGate(CLASS_RESOURCES, "alpha", False, frozenset({"agent", "server", "controllers"}), ("QOSResources",)),
    FeatureGate(EXTERNAL_SERVICES, "beta", True, frozenset({"agent"})),
    FeatureGate(SANDBOXED_GPUS, "beta", True, frozenset({"agent"})),
    FeatureGate(SIZING_PROVIDERS, "alpha", False, frozenset({"agent"}), ("KubeletSizingProvider",)),
    FeatureGate(WAY_IN, "alpha", False, frozenset({"agent", "server", "controllers"})),
)
"""All gates."""


class FeatureGates:
    """The gate settings of one part of Tarmac, or of several in one process."""

    def __init__(
        self,
        parts: Part | Collection[Part],
        stated: Mapping[str, bool],
        registry: Iterable[FeatureGate] = REGISTRY,
        *,
        usual: Mapping[str, bool] | None = None,
    ) -> None:
        """Apply the settings; `usual` are defaults that differ from the registry's. Raises BadGate."""
        here = {parts} if isinstance(parts, str) else set(parts)
        self._gates = {gate.name: gate for gate in registry if here & gate.parts}
        self._usual = usual or {}
        named = {name: gate for gate in self._gates.values() for name in (gate.name, *gate.aliases)}
        self._set: dict[str, bool] = {}
        for name, value in stated.items():
            if name in named:
                self._set_gate(named[name], name, value)
            elif (near := closest_name(name, named)) is not None:
                raise BadGate(f"there is no feature gate {name}; did you mean {near}?")
            else:
                _log.warning("feature gate has no effect here", gate=name)

    def enabled(self, name: str) -> bool:
        """True if a gate of this part is on. Raises KeyError for a gate of other parts."""
        return self._set.get(name, self._usual.get(name, self._gates[name].default))

    def settings_of(self, *parts: Part) -> dict[str, bool]:
        """Return the settings for these parts: the value of each of their gates, by its canonical name."""
        return {name: self.enabled(name) for name, gate in self._gates.items() if gate.parts.intersection(parts)}

    def _set_gate(self, gate: FeatureGate, name: str, value: bool) -> None:
        if gate.stage == "stable" and value is not gate.default:
            given, locked = str(value).lower(), str(gate.default).lower()
            raise BadGate(f"cannot set feature gate {name} to {given}, feature is locked to {locked}")
        if self._set.setdefault(gate.name, value) is not value:
            names = " and ".join((gate.name, *gate.aliases))
            raise BadGate(f"{names} are one feature gate and were given different values; give one of them")


def merge_gates(
    under: Mapping[str, bool], over: Mapping[str, bool], registry: Iterable[FeatureGate] = REGISTRY
) -> dict[str, bool]:
    """Merge two settings gate by gate, resolving aliases; `over` wins."""
    own = {name: gate.name for gate in registry for name in (gate.name, *gate.aliases)}
    overridden = {own.get(name, name) for name in over}
    return {**{name: value for name, value in under.items() if own.get(name, name) not in overridden}, **over}
