"""A generated workload whose usefulness by kind is known: retrievals, what was delivered, what was referenced.

Candidates have features of all sorts, whichever the predictor has, whose logit by the prior's weights is spread as that
of what a search brings. Whether a delivered unit is referenced follows the prior's structure, the kind's true
usefulness, which the prior may have wrong (progress notes are used a lot, say, and corrections hardly), and what no
feature shows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np

from graphsvc.domain.predictors import PredictorVersion
from graphsvc.domain.units import ContextUnitKind
from graphsvc.ports import FeedbackExample
from graphsvc.ranking.calibration import Calibration, predictor_of, report_to_json
from graphsvc.ranking.value import PRIOR, PRIOR_REFERENCE_RATES, Feature

Floats = Any
KINDS = tuple(ContextUnitKind)
FEATURES = tuple(PRIOR.weights)
RATE = FEATURES.index(Feature.HISTORICAL_REFERENCE_RATE)
START = datetime(2026, 3, 1, tzinfo=UTC)
CANDIDATES = 40
BUDGET = 1200
MIN_VALUE = 0.02
RELEVANCE_MEAN, RELEVANCE_DEVIATION = -1.5, 1.5
"""Of what the features say by the prior's weights, in the logit: candidates that a search has brought, not anything."""
AVERAGE_USEFULNESS = 0.25
UNSEEN_DEVIATION = 1.0
"""What no feature shows, in the logit."""

AS_ASSUMED: Mapping[ContextUnitKind, float] = dict(PRIOR_REFERENCE_RATES)
"""The prior is right about every kind."""
OTHERWISE: Mapping[ContextUnitKind, float] = {
    ContextUnitKind.CORRECTION: 0.05,
    ContextUnitKind.CONSTRAINT: 0.10,
    ContextUnitKind.DECISION: 0.45,
    ContextUnitKind.OBSERVATION: 0.35,
    ContextUnitKind.STATE_SNAPSHOT: 0.08,
    ContextUnitKind.TOOL_RESULT: 0.05,
    ContextUnitKind.PROGRESS_NOTE: 0.60,
}
"""Tool results are overestimated, progress notes underestimated: the source's own example, and more."""


def logit(probability: float) -> float:
    return math.log(probability / (1.0 - probability))


def sigmoid(values: Floats) -> Floats:
    return 1.0 / (1.0 + np.exp(-values))


@dataclass(frozen=True, slots=True)
class Candidates:
    """One retrieval's candidates: features by column, kind, tokens, and the true probability of being referenced."""

    features: Floats
    kinds: list[ContextUnitKind]
    costs: Floats
    truth: Floats


def values_of(candidates: Candidates, version: PredictorVersion | None) -> Floats:
    """The candidates' values by a predictor; None: the shared prior."""
    predictor = PRIOR if version is None else predictor_of(version)
    rates = PRIOR_REFERENCE_RATES if version is None else version.reference_rates
    features = candidates.features.copy()
    features[:, RATE] = [rates[kind] for kind in candidates.kinds]
    return sigmoid(predictor.intercept + features @ np.array([predictor.weights[one] for one in FEATURES]))


def chosen(candidates: Candidates, values: Floats) -> list[int]:
    """What fits the budget by value / cost, skipping what does not."""
    left, taken = BUDGET, []
    for place in np.argsort(-values / candidates.costs, kind="stable"):
        if values[place] >= MIN_VALUE and candidates.costs[place] <= left:
            taken.append(int(place))
            left -= candidates.costs[place]
    return taken


