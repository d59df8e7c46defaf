"""Applies each mutant to its gate's tests and shows that they go red.

    python -m tests.gates.mutants [NAME ...]

First every test that a mutant is tried on must pass without one. A mutant is killed when at least one of its tests
fails in an assertion: a test that cannot even start, or a service that breaks, is no proof. Exit code 1 when a mutant
survives or proves nothing.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from tests.gates.mutants import VARIABLE, names, tests_of

ROOT = Path(__file__).parents[3]
GATES = ROOT / "tests" / "gates"
BROKEN = ("INTERNAL_FAULT", "INTERNAL:")
"""What a failure says when the service broke instead of behaving otherwise."""


@dataclass(frozen=True, slots=True)
class Run:
    """What a run of pytest reported: names of the tests that passed, failed and could not start."""

    passed: list[str]
    failed: list[str]
    broken: list[str]


def run_tests(expression: str, mutant: str | None, *, first_failure: bool = True) -> Run:
    """Runs the tests whose names hold the expression, with a mutant applied or with none."""
    with tempfile.TemporaryDirectory() as scratch:
        report = Path(scratch) / "report.xml"
        environment = {name: value for name, value in os.environ.items() if name != VARIABLE}
        if mutant is not None:
            environment[VARIABLE] = mutant
        command = [sys.executable, "-m", "pytest", "-q", str(GATES), "-k", expression, f"--junitxml={report}"]
        command += ["--show-capture=no", "--tb=short", "-m", "not soak"]
        if first_failure:
            command.append("-x")
        subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, check=False)
        if not report.exists():
            return Run([], [], ["pytest did not start"])
        return _read(report)


def _read(report: Path) -> Run:
    run = Run([], [], [])
    for case in ElementTree.parse(report).iter("testcase"):
        name = case.get("name", "")
        failure, error = case.find("failure"), case.find("error")
        if error is not None:
            run.broken.append(name)
        elif failure is not None:
            text = f"{failure.get('message', '')} {failure.text or ''}"
            (run.broken if any(word in text for word in BROKEN) else run.failed).append(name)
        elif case.find("skipped") is None:
            run.passed.append(name)
    return run


def main(wanted: Sequence[str]) -> int:
    """Prints the table; the exit code."""
    chosen = [name for name in names() if not wanted or name in wanted]
    unknown = set(wanted) - set(chosen)
    if unknown or not chosen:
        print(f"no such mutant: {', '.join(sorted(unknown))}", file=sys.stderr)
        return 2
    expressions = sorted({tests_of(name) for name in chosen})
    baseline = run_tests(" or ".join(expressions), None, first_failure=False)
    width = max(map(len, chosen))
    print(f"without a mutant: {len(baseline.passed)} tests pass", flush=True)
    for name in baseline.failed + baseline.broken:
        print(f"  red without a mutant: {name}")
    red = set(baseline.failed + baseline.broken)
    survivors = 0
    for name in chosen:
        expression = tests_of(name)
        started = time.monotonic()
        run = run_tests(expression, name)
        killed = [test for test in run.failed if test not in red]
        if killed:
            verdict = f"killed by {killed[0]}"
        else:
            survivors += 1
            why = f"broke {run.broken[0]}" if run.broken else f"{len(run.passed)} tests still pass"
            verdict = f"SURVIVES: {why}"
        print(f"{name:<{width}}  {time.monotonic() - started:5.1f} s  {verdict}", flush=True)
    print(f"{len(chosen) - survivors} of {len(chosen)} mutants killed")
    return 1 if survivors or red else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
