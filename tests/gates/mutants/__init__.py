"""Mutants: one module per gate, named by its id, that switches the gate's behaviour off.

Each has ``TESTS``, the beginning of the names of the tests that must fail, and ``apply(patch)``.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

VARIABLE = "GATES_MUTANT"
_active: list[pytest.MonkeyPatch] = []


def names() -> Iterator[str]:
    """Every mutant by name."""
    for path in sorted(Path(__file__).parent.glob("*.py")):
        if not path.stem.startswith("_"):
            yield path.stem


def tests_of(name: str) -> str:
    """The beginning of the names of the tests that the mutant must turn red."""
    return str(importlib.import_module(f"{__name__}.{name}").TESTS)


def apply_from_environment() -> None:
    """Applies the mutant that the environment names, once, until the process ends."""
    name = os.environ.get(VARIABLE)
    if name and not _active:
        patch = pytest.MonkeyPatch()
        _active.append(patch)
        importlib.import_module(f"{__name__}.{name}").apply(patch)
