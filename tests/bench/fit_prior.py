"""``python -m tests.bench.fit_prior``: the weights of the prior fitted anew to public data, beside the shipped ones.

Every question is asked of the real service and every candidate's features are read back through explain, so what is
fitted is what is served. A candidate counts as referenced when it is a gold unit of its question. Logistic regression
with weights of 0 or more and an L2 penalty towards 0; every question of a set counts alike and every set counts the
same in all, however large. What this data cannot inform (age, kind, what was delivered before, distance from a named
task) is held at its shipped weight, as an offset.

The default sets are those the prior was fitted to. Their licences allow to ship what is fitted to them; LoCoMo's (CC
BY-NC) does not. Nothing else tells one set from another.

Needs ctxbench on the path: ``PYTHONPATH=.:CTXBENCH .venv-bench/bin/python -m tests.bench.fit_prior --data FOLDER``.
GRAPHSVC_EMBEDDER says with which embedder. Both predictors are judged on what was fitted, so the figures say how well
the weights describe the data and not how well they generalise.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize
from scipy.special import expit
from scipy.stats import rankdata

from graphsvc.client import GraphsvcClient, RankedUnit
from graphsvc.ranking.value import PRIOR, TOPIC_ANCHOR_STRENGTH, Feature
from tests.bench.ctx_ranker import MODEL, Corpus, Loop, Query, ingest, shared_loop

Floats = npt.NDArray[np.float64]

DEFAULT_SETS = ("hotpotqa", "2wikimultihopqa", "musique", "commit-loc")
FITTED = (
    Feature.TOPIC_MATCH,
    Feature.QUERY_COVERAGE,
    Feature.NAME_MATCH,
    Feature.LINKED_TOPIC,
    Feature.SESSION_TOPIC,
    Feature.SUBSTANCE,
)
SHIPPED = np.array([PRIOR.intercept, *(PRIOR.weights[feature] for feature in FITTED)])
SHIPPED_DISTANCE = PRIOR.weights[Feature.GRAPH_DISTANCE] * TOPIC_ANCHOR_STRENGTH
"""What graph_distance weighs from a topic anchor; there is no other anchor where a question names none."""
SET_WEIGHT = 100.0
"""Of a set's questions together, against the penalty."""
PENALTY = 1.0
"""Of half a squared weight; the intercept is free."""
RETRIEVAL_BUDGET = 20_000
"""Tokens: enough that ranking is never cut short, so that every candidate near or on topic has its features."""
PROGRESS_EVERY = 25


class Question(Query, Protocol):
    """What is used of a question with its labels."""

    gold: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Examples:
    """The candidates of all questions of a set, one row each.

    Attributes:
        features: scaled, a column a feature of ``FITTED``.
        distance: scaled graph_distance.
        offset: logit of the features that are held, graph_distance among them.
        wanted: 1.0 where the candidate is gold.
        questions: asked.
        gold: units that are gold, over all questions, candidates or not.
        partial: answers in which a search was cut short.
    """

    features: Floats
    distance: Floats
    offset: Floats
    wanted: Floats
    questions: int
    gold: int
    partial: int

    @classmethod
    def joined(cls, parts: Sequence[Examples]) -> Examples:
        """All rows of the parts, in order."""
        return cls(
            np.concatenate([part.features for part in parts]),
            np.concatenate([part.distance for part in parts]),
            np.concatenate([part.offset for part in parts]),
            np.concatenate([part.wanted for part in parts]),
            sum(part.questions for part in parts),
            sum(part.gold for part in parts),
            sum(part.partial for part in parts),
        )


def examples_of(candidates: Sequence[RankedUnit], gold: Sequence[str], *, partial: bool) -> Examples:
    """One question's candidates; those that were left unranked have no features and are no examples."""
    valued = [one for one in candidates if one.contributions]
    parts = [{part.feature: part for part in one.contributions} for one in valued]
    return Examples(
        features=np.array([[of[name.value].scaled for name in FITTED] for of in parts]).reshape(-1, len(FITTED)),
        distance=np.array([of[Feature.GRAPH_DISTANCE.value].scaled for of in parts]),
        offset=np.array([sum(part.logit for part in of.values() if part.feature not in FITTED) for of in parts]),
        wanted=np.array([float(one.unit_key in gold) for one in valued]),
        questions=1,
        gold=len(gold),
        partial=int(partial),
    )


