"""Where a cell's time went: compile, device, CPU fallback, copies, Python; op by op, line by line, or module by module.

    %%neuron profile [options]       profile the cell
    %neuron profile [options] stmt   profile one statement

The program runs as it would without: values, errors, line numbers, await and other magics. An error still fails the cell; the report
of what ran until then is shown all the same. Another cell magic, such as %%time, goes below this one.
"""

from __future__ import annotations

import keyword
import sys
from argparse import SUPPRESS, Namespace
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

from IPython.core.error import UsageError

from neuron_lab.errors import BudgetExceeded, FileProblem, NeuronLabError, UsageProblem
from neuron_magics._context import Context, expanded, profile_or_file
from neuron_magics._execute import Snippet
from neuron_magics._parser import Parser
from neuron_magics._traceback import show_own_frames
from neuron_magics._widget import widget_argument

# The extension loads this module: what only a profile needs is imported when there is one.
if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from neuron_lab import Profile
    from neuron_lab.report import Budget, View


def checked_variable(name: str | None) -> str | None:
    """The name after `-o`. Raises UsageError."""
    if name is not None and (not name.isidentifier() or keyword.iskeyword(name)):
        raise UsageError(f"-o {name}: not a name a variable can have")
    return name


@dataclass(frozen=True, slots=True)
class Options:
    """A parsed `profile` line."""

    view: View
    variable: str | None
    quiet: bool
    budget: Budget | None
    save: str | None
    compare: str | None
    widget: bool
    baseline: Profile | None = None

    @staticmethod
    def of(args: Namespace) -> Options:
        """Check the values; looks at no file. Raises UsageError."""
        from neuron_lab.report import Budget, View

        variable = checked_variable(args.output)
        if args.quiet and args.compare is not None:
            raise UsageError("-q shows nothing, so --compare has nothing to show; leave out one of them")
        try:
            budget = None if args.fail_over is None else Budget.parse(args.fail_over)
            view = View(**view_options(args))
        except UsageProblem as problem:
            raise UsageError(str(problem)) from None
        return Options(view, variable, args.quiet, budget, args.save, args.compare, args.widget)

    def opened(self, context: Context) -> Options:
        """Look at the files before the program runs for nothing. Raises FileProblem."""
        from neuron_lab import _files

        save = None if self.save is None else expanded(context, self.save)
        if save is not None:
            _files.writable(save)
        baseline = None if self.compare is None else profile_or_file(context, self.compare)
        return replace(self, save=save, baseline=baseline)


def view_arguments(parser: Parser) -> None:
    """Declare how the table is shown; what the user does not say is not in the parsed namespace."""
    from neuron_lab.report import GROUPS, MOST_ROWS, SORTS, View

    view, unsaid = View(), SUPPRESS
    rows = f"rows of the table (default {view.top}, at most {MOST_ROWS})"
    parser.add_argument("--top", type=int, default=unsaid, metavar="N", help=rows)
    parser.add_argument("--sort", choices=SORTS, default=unsaid, help=f"order of the table (default {view.sort})")
    parser.add_argument("--by", choices=GROUPS, default=unsaid, help=f"what a row stands for (default {view.by})")
    parser.add_argument("--min-ms", type=float, default=unsaid, metavar="X", help="leave out ops that took less in all")


def view_options(args: Namespace) -> dict[str, Any]:
    """Those of them that the user has set."""
    from neuron_lab.report import View

    return {item.name: getattr(args, item.name) for item in fields(View) if hasattr(args, item.name)}


def arguments(parser: Parser) -> None:
    """Declare the options."""
    view_arguments(parser)
    parser.add_argument("-o", "--output", metavar="VAR", help="keep the result in this variable")
    parser.add_argument("--save", metavar="FILE", help="write the result as JSON; neuron_lab.load(FILE) reads it")
    parser.add_argument(
        "--compare", metavar="VAR|FILE", help="show what changed since an earlier profile: a variable or a saved file"
    )
    widget_argument(parser)
    parser.add_argument("-q", "--quiet", action="store_true", help="show nothing; %%neuron last has the result")
    parser.add_argument(
        "--fail-over",
        metavar="BUDGET",
        help="fail the cell when it exceeds neffs=0,fallbacks=0,ms=50, or some of these: NEFFs that it compiled (not loaded from "
        "disk), calls that ran on the CPU, milliseconds in all",
    )


def cell_options(text: str) -> Options:
    """The options of a `%%neuron profile` line. Raises UsageError."""
    parser = Parser("%%neuron profile", "")
    arguments(parser)
    return Options.of(parser.parse(text))


def cell_label(shell: InteractiveShell) -> str:
    """ "In[12]": the number the cell's output will carry. Some versions of IPython count a cell before it runs, some after."""
    return f"In[{shell.displayhook.prompt_count}]"


def worth_exploring(result: Profile) -> bool:
    """Whether anything was done on the device."""
    return bool(result.recording.ops or result.recording.copies)


def conclude(shell: InteractiveShell, result: Profile, options: Options) -> NeuronLabError | None:
    """Keep the result, show and save it, and say why the cell fails: it cannot be saved, or it went over its budget."""
    from neuron_lab import _result, widgets

    if options.variable is not None:
        shell.user_ns[options.variable] = result
    if not options.quiet:
        result.show()
        live = options.widget and widgets.front_end_is_there(shell)
        if live and worth_exploring(result):
            widgets.show_unasked(result.explore())
        if options.baseline is not None:
            difference = result.compare(options.baseline)
            _result.display(difference)
            if live:
                widgets.show_unasked(difference.explore())
    if options.save is not None:
        try:
            result.save(options.save)
        except FileProblem as problem:
            if not result.summary.partial:
                return problem
            print(f"not saved: {problem}", file=sys.stderr)  # the cell fails for its own error
    if options.budget is None or result.summary.partial:
        return None
    over = options.budget.exceeded(result.report)
    return BudgetExceeded("; ".join(over)) if over else None


def run(text: str, parser: Parser, context: Context) -> Any:
    """Profile a statement, or a body that did not come through the input transformer."""
    from neuron_lab._profile import Session

    if context.cell is None:
        flags, source = parser.split(text)
    else:
        flags, source = text, context.cell
    options = Options.of(parser.parse(flags))
    if not source:
        raise UsageError(
            "what shall be profiled? `%neuron profile model(x)`, or `%%neuron profile` at the top of a cell"
        )
    options = options.opened(context)
    snippet = Snippet.compile(context, source)
    session = Session(options.view, cell_label(context.shell), source)
    session.start()
    try:
        value = snippet.run()
        session.stop()
    except BaseException as error:
        session.stop()
        conclude(context.shell, session.finish(error, of_cell=True), options)
        show_own_frames(error, context.shell, snippet.statements.co_filename)
        raise
    problem = conclude(context.shell, session.finish(of_cell=True), options)
    if problem is not None:
        raise problem
    return value
