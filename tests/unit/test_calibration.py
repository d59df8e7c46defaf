"""Recalibration: the fit, what judges it, and a simulated workload of known usefulness by kind (gates B9, B10)."""

from __future__ import annotations

import math
import subprocess
import sys
from dataclasses import replace
from datetime import timedelta

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from graphsvc.domain.units import ContextUnitKind
from graphsvc.ports import FeedbackExample
from graphsvc.ranking import calibration
from graphsvc.ranking.calibration import calibrate, is_held_out, predictor_of, report_from_json, report_to_json
from graphsvc.ranking.value import PRIOR, PRIOR_REFERENCE_RATES, Feature
from tests.support.simulated_feedback import (
    AS_ASSUMED,
    FEATURES,
    KINDS,
    OTHERWISE,
    START,
    Simulation,
    at_random,
    inverted,
    quality,
    shuffled,
    version_of,
)

few = settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))


@st.composite
def feedback(draw: st.DrawFn) -> list[FeedbackExample]:
    """Any feedback, however odd."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    constant = draw(st.booleans())
    share = draw(st.sampled_from([0.0, 0.1, 0.5, 1.0]))
    return [
        FeedbackExample(
            retrieval_id=f"r{number}",
            reported_time=START + timedelta(seconds=number),
            kind=KINDS[rng.integers(len(KINDS))],
            features={one.value: 0.5 if constant else float(rng.random()) for one in FEATURES},
            value=0.5,
            referenced=bool(rng.random() < share),
        )
        for number in range(draw(st.integers(0, 60)))
        for _ in range(3)
    ]


@pytest.fixture(scope="module")
def reported() -> list[FeedbackExample]:
    """Four batches of a tenant whose kinds are useful otherwise than assumed."""
    simulation = Simulation(seed=11)
    simulation.run(400)
    return simulation.examples


# ---- what a version means -------------------------------------------------------------------------------------------


def test_a_version_of_other_features_is_read_as_far_as_they_are_known() -> None:
    known = version_of(calibrate((), None), 3)
    version = replace(known, intercept=-1.0, weights={Feature.TOPIC_MATCH.value: 2.0, "of_another_release": 9.0})
    predictor = predictor_of(version)
    assert predictor.version == "v3"
    assert predictor.intercept == -1.0
    assert predictor.weights == {**PRIOR.weights, Feature.TOPIC_MATCH: 2.0}


def test_reading_a_version_loads_no_optimiser() -> None:
    script = "import sys; import graphsvc.services.calibration; print('scipy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


# ---- the fit --------------------------------------------------------------------------------------------------------


def test_without_feedback_the_prior_stands() -> None:
    found = calibrate((), None)
    assert found.intercept == pytest.approx(PRIOR.intercept)
    assert found.weights == pytest.approx({one.value: weight for one, weight in PRIOR.weights.items()})
    assert found.reference_rates == pytest.approx(dict(PRIOR_REFERENCE_RATES))
    assert not found.report.adopted
    assert found.report.in_use.brier is None


@few
@given(feedback())
def test_weights_keep_the_sign_of_the_prior(examples: list[FeedbackExample]) -> None:
    found = calibrate(examples, None)
    assert math.isfinite(found.intercept)
    for feature, prior in PRIOR.weights.items():
        weight = found.weights[feature.value]
        assert weight * prior >= 0.0
        assert abs(weight) <= max(calibration.MAX_WEIGHT, 2 * abs(prior))


@few
@given(feedback())
def test_reference_rates_lie_between_the_prior_and_what_was_seen(examples: list[FeedbackExample]) -> None:
    rates = calibrate(examples, None).reference_rates
    fitted = [one for one in examples if not is_held_out(one.retrieval_id)]
    for kind, prior in PRIOR_REFERENCE_RATES.items():
        seen = [one.referenced for one in fitted if one.kind is kind]
        assert min([prior, *seen]) - 1e-9 <= rates[kind] <= max([prior, *seen]) + 1e-9


@few
@given(feedback())
def test_the_same_feedback_gives_the_same_predictor(examples: list[FeedbackExample]) -> None:
    assert calibrate(examples, None) == calibrate(list(examples), None)


@few
@given(feedback())
def test_the_report_can_be_written_and_read(examples: list[FeedbackExample]) -> None:
    report = calibrate(examples, None).report
    assert report_from_json(report_to_json(report)) == report


def test_what_is_kept_out_never_moves_the_fit(reported: list[FeedbackExample]) -> None:
    held_out = {one.retrieval_id for one in reported if is_held_out(one.retrieval_id)}
    assert 0.2 * 400 < len(held_out) < 0.4 * 400
    changed = [replace(one, referenced=not one.referenced) if one.retrieval_id in held_out else one for one in reported]
    before, after = calibrate(reported, None), calibrate(changed, None)
    assert (before.intercept, before.weights, before.reference_rates) == (
        after.intercept,
        after.weights,
        after.reference_rates,
    )
    assert before.report != after.report


def test_the_fit_reaches_the_optimum(reported: list[FeedbackExample]) -> None:
    """The gradient of the penalised loss is nothing wherever no bound holds a weight."""
    found = calibrate(reported, None)
    data = calibration.Verdicts.of(reported)
    data = data.part(~data.held_out)
    columns = data.features.copy()
    columns[:, FEATURES.index(Feature.HISTORICAL_REFERENCE_RATE)] = [found.reference_rates[kind] for kind in data.kinds]
    weights = np.array([found.weights[one.value] for one in FEATURES])
    value = 1.0 / (1.0 + np.exp(-(found.intercept + columns @ weights)))
    slope = data.influence * (value - data.referenced)
    prior = np.array([PRIOR.weights[one] for one in FEATURES])
    gradient = columns.T @ slope + (weights - prior) / calibration.WEIGHT_DEVIATION**2
    assert abs(slope.sum() + (found.intercept - PRIOR.intercept) / calibration.WEIGHT_DEVIATION**2) < 0.05
    assert np.abs(gradient[np.abs(weights) > 1e-9]).max() < 0.05


def test_examples_of_other_features_are_left_out(reported: list[FeedbackExample]) -> None:
    odd = [replace(one, features={"of_another_release": 1.0}, retrieval_id=one.retrieval_id + "x") for one in reported]
    assert calibrate([*odd, *reported], None) == calibrate(reported, None)


def test_B9_history_gains_weight_smoothly_with_the_amount_of_feedback() -> None:
    simulation = Simulation(seed=5)
    spreads, structure = [], []
    amounts = (0, 5, 10, 20, 40, 80, 160, 320)
    for before, amount in zip((0, *amounts), amounts, strict=False):
        simulation.run(amount - before)
        found = calibrate(simulation.examples, None)
        rates = found.reference_rates
        # how far history alone parts the kind used most from the one used least
        gap = rates[ContextUnitKind.PROGRESS_NOTE] - rates[ContextUnitKind.CORRECTION]
        spreads.append(found.weights[Feature.HISTORICAL_REFERENCE_RATE.value] * gap)
        structure.append(found.weights[Feature.GRAPH_DISTANCE.value] / PRIOR.weights[Feature.GRAPH_DISTANCE])
    assert spreads[0] < 0 < spreads[-1], "the prior thinks otherwise, and is outgrown"
    assert spreads == sorted(spreads)
    whole = spreads[-1] - spreads[0]
    assert max(np.diff(spreads)) < 0.6 * whole, "no leap"
    assert spreads[1] - spreads[0] < 0.15 * whole, "five retrievals hardly matter"
    assert all(0.6 < share < 1.4 for share in structure[:4]), "structure stands while there is little feedback"


# ---- what judges ----------------------------------------------------------------------------------------------------


@few
@given(st.lists(st.tuples(st.integers(0, 5), st.booleans()), min_size=2, max_size=40))
def test_auc_is_the_share_of_pairs_in_order(units: list[tuple[int, bool]]) -> None:
    values = np.array([value / 5 for value, _ in units])
    verdicts = np.array([float(referenced) for _, referenced in units])
    data = calibration.Verdicts.of(
        [
            FeedbackExample(f"r{n}", START, KINDS[0], {one.value: 0.0 for one in FEATURES}, 0.5, referenced)
            for n, (_, referenced) in enumerate(units)
        ]
    )
    auc, error = calibration._auc(data, values)
    used, ignored = values[verdicts == 1.0], values[verdicts == 0.0]
    if not (len(used) and len(ignored)):
        assert auc is None
        return
    pairs = [1.0 if a > b else 0.5 if a == b else 0.0 for a in used for b in ignored]
    assert auc == pytest.approx(np.mean(pairs))
    assert error is not None
    assert 0.0 <= error <= 1.0


def test_rates_by_kind_and_tenth_add_up(reported: list[FeedbackExample]) -> None:
    report = calibrate(reported, None).report
    for found in (report.in_use, report.candidate):
        for groups in (found.by_kind, found.by_decile):
            assert sum(one.count for one in groups) == report.held_out_examples
        assert [one.kind for one in found.by_kind] == list(ContextUnitKind)
        assert len(found.by_decile) == 10
        assert [one.expected for one in found.by_decile] == sorted(one.expected for one in found.by_decile)
    observed = {one.kind: one.observed for one in report.in_use.by_kind}
    held_out = [one for one in reported if is_held_out(one.retrieval_id)]
    for kind, rate in observed.items():
        assert rate == pytest.approx(np.mean([one.referenced for one in held_out if one.kind is kind]))

    def error(rates):
        return np.mean([abs(one.expected - one.observed) for one in rates])

    assert error(report.candidate.by_kind) < 0.5 * error(report.in_use.by_kind), "expected comes near observed"


def test_too_little_feedback_adopts_nothing() -> None:
    simulation = Simulation(seed=2)
    simulation.run(20)
    report = calibrate(simulation.examples, None).report
    assert not report.adopted
    assert "too little feedback" in report.reasons[0]


@pytest.mark.parametrize("verdict", [True, False])
def test_verdicts_that_are_all_alike_adopt_nothing(reported: list[FeedbackExample], verdict: bool) -> None:
    report = calibrate([replace(one, referenced=verdict) for one in reported], None).report
    assert not report.adopted
    assert report.candidate.auc is None


def test_the_predictor_in_use_is_not_replaced_by_itself(reported: list[FeedbackExample]) -> None:
    found = calibrate(reported, None)
    again = calibrate(reported, version_of(found, 1))
    assert found.report.adopted
    assert not again.report.adopted
    assert again.report.in_use_version == 1
    assert again.report.brier_gain == 0.0


# ---- simulation -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_a_calibrated_predictor_beats_the_cold_one_clearly(seed: int) -> None:
    simulation = Simulation(seed=seed)
    for _ in range(4):
        simulation.run(100)
        simulation.recalibrate(calibrate)
    assert simulation.version is not None
    cold, fitted = quality(simulation, None), quality(simulation, simulation.version)
    assert fitted.brier < 0.9 * cold.brier
    assert fitted.auc > cold.auc
    assert fitted.utility > 1.01 * cold.utility


@pytest.mark.parametrize("seed", range(3))
def test_where_the_prior_is_right_calibration_does_no_harm(seed: int) -> None:
    simulation = Simulation(seed=seed, usefulness=AS_ASSUMED)
    for _ in range(4):
        simulation.run(100)
        simulation.recalibrate(calibrate)
    cold, fitted = quality(simulation, None), quality(simulation, simulation.version)
    assert fitted.brier < 1.01 * cold.brier
    assert fitted.utility > 0.99 * cold.utility


@pytest.mark.parametrize("seed", range(5))
def test_B10_shuffled_verdicts_are_not_adopted(reported: list[FeedbackExample], seed: int) -> None:
    report = calibrate(list(shuffled(reported, seed)), None).report
    assert not report.adopted
    assert any("chance" in reason for reason in report.reasons)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("poison", [inverted, at_random(0.5), at_random(0.0), at_random(1.0)])
def test_B10_a_poisoned_batch_is_not_adopted(poison, seed: int) -> None:
    simulation = Simulation(seed=seed)
    for _ in range(3):
        simulation.run(100)
        simulation.recalibrate(calibrate)
    honest = simulation.version
    assert honest is not None
    simulation.run(100, poison)
    found = simulation.recalibrate(calibrate)
    assert not found.report.adopted
    assert simulation.version is honest


@pytest.mark.parametrize("seed", range(3))
def test_B10_a_poisoned_batch_is_left_out_of_what_is_fitted_later(seed: int) -> None:
    """Nothing was fitted before, so the honest feedback is worth adopting; but not while it goes on, nor with it."""
    simulation = Simulation(seed=seed)
    simulation.run(300)
    honest = version_of(calibrate(simulation.examples, None), 1)
    simulation.run(100, inverted)
    meanwhile = simulation.recalibrate(calibrate)
    assert not meanwhile.report.adopted
    assert any("contradicts" in reason for reason in meanwhile.report.reasons)
    simulation.run(100)
    found = simulation.recalibrate(calibrate)
    assert found.report.adopted
    assert 50 < found.report.left_out_retrievals <= 100
    assert quality(simulation, simulation.version).utility > 0.98 * quality(simulation, honest).utility


@pytest.mark.parametrize("seed", range(2))
def test_B10_a_drift_is_adopted_within_five_batches(seed: int) -> None:
    simulation = Simulation(seed=seed, usefulness=AS_ASSUMED)
    for _ in range(5):
        simulation.run(100)
        simulation.recalibrate(calibrate)
    before = simulation.version
    simulation.usefulness = OTHERWISE
    for _ in range(5):
        simulation.run(100)
        simulation.recalibrate(calibrate)
    assert simulation.version is not before
    assert quality(simulation, simulation.version).brier < quality(simulation, before).brier
