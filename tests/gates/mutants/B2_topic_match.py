"""Mutant: the predictor takes no notice of topic_match."""

from __future__ import annotations

import pytest

from tests.gates.mutants._parts import silence_feature

TESTS = "test_B2_topic_match"


def apply(patch: pytest.MonkeyPatch) -> None:
    silence_feature(patch, "topic_match")
