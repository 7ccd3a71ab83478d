"""An in-memory runtime for tests: scriptable, and otherwise like a real one."""

from __future__ import annotations

from tarmac.runtimes.fake.driver import FakeRuntime
from tarmac.runtimes.fake.programs import Program, RegistryImage

__all__ = ["FakeRuntime", "Program", "RegistryImage"]
