"""Mutant: the predictor takes no notice of model_attention_profile."""

from __future__ import annotations

import pytest

from tests.gates.mutants._parts import silence_feature

TESTS = "test_B2_model_attention"


def apply(patch: pytest.MonkeyPatch) -> None:
    silence_feature(patch, "model_attention_profile")
