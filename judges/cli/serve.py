"""python -m judges serve: a judge or the embedded model behind an OpenAI-compatible endpoint."""

import argparse
import asyncio
import json
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from judges.cli.arguments import (
    add_model_flags,
    add_plan_flags,
    add_quiet_flag,
    add_recording_flags,
    to_ask,
    whole_number,
    with_recordings,
)
from judges.cli.shell import print_error, print_note, print_output
from judges.errors import JudgesError, UsageError
from judges.loading import load
from judges.models.providers import EMBEDDED_MODELS

if TYPE_CHECKING:
    from judges.serving.answers import ServedModel

ABOUT = """\
Answer chat completions of the OpenAI format on 127.0.0.1, so that any tool that
speaks it can ask a judge. No key is needed unless --client-key-env names one.

JUDGE is a judge as a model of its own name: the last user message carries the
row's texts as a JSON object ({"document": "...", "summary": "..."}) or as the
judge's own messages; the reply is its rating in the judge's own form, with
"judgement" beside it in the message (score, rating, distribution, rationale),
log-probabilities that are the judge's own, or JSON where response_format asks
for it. It asks its own model by its own plan, whatever the request says of
sampling. `embedded` is the embedded model alone, for any prompt of a judge.

examples:
  python -m judges serve runs/relevance-001
  python -m judges serve relevance --lm openai/gpt-4.1-mini --max-cost 5
  python -m judges serve embedded --port 8001

Ctrl-C ends it."""


def add(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "serve",
        help="a judge behind an OpenAI-compatible endpoint on 127.0.0.1",
        description=ABOUT,
    )
    parser.add_argument(
        "judge",
        metavar="JUDGE",
        help="a name of the catalogue, a frozen judge's file, a run folder, FILE.yaml[:name], "
        "FILE.py:NAME, or embedded",
    )
    server = parser.add_argument_group("the server")
    server.add_argument(
        "--host", default="127.0.0.1", help="the address to listen on (127.0.0.1: this machine)"
    )
    server.add_argument(
        "--port", type=_port, default=8000, metavar="N", help="0: any that is free (8000)"
    )
    server.add_argument(
        "--client-key-env",
        metavar="NAME",
        help="the environment variable with the key that requests have to carry (none)",
    )
    add_model_flags(parser)
    add_plan_flags(parser)
    add_recording_flags(parser)
    add_quiet_flag(parser)
    parser.set_defaults(run=run)


def _port(text: str) -> int:
    port = whole_number(text)
    if not 0 <= port <= 65535:
        raise argparse.ArgumentTypeError(f"{text}: must be within 0 and 65535")
    return port


def run(args: argparse.Namespace) -> int:
    from judges.serving.server import Endpoint, is_loopback

    key = None
    if args.client_key_env is not None:
        key = os.environ.get(args.client_key_env, "").strip()
        if not key:
            raise UsageError(f"--client-key-env {args.client_key_env}: that variable is not set")
    if not is_loopback(args.host) and key is None:
        print_error(
            f"warning: whoever reaches {args.host} can ask, and spend what the model costs; "
            "--client-key-env NAME wants a key of them"
        )
    with opened(args) as (model, example):
        endpoint = Endpoint(model, host=args.host, concurrency=args.concurrency, key=key)

        def announce(address: str) -> None:
            curl_key = f' -H "Authorization: Bearer ${args.client_key_env}"' if key else ""
            body = json.dumps({"model": model.names[0], "messages": example})
            print_output(f"{', '.join(model.names)} at {address}")
            print_output(
                f"curl -s {address}/chat/completions{curl_key} -H 'Content-Type: application/json' "
                f"-d '{body}'"
            )

        asyncio.run(_serve(endpoint.app, args.host, args.port, announce))
        n = endpoint.n_answered
        print_note(f"judges: served {n:,} {'reply' if n == 1 else 'replies'}; ended")
    return 0


@contextmanager
def opened(args: argparse.Namespace) -> Iterator[tuple["ServedModel", list[dict[str, str]]]]:
    """What is served, and messages that it answers; its model is closed afterwards."""
    from judges.inference.session import ModelOptions, open_runner
    from judges.serving.answers import ServedEmbedded, ServedJudge

    options: ModelOptions = {
        "max_calls": args.max_calls,
        "max_cost": args.max_cost,
        "concurrency": args.concurrency,
        "cache": args.cache,
        "api_key_env": args.api_key_env,
        "price": args.price,
        "max_tokens": args.max_tokens,
        "reasoning_effort": args.reasoning_effort,
    }
    if args.judge in EMBEDDED_MODELS:
        if args.lm or args.api_base or args.plan or args.samples or args.weighted:
            raise UsageError(f"{args.judge} asks no other model and has no plan; name a judge")
        options["lm"] = args.judge
        with open_runner(**options) as runner:
            yield ServedEmbedded(runner), [{"role": "user", "content": "Hello."}]
        return
    judge = with_recordings(to_ask(load(args.judge), args), args)
    texts = json.dumps(dict.fromkeys(judge.row_keys, "..."))
    with judge.open(seed=args.seed, **options) as judge_rows:
        yield ServedJudge.of(judge, judge_rows), [{"role": "user", "content": texts}]


async def _serve(
    make_app: Callable[[], object], host: str, port: int, announce: Callable[[str], None]
) -> None:
    """Serve until Ctrl-C or SIGTERM."""
    from judges.serving.server import listening

    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        with suppress(NotImplementedError, RuntimeError):  # Windows; not the main thread
            loop.add_signal_handler(number, ended.set)
    try:
        async with listening(make_app(), host, port) as address:  # type: ignore[arg-type]
            announce(address)
            await ended.wait()
    except OSError as error:
        raise JudgesError(
            f"{host}:{port} cannot be listened on ({error.strerror or error}); --port N names "
            "another, 0 any that is free"
        ) from None
