"""``python -m tests.bench.calibration_simulation``: what calibration gains where the usefulness by kind is known.

Mean over several tenants. Fresh retrievals judge each predictor, every candidate against the truth. Utility is the
number of units that will be referenced within the budget, a retrieval; its ceiling ranks by the true probability.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from graphsvc.domain.predictors import PredictorVersion
from graphsvc.domain.units import ContextUnitKind
from graphsvc.ranking.calibration import calibrate
from tests.support.simulated_feedback import (
    AS_ASSUMED,
    BUDGET,
    CANDIDATES,
    OTHERWISE,
    Quality,
    Simulation,
    at_random,
    chosen,
    inverted,
    quality,
    shuffled,
    version_of,
)

BATCH = 100


def ceiling(simulation: Simulation, retrievals: int = 300, seed: int = 999) -> float:
    """Utility of ranking by the true probability, on the retrievals that judge."""
    rng = np.random.default_rng(seed)
    total = 0.0
    for _ in range(retrievals):
        candidates = simulation.candidates(rng)
        total += float(candidates.truth[chosen(candidates, candidates.truth)].sum())
        rng.random(len(candidates.truth))  # as many draws as quality makes
    return total / retrievals


def mean(found: list[Quality]) -> tuple[float, float, float]:
    return tuple(np.mean([(one.brier, one.auc, one.utility) for one in found], axis=0))  # type: ignore[return-value]


def growth(tenants: int, batches: int, usefulness: Mapping[ContextUnitKind, float], title: str) -> Table:
    """Quality by amount of feedback."""
    rows: list[list[Quality]] = [[] for _ in range(batches + 1)]
    adopted = [0] * (batches + 1)
    highest = []
    for seed in range(tenants):
        simulation = Simulation(seed=seed, usefulness=usefulness)
        highest.append(ceiling(simulation))
        for batch in range(batches + 1):
            if batch:
                simulation.run(BATCH)
                adopted[batch] += simulation.recalibrate(calibrate).report.adopted
            rows[batch].append(quality(simulation, simulation.version))
    table = Table(title=title, title_justify="left")
    for name in ("reported retrievals", "Brier score", "AUC", "utility", "of the ceiling", "adopted"):
        table.add_column(name, justify="right")
    for batch, found in enumerate(rows):
        brier, auc, utility = mean(found)
        table.add_row(
            f"{batch * BATCH}{'' if batch else ' (cold)'}",
            f"{brier:.4f}",
            f"{auc:.4f}",
            f"{utility:.3f}",
            f"{utility / np.mean(highest):.1%}",
            f"{adopted[batch]} of {tenants}" if batch else "",
        )
    return table


def attacks(tenants: int) -> Table:
    """How often something is adopted that should be, or should not."""

    def learned(seed: int, batches: int, **fields: Any) -> Simulation:
        simulation = Simulation(seed=seed, **fields)
        for _ in range(batches):
            simulation.run(BATCH)
            simulation.recalibrate(calibrate)
        return simulation

    def adopted_after(simulation: Simulation, batches: int = 1, verdict: Any = None) -> bool:
        before: PredictorVersion | None = simulation.version
        for _ in range(batches):
            simulation.run(BATCH, verdict)
            simulation.recalibrate(calibrate)
        return simulation.version is not before

    def drift(seed: int, batches: int) -> bool:
        simulation = learned(seed, 5, usefulness=AS_ASSUMED)
        simulation.usefulness = OTHERWISE
        return adopted_after(simulation, batches)

    def reported(seed: int, *batches: Any) -> Simulation:
        simulation = Simulation(seed=seed)
        for verdict in batches:
            simulation.run(BATCH, verdict)
        return simulation

    def dealt_anew(seed: int) -> bool:
        simulation = reported(seed, *[None] * 4)
        return version_of(calibrate(list(shuffled(simulation.examples, seed)), None), 1).adopted

    cases: dict[str, tuple[str, Callable[[int], bool]]] = {
        "other usefulness than assumed, 100 retrievals": ("yes", lambda seed: adopted_after(Simulation(seed=seed))),
        "the same, 200 retrievals": ("yes", lambda seed: adopted_after(Simulation(seed=seed), 2)),
        "usefulness as assumed, 300 retrievals": (
            "either",
            lambda seed: adopted_after(Simulation(seed=seed, usefulness=AS_ASSUMED), 3),
        ),
        "drift after 500 retrievals: 100 of it": ("not yet", lambda seed: drift(seed, 1)),
        "drift after 500 retrievals: up to 300 of it": ("yes", lambda seed: drift(seed, 3)),
        "drift after 500 retrievals: up to 500 of it": ("yes", lambda seed: drift(seed, 5)),
        "shuffled verdicts, 400 retrievals": ("no", dealt_anew),
        "100 inverted after 300 honest, fitted each 100": (
            "no",
            lambda seed: adopted_after(learned(seed, 3), 1, inverted),
        ),
        "100 inverted after 300 honest, fitted once": (
            "no",
            lambda seed: calibrate(reported(seed, None, None, None, inverted).examples, None).report.adopted,
        ),
        "300 honest, 100 inverted, 100 honest, fitted once": (
            "yes, without these",
            lambda seed: calibrate(reported(seed, None, None, None, inverted, None).examples, None).report.adopted,
        ),
        "100 at random after 300 honest": ("no", lambda seed: adopted_after(learned(seed, 3), 1, at_random(0.5))),
        "100 never referenced after 300 honest": ("no", lambda seed: adopted_after(learned(seed, 3), 1, at_random(0))),
        "100 always referenced after 300 honest": ("no", lambda seed: adopted_after(learned(seed, 3), 1, at_random(1))),
        "the first 100 inverted, nothing else": (
            "undecidable",
            lambda seed: adopted_after(Simulation(seed=seed), 1, inverted),
        ),
    }
    table = Table(title="is the fitted predictor adopted?", title_justify="left")
    for name in ("feedback", "should", "adopted"):
        table.add_column(name)
    for name, (should, adopted) in cases.items():
        table.add_row(name, should, f"{sum(adopted(seed) for seed in range(tenants))} of {tenants}")
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tenants", type=int, default=20, help="simulated tenants, 1 or more")
    parser.add_argument("--batches", type=int, default=6, help="batches of 100 retrievals, 1 or more")
    given = parser.parse_args()
    console = Console(width=110)
    console.print(f"{CANDIDATES} candidates a retrieval, {BUDGET} tokens, {given.tenants} tenants")
    console.print(growth(given.tenants, given.batches, OTHERWISE, "kinds are useful otherwise than assumed"))
    console.print(growth(given.tenants, 3, AS_ASSUMED, "kinds are as useful as assumed"))
    console.print(attacks(given.tenants))


if __name__ == "__main__":
    main()
