"""What a model made of a retrieval: which delivered units its output referenced.

Source: seed selection-budgeted-retrieval, Utility Feedback: Reference Detection; gate B8.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from enum import StrEnum


class ReferenceMethod(StrEnum):
    """How a reference was detected, the most certain first."""

    CITATION = "citation"
    """The output cites the unit's id."""
    KEY_PHRASES = "key_phrases"
    """At least two of the unit's three most distinctive phrases stand in the output."""
    ENTAILMENT = "entailment"
    """The plug-in scores the output against the content above 0.7."""
    CALLER_CITED = "caller_cited"
    """The caller says that it is cited."""
    DECISION_IMPACT = "decision_impact"
    """The caller says that it changed the decision."""


@dataclass(frozen=True, slots=True)
class OutcomeReport:
    """What a caller reports of a retrieval.

    Attributes:
        output: the model's output, text and tool-call arguments.
        cited_unit_ids: units that the caller knows to be cited.
        decisive_unit_ids: units that changed the decision.
    """

    output: str = ""
    cited_unit_ids: tuple[str, ...] = ()
    decisive_unit_ids: tuple[str, ...] = ()

    @property
    def fingerprint(self) -> str:
        """Hex sha256 of what is reported; the order of the ids and repetitions do not matter."""
        parts = [self.output, sorted(set(self.cited_unit_ids)), sorted(set(self.decisive_unit_ids))]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class UnitOutcome:
    """The verdict on one delivered unit.

    Attributes:
        methods: the methods that detected a reference, in enum order; empty: ignored.
        evidence: phrases found, score of the plug-in: a sentence for a person, without content beyond key phrases.
    """

    unit_id: str
    methods: tuple[ReferenceMethod, ...]
    evidence: str = ""

    @property
    def referenced(self) -> bool:
        """Whether any method detected a reference."""
        return bool(self.methods)
