"""--batch-api: the same run through a provider's batch files, at half price and within a day."""

import argparse
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from data.tables.atomic_write import in_use
from judges.cli.estimate import estimate_line, total_price
from judges.cli.table_run import TableRun, judged, replies_file
from judges.errors import UsageError
from judges.inference.progress import visible
from judges.inference.session import Session
from judges.models import FatalModelError
from judges.models.journal import Journal

if TYPE_CHECKING:
    from judges.protocol import Model

DISCOUNT = 0.5


def submit(run: TableRun) -> int:
    """Write down every request that the journal does not answer, and start the batches."""
    from judges.inference import batch

    args, journal = run.args, replies_file(run.args)
    lm, folder = _one_model(run), _folder(args)
    _check_budget(run)
    model = batch.queue(lm, folder, api_base=args.api_base)
    with in_use(journal), Session(journal=journal, models={lm: model}) as session:
        for _ in judged(run, session):
            pass
    if not model.written:
        print("nothing to submit: every reply is in the journal; collect with --resume instead")
        return 0
    print(estimate_line(run.estimates, DISCOUNT), file=sys.stderr)
    print(batch.submit(folder, api_base=args.api_base))
    return 0


def status(args: argparse.Namespace) -> int:
    from judges.inference import batch

    state = batch.status(_folder(args), api_base=args.api_base)
    if args.json:
        counts = {"done": state.done, "requests": state.n_requests, "answered": state.n_completed}
        print(json.dumps(counts))
    else:
        print(visible(str(state)))
    return 0


def collect(run: TableRun) -> Mapping[str, "Model"]:
    """Fetch the answers into the journal; returns the model that stands for them."""
    from judges.inference import batch

    args = run.args
    lm, folder = _one_model(run), _folder(args)
    try:
        with in_use(replies_file(args)), Journal(replies_file(args)) as journal:
            result = batch.collect(folder, journal, api_base=args.api_base)
    except FatalModelError as error:
        raise FatalModelError(f"{error} (see --batch-api status)") from error
    if unanswered := result.n_missing + len(result.failures):
        print(
            f"{unanswered:,} requests have no answer; the same command with --force and without "
            "--batch-api asks them now, --batch-api submit again in another batch",
            file=sys.stderr,
        )
    return {lm: batch.collected(folder, api_base=args.api_base)}


def _folder(args: argparse.Namespace) -> Path:
    """Where the batches' files and state are kept: beside the output."""
    if args.out is None:
        raise UsageError("--batch-api needs --out FILE, the same in all three steps")
    return Path(args.out.with_name(f"{args.out.name}.batch"))


def _one_model(run: TableRun) -> str:
    if run.args.engine != "local":
        raise UsageError("--batch-api and --engine ray exclude each other")
    names = sorted({judge.lm for judge in run.judges})
    if len(names) > 1:
        raise UsageError(f"--batch-api takes one model; these judges ask {', '.join(names)}")
    return names[0]


def _check_budget(run: TableRun) -> None:
    args, requests = run.args, sum(estimate.requests for estimate in run.estimates)
    if args.max_calls is not None and requests > args.max_calls:
        raise UsageError(f"{requests:,} requests are more than --max-calls {args.max_calls:,}")
    price = total_price(run.estimates)
    if args.max_cost is None:
        return
    if price is None or price * DISCOUNT > args.max_cost:
        about = "unknown" if price is None else f"about ${price * DISCOUNT:,.2f}"
        raise UsageError(f"the batch's price is {about}; --max-cost is ${args.max_cost:g}")
