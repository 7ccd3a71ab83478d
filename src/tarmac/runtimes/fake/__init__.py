"""A runtime in memory that does what it is told, and otherwise what a real one does."""

from __future__ import annotations

from tarmac.runtimes.fake.driver import FakeRuntime
from tarmac.runtimes.fake.programs import Program, RegistryImage

__all__ = ["FakeRuntime", "Program", "RegistryImage"]
