"""Ratios of LimitRanges are computed in whole numbers: quotients of quantities may be larger than any float."""

from __future__ import annotations

from typing import Any

import pytest

from tarmac.api.catalog import build_catalog
from tarmac.base.fielderrors import FieldErrors


def found(**limits: str) -> list[str]:
    resource = build_catalog().find("", "v1", "limitranges")
    assert resource is not None
    item = {"type": "Container", **{field: {"cpu": text} for field, text in limits.items()}}
    obj: Any = {"metadata": {"name": "a", "namespace": "default"}, "spec": {"limits": [item]}}
    errors = FieldErrors()
    resource.strategy.default(obj)
    resource.strategy.validate(obj, errors)
    return [str(each) for each in errors]


@pytest.mark.parametrize("high", ["1e308", "1e400", "9" * 23, "9" * 300])
@pytest.mark.parametrize("low", ["1e-9", "1m", "1", "1e-30"])
@pytest.mark.parametrize("ratio", ["2", "1e308", "1e400"])
def test_extreme_ratios_are_judged(high: str, low: str, ratio: str) -> None:
    errors = found(max=high, min=low, maxLimitRequestRatio=ratio)
    assert all("is greater than max/min = " in each for each in errors), errors


def test_a_ratio_is_shown_as_go_shows_it() -> None:
    (error,) = found(max="1", min="300m", maxLimitRequestRatio="4")
    assert error.endswith("ratio 4 is greater than max/min = 3.333333")
    assert found(max="1", min="250m", maxLimitRequestRatio="4") == []
