"""What several mutants need."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from graphsvc.graph.catalog import Statement
from graphsvc.graph.feedback_store import GraphFeedbackStore
from graphsvc.ranking import value
from graphsvc.ranking.calibration import Calibration, calibrate
from graphsvc.services import calibration as calibration_use_cases


def silence_feature(patch: pytest.MonkeyPatch, name: str) -> None:
    """Gives the feature the same scaled value for every candidate, so that it says nothing."""
    real = value.features_of

    def features(*given: Any) -> list[tuple[value.Feature, float, float]]:
        return [(feature, raw, 0.5 if feature == name else scaled) for feature, raw, scaled in real(*given)]

    patch.setattr(value, "features_of", features)


def rewrite_statement(patch: pytest.MonkeyPatch, attribute: str, old: str, new: str) -> None:
    """Replaces a part of a statement of the feedback store."""
    real = GraphFeedbackStore.__init__

    def init(self: Any, *args: Any) -> None:
        real(self, *args)
        statement: Statement = getattr(self, attribute)
        assert old in statement.text
        setattr(self, attribute, dataclasses.replace(statement, text=statement.text.replace(old, new)))

    patch.setattr(GraphFeedbackStore, "__init__", init)


def fit_here(patch: pytest.MonkeyPatch) -> None:
    """Fits in this process, where a mutant's other patches hold."""

    async def fit(examples: Any, in_use: Any) -> Calibration:
        return calibrate(examples, in_use)

    patch.setattr(calibration_use_cases.CalibrationUseCases.__init__, "__defaults__", (fit,))


def decide_adoption(patch: pytest.MonkeyPatch, *, adopted: bool) -> None:
    """Adopts every fitted predictor, or none, whatever its report says."""
    real = calibration_use_cases._version

    def version(*given: Any) -> Any:
        return dataclasses.replace(real(*given), adopted=adopted)

    patch.setattr(calibration_use_cases, "_version", version)
