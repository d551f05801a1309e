"""The commands list, show, score, winrate and export: their flags, and what runs them."""

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from dspy_judges.startup import exit_on_ctrl_c
from judges.cli.flags import DEFAULT_EXPORT_LM, JUDGE_HELP, Parser, add_flags, add_model_flags
from judges.terminal import run_command

ABOUT_LIST = """\
List the judges that come with this package: the texts that each judge reads,
its scale, and the paper that it follows."""

ABOUT_SHOW = """\
Print a judge's definition and origin, and the exact messages that it sends to a
model, with {{name}} as a placeholder for each text. Of many demonstrations, the
first three are printed, and --json prints all. No model is asked."""

ABOUT_SCORE = """\
Judge every row of a table with one or more rating judges.

JSONL rows get "judgements"; CSV and Parquet rows get the columns NAME and
NAME_failure, and for pass or fail NAME_verdict with the word (NAME_judge and so
on if the table has such columns). A score has at most three decimals (4.0,
3.667), and from .5 it is a pass. A row that cannot be judged has no score but a
reason. Rows without an id are numbered from 1 in `id`, so that dspy-judges
verify --scores reads the file.

examples:
  dspy-judges score coherence fluency --data in.jsonl --out out.jsonl
  dspy-judges score runs/relevance-001 --data in.csv --out out.csv
  dspy-judges score relevance --data in.csv --out out.csv \\
      --lm openai/gpt-4.1-mini --plan mean --samples 20 --max-cost 5"""

ABOUT_WINRATE = """\
Compare the two outputs of every pair, and print how often A wins.

Each pair is judged in both orders; a pair is a tie if the two choices differ.
The pair's texts are in columns with the judge's names (see show NAME), or in
response_a, response_b and one of prompt, document, post and query.

example:
  dspy-judges winrate kinder.yaml --data pairs.csv --out out.csv"""

ABOUT_EXPORT = """\
Print a judge for use in other programs: a chat-completions request with
{{slots}} for the texts. A frozen judge keeps its model and plan; any other
judge asks for one reply. A warning on stderr says what the request cannot
express."""


def list_judges(arguments: Sequence[str]) -> int:
    parser = Parser(prog="dspy-judges list", description=ABOUT_LIST)
    add_flags(parser, "--json", help="print as JSON, with definitions")
    return _run(parser, arguments, "judges.cli.show:show_list")


def show(arguments: Sequence[str]) -> int:
    parser = Parser(prog="dspy-judges show", description=ABOUT_SHOW)
    parser.add_argument("judge", metavar="JUDGE", help=JUDGE_HELP)
    add_flags(parser, "--reasoning", "--json")
    return _run(parser, arguments, "judges.cli.show:show_judge")


def score(arguments: Sequence[str]) -> int:
    return _run(score_parser(), arguments, "judges.cli.table:command")


def score_parser() -> Parser:
    usage = "%(prog)s JUDGE... --data FILE --out FILE [options]"
    parser = Parser(prog="dspy-judges score", usage=usage, description=ABOUT_SCORE)
    parser.add_argument("judges", nargs="+", metavar="JUDGE", help=JUDGE_HELP)
    _add_table_flags(parser, data_help="the rows to judge", is_pairwise=False)
    return parser


def winrate(arguments: Sequence[str]) -> int:
    usage = "%(prog)s JUDGE --data FILE --out FILE [options]"
    parser = Parser(prog="dspy-judges winrate", usage=usage, description=ABOUT_WINRATE)
    help_text = f"a pairwise judge: {JUDGE_HELP}"
    parser.add_argument("judges", nargs=1, metavar="JUDGE", help=help_text)
    _add_table_flags(parser, data_help="the pairs to judge", is_pairwise=True)
    return _run(parser, arguments, "judges.cli.table:command")


def export(arguments: Sequence[str]) -> int:
    parser = Parser(prog="dspy-judges export", description=ABOUT_EXPORT)
    parser.add_argument("judge", metavar="JUDGE", help=JUDGE_HELP)
    help_text = f"the model in the request (the frozen judge's, else {DEFAULT_EXPORT_LM})"
    parser.add_argument("--lm", metavar="NAME", help=help_text)
    return _run(parser, arguments, "judges.cli.show:export")


def _run(parser: Parser, arguments: Sequence[str], function_path: str) -> int:
    """Parse the arguments, and call the function MODULE:FUNCTION with the flags."""
    flags = parser.parse_args(arguments)
    with exit_on_ctrl_c():
        # The command's module is imported only now, since --help and wrong flags do not need it.
        module_name, _, function_name = function_path.partition(":")
        run = getattr(import_module(module_name), function_name)
    return run_command(parser.prog, run, flags)


def _add_table_flags(parser: Parser, *, data_help: str, is_pairwise: bool) -> None:
    parser.set_defaults(is_pairwise=is_pairwise)
    help_text = "add a column with the answer to each question (not needed for .jsonl)"
    parser.add_argument("--answers", action="store_true", help=help_text)
    add_flags(parser, "--reasoning")
    group_title = "files (.jsonl, .csv or .parquet; --data also .json, .tsv or .xlsx)"
    group = parser.add_argument_group(group_title)
    add_flags(group, "--data", required=True, type=Path, help=data_help)
    help_text = "the file to write; the same command resumes an interrupted run"
    group.add_argument("--out", type=Path, metavar="FILE", help=help_text)
    help_text = "the column that holds a text, or FILE.yaml with columns; repeatable"
    add_flags(group, "--map", help=help_text)
    add_model_flags(parser)
    group = parser.add_argument_group("from replies to a score")
    add_flags(group, "--plan", "--samples", "--temperature")
    group = parser.add_argument_group("the run")
    help_text = "use batch files at half price: submit, and collect within a day"
    group.add_argument("--batch-api", choices=("submit", "collect"), metavar="STEP", help=help_text)
    add_flags(group, "--dry-run", "--json", "--verbose", "--quiet")
