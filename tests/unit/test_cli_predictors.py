"""What ``graphsvc recalibrate`` and ``graphsvc predictors`` print."""

from __future__ import annotations

import io
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from rich.console import Console

from graphsvc.cli.predictors import name_of, print_predictor, print_versions
from graphsvc.client import PredictorInfo
from graphsvc.domain.units import ContextUnitKind
from graphsvc.ranking.calibration import calibrate
from tests.support.simulated_feedback import Simulation


@pytest.fixture(scope="module")
def fitted() -> PredictorInfo:
    simulation = Simulation(seed=1)
    simulation.run(120)
    found = calibrate(simulation.examples, None)
    return PredictorInfo(
        version=3,
        created_time=datetime(2026, 1, 2, 3, 4, tzinfo=UTC),
        prior_version="prior",
        intercept=found.intercept,
        weights=found.weights,
        reference_rates=found.reference_rates,
        adopted=found.report.adopted,
        in_use=True,
        report=found.report,
    )


def printed(show, *given) -> str:
    text = io.StringIO()
    show(*given, Console(file=text, width=150))
    return text.getvalue()


def test_a_report_shows_expected_against_observed_by_kind_and_tenth(fitted: PredictorInfo) -> None:
    text = printed(print_predictor, fitted)
    report = fitted.report
    assert "version 3: fitted on" in text
    assert "measured against the shared prior" in text
    for kind in ContextUnitKind:
        assert kind.value in text
    row = next(one for one in report.candidate.by_kind if one.kind is ContextUnitKind.DECISION)
    assert f"{row.expected:.3f}" in text
    assert f"{row.observed:.3f}" in text
    assert f"{report.candidate.by_decile[-1].observed:.3f}" in text
    assert f"{report.candidate.brier:.4f}" in text
    assert f"{report.candidate.auc:.3f}" in text
    assert f"adopted: {report.reasons[0]}" in " ".join(text.split())


def test_a_refused_one_says_why(fitted: PredictorInfo) -> None:
    empty = calibrate((), None).report
    text = printed(print_predictor, replace(fitted, adopted=False, report=empty))
    assert "not adopted: too little feedback" in text
    assert "none" in text


def test_versions_are_listed_with_the_one_in_use(fitted: PredictorInfo) -> None:
    text = printed(print_versions, [replace(fitted, version=4, adopted=False, in_use=False), fitted])
    assert "3 in use" in text
    assert "4 in use" not in text
    assert "2026-01-02 03:04" in text
    assert "shared prior" in printed(print_versions, [])
    assert (name_of(0), name_of(2)) == ("the shared prior", "version 2")