async def asked(client: GraphsvcClient, number: int, question: Question) -> Examples:
    """The candidates of a question, which has a session of its own."""
    session = client.session(f"ask-{number}", model=MODEL)
    answer = await session.retrieve(
        question.text, retrieval_budget=RETRIEVAL_BUDGET, max_described_candidates=0, task_step=1
    )
    explanation = await session.explain(answer.retrieval_id)
    return examples_of(explanation.candidates, question.gold, partial=answer.partial)


def corpus_examples(loop: Loop, name: str, corpus: Corpus, questions: Sequence[Question]) -> list[Examples]:
    """The candidates of every question about a corpus, which is ingested for a tenant of its own."""
    started = time.monotonic()

    def say(text: str) -> None:
        print(f"{name} {corpus.corpus_id}: {text} ({time.monotonic() - started:.0f} s)", file=sys.stderr, flush=True)

    client = loop.run(loop.client(f"fit-{uuid.uuid4().hex[:12]}"))
    loop.run(ingest(client, corpus))
    say(f"{len(corpus.units)} units ingested")
    found: list[Examples] = []
    for number, question in enumerate(questions, 1):
        found.append(loop.run(asked(client, number, question)))
        if number % PROGRESS_EVERY == 0 or number == len(questions):
            say(f"{number} of {len(questions)} questions")
    return found


def set_examples(name: str, data: Path, corpora: int | None, questions: int | None) -> Examples:
    """The candidates of a set's questions; a question without a gold unit teaches nothing and is not asked.

    Args:
        name: of the set.
        data: folder that holds the sets.
        corpora: at most; None: all.
        questions: of each corpus at most; None: all.

    Raises:
        SystemExit: nothing is wanted, or everything: there is nothing to fit.
    """
    from ctxbench import loaders  # pyright: ignore[reportMissingImports]

    loop = shared_loop()
    found: list[Examples] = []
    for corpus in itertools.islice(loaders.load(name, data), corpora):
        labelled: list[Any] = [question for question in corpus.queries if question.gold][:questions]
        if labelled:
            found += corpus_examples(loop, name, corpus, labelled)
    examples = Examples.joined(found) if found else None
    if examples is None or not 0 < examples.wanted.sum() < len(examples.wanted):
        raise SystemExit(
            f"{name}: a fit needs candidates that are gold and candidates that are not; ask more questions"
        )
    return examples


def fit(columns: Floats, offset: Floats, wanted: Floats, influence: Floats, start: Floats) -> Floats:
    """Intercept and weights.

    Args:
        columns: a row an example, scaled.
        offset: logit that every example has beforehand.
        wanted: 1.0 or 0.0.
        influence: of each example, above 0.
        start: intercept and weights to begin at; the loss is convex, so only the time depends on it.

    Raises:
        SystemExit: it does not converge.
    """
    with_one = np.column_stack([np.ones(len(columns)), columns])
    penalty = np.array([0.0, *[PENALTY] * columns.shape[1]])

    def loss(theta: Floats) -> tuple[float, Floats]:
        logit = with_one @ theta + offset
        value = influence @ (np.logaddexp(0.0, logit) - wanted * logit) + 0.5 * (penalty * theta) @ theta
        return float(value), with_one.T @ (influence * (expit(logit) - wanted)) + penalty * theta

    bounds = [(None, None), *[(0.0, None)] * columns.shape[1]]
    found: Any = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": 1000})
    if not found.success:
        raise SystemExit(f"the fit did not converge: {found.message}")
    return np.asarray(found.x, np.float64)


def fit_sets(sets: Mapping[str, Examples]) -> tuple[Floats, float]:
    """Intercept and weights of ``FITTED``; and what graph_distance would weigh if it were fitted beside them."""
    every = Examples.joined(list(sets.values()))
    influence = np.concatenate([np.full(len(one.wanted), SET_WEIGHT / one.questions) for one in sets.values()])
    fitted = fit(every.features, every.offset, every.wanted, influence, SHIPPED)
    # In units of a full anchor's strength, as SHIPPED_DISTANCE is, so that the penalty is that of the other weights.
    distance = every.distance / TOPIC_ANCHOR_STRENGTH
    beside = fit(
        np.column_stack([every.features, distance]),
        every.offset - SHIPPED_DISTANCE * distance,
        every.wanted,
        influence,
        np.array([*fitted, SHIPPED_DISTANCE]),
    )
    return fitted, float(beside[-1])


