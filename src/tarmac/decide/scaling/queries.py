"""Builds the Prometheus query of an external metric: the series by name and labels, with the city filled in."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from tarmac.api.compute.scaling import MetricIdentifier
from tarmac.api.shared import LabelSelectorRequirement

_CITY: Final = re.compile(r"\{\{\s*context\.locality\.cityCode\s*\}\}")
_PLAIN_NAME: Final = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*", re.ASCII)
_SPECIAL: Final = re.compile(r"[.+*?()|\[\]{}^$\\]")


def prometheus_query(metric: MetricIdentifier, city: str) -> str:
    """Return the instant query of a metric for a deployment in this city."""
    matchers = list(_matchers(metric, city))
    if _PLAIN_NAME.fullmatch(metric.name):
        return f"{metric.name}{{{','.join(matchers)}}}" if matchers else metric.name
    return f"{{{','.join((_matcher('__name__', '=', metric.name), *matchers))}}}"


def rendered(value: str, city: str) -> str:
    """Return a label's value with the city substituted for its placeholder."""
    return _CITY.sub(lambda _: city, value)


def _matchers(metric: MetricIdentifier, city: str) -> Iterator[str]:
    selector = metric.selector
    if selector is None:
        return
    for key, value in selector.match_labels.items():
        yield _matcher(key, "=", rendered(value, city))
    for requirement in selector.match_expressions:
        yield _requirement(requirement, city)


def _requirement(requirement: LabelSelectorRequirement, city: str) -> str:
    if requirement.operator == "Exists":
        return _matcher(requirement.key, "!=", "")
    if requirement.operator == "DoesNotExist":
        return _matcher(requirement.key, "=", "")
    values = _any_of(rendered(value, city) for value in requirement.values)
    return _matcher(requirement.key, "=~" if requirement.operator == "In" else "!~", values)


def _any_of(values: Iterable[str]) -> str:
    return "|".join(_SPECIAL.sub(lambda found: f"\\{found[0]}", value) for value in values)


def _matcher(key: str, operator: str, value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'{key}{operator}"{escaped}"'
