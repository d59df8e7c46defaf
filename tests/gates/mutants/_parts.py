"""What several mutants need."""

from __future__ import annotations

from typing import Any

import pytest

from graphsvc.ranking import value


def silence_feature(patch: pytest.MonkeyPatch, name: str) -> None:
    """Gives the feature the same scaled value for every candidate, so that it says nothing."""
    real = value._features

    def features(*given: Any) -> list[tuple[value.Feature, float, float]]:
        return [(feature, raw, 0.5 if feature == name else scaled) for feature, raw, scaled in real(*given)]

    patch.setattr(value, "_features", features)
