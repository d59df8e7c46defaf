"""Fixtures of the unit tests: one token counter for all, since loading vocabularies takes half a second."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphsvc.ranking.tokens import TiktokenCounter


@pytest.fixture(scope="session")
def vocabulary_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("vocabularies")


@pytest.fixture(scope="session")
def counter(vocabulary_dir: Path) -> TiktokenCounter:
    return TiktokenCounter(vocabulary_dir)