def judged(examples: Examples, theta: Floats) -> dict[str, float]:
    """Log-loss of a candidate in nats, and the area under the ROC curve over all candidates of the set."""
    logit = theta[0] + examples.features @ theta[1:] + examples.offset
    wanted = examples.wanted == 1.0
    positive, negative = int(wanted.sum()), int((~wanted).sum())
    above = float(np.asarray(rankdata(logit))[wanted].sum()) - positive * (positive + 1) / 2
    return {
        "log_loss": float(np.mean(np.logaddexp(0.0, logit) - examples.wanted * logit)),
        "auc": above / (positive * negative),
    }


def report(sets: Mapping[str, Examples], embedder: str) -> dict[str, Any]:
    """The fitted prior beside the shipped one, as it is written and printed."""
    fitted, distance = fit_sets(sets)
    names = [feature.value for feature in FITTED]
    return {
        "embedder": embedder,
        "shipped": {"version": PRIOR.version, "intercept": PRIOR.intercept}
        | {"weights": dict(zip(names, map(float, SHIPPED[1:]), strict=True)), "graph_distance": SHIPPED_DISTANCE},
        "fitted": {"intercept": float(fitted[0])}
        | {"weights": dict(zip(names, map(float, fitted[1:]), strict=True)), "graph_distance": distance},
        "sets": {
            name: {
                "questions": one.questions,
                "candidates": len(one.wanted),
                "gold_found": float(one.wanted.sum()) / one.gold,
                "partial": one.partial,
                "shipped": judged(one, SHIPPED),
                "fitted": judged(one, fitted),
            }
            for name, one in sets.items()
        },
    }


def table(found: Mapping[str, Any]) -> str:
    """The report for a person."""
    shipped, fitted = found["shipped"], found["fitted"]
    lines = [f"| | shipped ({shipped['version']}) | fitted |", "| --- | --- | --- |"]
    lines.append(f"| intercept | {shipped['intercept']:.2f} | {fitted['intercept']:.2f} |")
    lines += [
        f"| {name} | {weight:.2f} | {fitted['weights'][name]:.2f} |" for name, weight in shipped["weights"].items()
    ]
    lines.append(
        f"| graph_distance from a topic anchor (held; what it would be) | {shipped['graph_distance']:.2f} "
        f"| {fitted['graph_distance']:.2f} |"
    )
    lines += [
        "",
        "| set | questions | candidates | gold found | partial | log-loss shipped | fitted | AUC shipped | fitted |",
        "|" + " --- |" * 9,
    ]
    rows = list(found["sets"].items())
    for name, one in rows:
        lines.append(
            f"| {name} | {one['questions']} | {one['candidates']} | {100 * one['gold_found']:.1f} % | {one['partial']} "
            f"| {one['shipped']['log_loss']:.5f} | {one['fitted']['log_loss']:.5f} "
            f"| {one['shipped']['auc']:.4f} | {one['fitted']['auc']:.4f} |"
        )

    def mean(which: str, metric: str) -> float:
        return float(np.mean([one[which][metric] for _, one in rows]))

    lines.append(
        f"| mean of the sets | | | | | {mean('shipped', 'log_loss'):.5f} | {mean('fitted', 'log_loss'):.5f} "
        f"| {mean('shipped', 'auc'):.4f} | {mean('fitted', 'auc'):.4f} |"
    )
    return "\n".join(lines)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.fit_prior", description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder that holds the sets")
    parser.add_argument("--sets", nargs="+", default=DEFAULT_SETS, help=f"default: {' '.join(DEFAULT_SETS)}")
    parser.add_argument("--limit", type=int, help="corpora of each set at most")
    parser.add_argument("--questions", type=int, help="questions of each corpus at most")
    parser.add_argument("--out", type=Path, default=Path("build/prior.json"), help="weights and figures, as JSON")
    options = parser.parse_args(argv)

    sets = {name: set_examples(name, options.data, options.limit, options.questions) for name in options.sets}
    found = report(sets, shared_loop().stack.settings.embedder.value)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    print(f"\n{table(found)}\n\n{options.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
