"""A process that fits one predictor and ends: ``python -m graphsvc.services.fit_process``.

Neither the event loop nor the service's memory carries the fit, and one that nobody waits for any more is killed. A
plain process and no pool of multiprocessing: that would run the program's main module again in the child.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import pickle
import sys
from collections.abc import Sequence
from typing import cast

from graphsvc.domain.errors import ErrorReason, Internal
from graphsvc.domain.predictors import PredictorVersion
from graphsvc.ports import FeedbackExample
from graphsvc.ranking.calibration import Calibration, calibrate

NICENESS = 10
"""Added to the service's own: retrievals go first."""


async def fit_in_process(examples: Sequence[FeedbackExample], in_use: PredictorVersion | None) -> Calibration:
    """As :func:`graphsvc.ranking.calibration.calibrate`, in a process of its own.

    Raises:
        Internal: INTERNAL_FAULT, the process failed.
    """
    given = await asyncio.to_thread(pickle.dumps, (tuple(examples), in_use))
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        __name__,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        # The same modules; and one thread, which is enough and leaves the other cores to the service.
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "OPENBLAS_NUM_THREADS": "1"},
        start_new_session=True,  # a Ctrl-C in the terminal is the service's to act on
    )
    try:
        answer, complaint = await process.communicate(given)
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
    if process.returncode != 0:
        last = complaint.decode(errors="replace").strip().rpartition("\n")[2]
        raise Internal(ErrorReason.INTERNAL_FAULT, f"the process that fits a predictor failed: {last}")
    return cast("Calibration", pickle.loads(answer))  # noqa: S301 - our own process wrote it


def main() -> None:
    """Reads examples and the predictor in use from standard input, writes the calibration to standard output."""
    os.nice(NICENESS)
    examples, in_use = pickle.load(sys.stdin.buffer)  # noqa: S301 - our own service wrote it
    pickle.dump(calibrate(examples, in_use), sys.stdout.buffer)


if __name__ == "__main__":
    main()