@dataclass
class Simulation:
    """A tenant that retrieves and reports.

    Attributes:
        usefulness: true reference rate of each kind.
        version: the predictor in use; None: the shared prior.
        examples: feedback so far, oldest first.
    """

    seed: int = 0
    usefulness: Mapping[ContextUnitKind, float] = field(default_factory=lambda: OTHERWISE)
    version: PredictorVersion | None = None
    examples: list[FeedbackExample] = field(default_factory=list)
    versions: list[PredictorVersion] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng(self.seed)
        self.retrievals = 0

    def candidates(self, rng: np.random.Generator | None = None) -> Candidates:
        rng = rng or self.rng
        weights = np.array([0.0 if n == RATE else PRIOR.weights[one] for n, one in enumerate(FEATURES)])
        zero = PRIOR.intercept + PRIOR.weights[FEATURES[RATE]] * AVERAGE_USEFULNESS
        features = rng.random((CANDIDATES, len(FEATURES))) ** 2
        wanted = rng.normal(RELEVANCE_MEAN, RELEVANCE_DEVIATION, size=CANDIDATES) - zero
        for _ in range(3):  # towards the wanted logit, staying within [0, 1]
            missing = wanted - features @ weights
            features = np.clip(features + np.outer(missing, weights) / (weights @ weights), 0.0, 1.0)
        kinds = [KINDS[n] for n in rng.integers(len(KINDS), size=CANDIDATES)]
        of_kind = np.array([logit(self.usefulness[kind]) - logit(AVERAGE_USEFULNESS) for kind in kinds])
        unseen = rng.normal(0.0, UNSEEN_DEVIATION, size=CANDIDATES)
        truth = sigmoid(zero + features @ weights + of_kind + unseen)
        return Candidates(features, kinds, np.exp(rng.normal(5.3, 0.7, size=CANDIDATES)).astype(int) + 20, truth)

    def run(self, count: int, verdict: Callable[[np.random.Generator, Floats], Floats] | None = None) -> None:
        """Retrieves and reports so many times.

        Args:
            count: retrievals.
            verdict: what is reported of units with these true probabilities; None: the truth.
        """
        for _ in range(count):
            candidates = self.candidates()
            values = values_of(candidates, self.version)
            places = chosen(candidates, values)
            referenced = (verdict or honest)(self.rng, candidates.truth[places])
            retrieval_id = f"r{self.seed}-{self.retrievals}"
            reported = START + timedelta(minutes=self.retrievals)
            self.retrievals += 1
            self.examples += [
                FeedbackExample(
                    retrieval_id=retrieval_id,
                    reported_time=reported,
                    kind=candidates.kinds[place],
                    features=dict(
                        zip((one.value for one in FEATURES), map(float, candidates.features[place]), strict=True)
                    ),
                    value=float(values[place]),
                    referenced=bool(used),
                )
                for place, used in zip(places, referenced, strict=True)
            ]

    def newest(self, retrievals: int) -> list[FeedbackExample]:
        ids = list(dict.fromkeys(one.retrieval_id for one in self.examples))[-retrievals:]
        kept = set(ids)
        return [one for one in self.examples if one.retrieval_id in kept]

    def recalibrate(self, calibrate: Callable[..., Calibration], max_retrievals: int = 1000) -> Calibration:
        """Fits, and uses the result if it is to be adopted."""
        found = calibrate(self.newest(max_retrievals), self.version)
        version = version_of(found, len(self.versions) + 1)
        self.versions.append(version)
        if found.report.adopted:
            self.version = version
        return found


def honest(rng: np.random.Generator, truth: Floats) -> Floats:
    return rng.random(len(truth)) < truth


def inverted(rng: np.random.Generator, truth: Floats) -> Floats:
    return ~honest(rng, truth)


def at_random(share: float) -> Callable[[np.random.Generator, Floats], Floats]:
    """Verdicts that have nothing to do with the units."""
    return lambda rng, truth: rng.random(len(truth)) < share


def version_of(found: Calibration, number: int) -> PredictorVersion:
    return PredictorVersion(
        version=number,
        created_time=START,
        prior_version=PRIOR.version,
        intercept=found.intercept,
        weights=found.weights,
        reference_rates=found.reference_rates,
        retrieval_count=found.report.fit_retrievals,
        example_count=found.report.fit_examples,
        adopted=found.report.adopted,
        report_json=report_to_json(found.report),
    )


def shuffled(examples: Sequence[FeedbackExample], seed: int) -> Iterator[FeedbackExample]:
    """The same examples with their verdicts dealt out anew."""
    verdicts = np.random.default_rng(seed).permutation([one.referenced for one in examples])
    return (replace(one, referenced=bool(verdict)) for one, verdict in zip(examples, verdicts, strict=True))


@dataclass(frozen=True, slots=True)
class Quality:
    """A predictor on retrievals that it never saw, every candidate judged by the truth.

    Attributes:
        brier: mean squared error against drawn verdicts.
        auc: of all candidates.
        utility: expected references in the budget, a retrieval.
    """

    brier: float
    auc: float
    utility: float


def quality(
    simulation: Simulation, version: PredictorVersion | None, *, retrievals: int = 300, seed: int = 999
) -> Quality:
    """How good a predictor is under the simulation's present usefulness."""
    rng = np.random.default_rng(seed)
    values, verdicts, utility = [], [], 0.0
    for _ in range(retrievals):
        candidates = simulation.candidates(rng)
        valued = values_of(candidates, version)
        values.append(valued)
        verdicts.append(honest(rng, candidates.truth))
        utility += float(candidates.truth[chosen(candidates, valued)].sum())
    value, verdict = np.concatenate(values), np.concatenate(verdicts)
    order = np.argsort(value, kind="stable")
    ranks = np.empty(len(order))
    ranks[order] = np.arange(1, len(order) + 1)
    used = int(verdict.sum())
    auc = (ranks[verdict].sum() - used * (used + 1) / 2) / (used * (len(verdict) - used))
    return Quality(float(np.mean((value - verdict) ** 2)), float(auc), utility / retrievals)
