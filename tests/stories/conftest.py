"""Stories are not tests by name; their assertions are to be explained all the same."""

from __future__ import annotations

import pytest

MODULES = ("deletion", "losses", "places", "quotas", "rollouts", "scaling", "world")
pytest.register_assert_rewrite(*(f"tests.stories.{name}" for name in MODULES))
