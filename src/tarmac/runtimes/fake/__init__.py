"""An in-memory runtime for tests: scriptable, and otherwise like a real one."""

from __future__ import annotations

from tarmac.runtimes.fake.fakeruntime import FakeRuntime
from tarmac.runtimes.fake.programs import FakeProgram, RegistryImage

__all__ = ["FakeProgram", "FakeRuntime", "RegistryImage"]
