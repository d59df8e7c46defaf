"""``python -m tests.bench.quality``: graphsvc beside BM25 and the hybrid of ctxbench, on every set of a folder.

Needs ctxbench on the path (``make bench-quality``). Budgets are hard and counted by the harness; nothing is tuned to a
set by name, so any folder of the same layout works.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

BASELINES = ("bm25", "hybrid-sum")
LABEL = "graphsvc"
LOCOMO_HEADLINE = ("multi-hop", "temporal", "open-domain", "single-hop")
"""The categories of LoCoMo whose questions have an answer: what its headline is measured over."""


def score(name: str, data: Path, baselines: Iterable[str], limit: int | None) -> dict[str, Any]:
    """Rows and table of one set."""
    from ctxbench import loaders, run

    from tests.bench.ctx_ranker import build

    builders: dict[str, Any] = {label: run.BASELINES[label] for label in baselines}
    builders[LABEL] = lambda lab: run.blind(build(run.unlabelled(lab.corpus)))
    started = time.monotonic()
    reports = run.measure(name, data, builders, limit)
    categories = list(LOCOMO_HEADLINE) if name == "locomo" else None
    print(f"\n{name} ({time.monotonic() - started:.0f} s)\n{run.table(name, reports, categories)}", flush=True)
    assert name in loaders.SETS
    return reports


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.quality", description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder that holds the sets")
    parser.add_argument("--out", type=Path, default=Path("build/rows.jsonl"), help="a row for each query and budget")
    parser.add_argument("--sets", nargs="*", help="only these (default: every set in the folder)")
    parser.add_argument("--limit", type=int, help="corpora of each set at most")
    parser.add_argument("--no-baselines", action="store_true", help="graphsvc alone")
    options = parser.parse_args(argv)

    from ctxbench import loaders

    sets = options.sets or [name for name in loaders.SETS if (options.data / name).is_dir()]
    options.out.parent.mkdir(parents=True, exist_ok=True)
    over = 0
    with options.out.open("w", encoding="utf-8") as out:
        for name in sets:
            reports = score(name, options.data, () if options.no_baselines else BASELINES, options.limit)
            for label, report in reports.items():
                for row in report.rows:
                    out.write(json.dumps({"ranker": label, "set": name, **row}) + "\n")
                    over += label == LABEL and row["over"] > 0
            out.flush()
    print(f"\nqueries over budget: {over}\nrows: {options.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
