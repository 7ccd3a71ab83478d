"""Rewrites assertions of stories, whose modules are no tests by name."""

from __future__ import annotations

import pytest

MODULES = ("deletion", "losses", "places", "quotas", "rollouts", "scaling", "world")
pytest.register_assert_rewrite(*(f"tests.stories.{name}" for name in MODULES))
