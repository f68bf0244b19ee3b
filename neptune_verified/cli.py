"""The command line. Imports what a command needs when it runs, so that ``--help`` answers at once.

Exit codes: 0 ok, 1 usage or input, 2 unsupported program, 3 refused, 4 disagreement or internal error, 5 over its error
budget.
"""

from __future__ import annotations

import sys
from enum import IntEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from neptune_verified.user_files import UsageError, load_function, load_object, user_error

app = typer.Typer(
    help="A verification-first tensor compiler: chains of reductions fused into one Triton kernel, with a proof.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


class Exit(IntEnum):
    OK = 0
    USAGE = 1
    UNSUPPORTED = 2
    REFUSED = 3
    INTERNAL = 4
    OVER_BUDGET = 5


def main() -> None:
    """Entry point: every error is one line on stderr and an exit code; no traceback of a library reaches a user."""
    try:
        code = app(args=_spread(sys.argv[1:]), standalone_mode=False)  # an Exit inside a command comes back as its code
    except typer.Abort:
        _die("interrupted", Exit.USAGE)
    except KeyboardInterrupt:
        _die("interrupted", Exit.USAGE)
    except Exception as e:
        _die(*_explained(e))
    raise SystemExit(code if isinstance(code, int) else 0)


#: Options that take several values: ``--set A=1 B=2`` is ``--set A=1 --set B=2``.
_REPEATED = ("--set", "--sizes", "--budget")


def _spread(args: list[str]) -> list[str]:
    """Values of one option are spread, and ``--json F.json`` is ``--json --out F.json``."""
    result: list[str] = []
    option = ""
    for arg in args:
        if result[-1:] == ["--json"] and arg.endswith(".json"):
            result.append("--out")
        if option and "=" in arg and not arg.startswith("-") and result[-1] != option:
            result.append(option)
        option = arg if arg in _REPEATED else "" if arg.startswith("-") else option
        result.append(arg)
    return result


def _explained(e: Exception) -> tuple[str, Exit]:
    from neptune_verified.errors import ShapeError, UnsupportedProgram, VerificationError

    text = " ".join(str(e).split()) or type(e).__name__
    if isinstance(e, UnsupportedProgram):
        return text, Exit.UNSUPPORTED
    if isinstance(e, VerificationError):
        return text, Exit.REFUSED
    if hasattr(e, "format_message"):  # a usage error of the command-line library
        return e.format_message() or "say what to do: compile, report, check, repair, examples (--help)", Exit.USAGE
    if isinstance(e, UsageError | ShapeError | OSError | ValueError):
        name = getattr(e, "filename", None)
        if isinstance(e, OSError) and e.strerror and name:
            text = f"{name}: {e.strerror}"
        return text, Exit.USAGE
    return f"internal error, please report it: {type(e).__name__}: {text}", Exit.INTERNAL


def _die(message: str, code: Exit) -> None:
    print(f"error: {message}", file=sys.stderr)
    raise SystemExit(int(code))


# ------------------------------------------------------------------------------------------------- commands


@app.command()
def compile(
    source: Annotated[
        str, typer.Argument(metavar="FILE.py:FUNCTION", help="returns an nv.Program, or (inputs, outputs)")
    ],
    verify: Annotated[bool, typer.Option("--verify", help="print the whole report (proving is always on)")] = False,
    no_verify: Annotated[
        bool, typer.Option("--no-verify", help="fuse nothing, prove nothing, make no certificate")
    ] = False,
    target: Annotated[
        str | None, typer.Option(help='"cuda:90", "hip:gfx942", "interpret", "llvm"; default: what is there')
    ] = None,
    out: Annotated[Path | None, typer.Option(help="folder for kernel, certificate and report")] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="a parameter of FUNCTION")
    ] = None,
    max_passes: Annotated[int | None, typer.Option(help="refuse (exit 3) a result with more passes")] = None,
    strict_rounding: Annotated[bool, typer.Option(help="insert and move no float rounding")] = False,
    operands: Annotated[
        str,
        typer.Option(metavar="auto|x1|x2", help="float32 operands of dots: rounded, or as two 16-bit numbers"),
    ] = "auto",
    schedule: Annotated[
        str | None,
        typer.Option(
            metavar="auto|rolling|split-k|FILE.py:NAME", help="an update, or an nv.Schedule or template in a file"
        ),
    ] = None,
) -> None:
    """Compile a definition to one Triton kernel file, with its certificate and report."""
    import time

    if verify and no_verify:
        raise UsageError("--verify and --no-verify exclude each other")
    _check_writable(out)
    start = time.perf_counter()
    with _status(f"reading {source}"):
        program, note = read_definition(source, _parameters(set_ or []))
    read = time.perf_counter()
    from neptune_verified.pipeline import compile as compile_program

    with _status("fusing and proving") as status:
        kernel = compile_program(
            program,
            target,
            _schedule(schedule),
            verify=not no_verify,
            strict_rounding=strict_rounding,
            operands=operands,
            max_passes=max_passes,
            progress=lambda p: status.update(f"proving {p.obligation.id} of {p.obligation.stage}"),
        )
    done = time.perf_counter()
    folder = None
    if out is not None:
        folder = kernel.save(out)
    _show_compiled(kernel, verify, note, folder, read - start, done - read)


@app.command()
def report(
    folder: Annotated[Path, typer.Argument(help="written by `compile --out`")],
    json_: Annotated[bool, typer.Option("--json", help="print JSON (docs/report.md)")] = False,
    html: Annotated[Path | None, typer.Option(metavar="FILE", help="write it to FILE, one HTML page")] = None,
    open_: Annotated[bool, typer.Option("--open", help="open report.html, or FILE, in the default browser")] = False,
) -> None:
    """Show the report of a compiled folder: in the terminal, as JSON or as HTML."""
    import json

    from neptune_verified.report import Report

    if json_ and (html or open_):
        raise UsageError("--json excludes --html and --open")
    loaded = Report.from_folder(folder)
    if json_:
        print(json.dumps(loaded.to_json(), indent=1, ensure_ascii=False))
    elif html or open_:
        from neptune_verified.report.browse import saved_html, show, write_html

        path = write_html(loaded, html) if html else saved_html(loaded, folder)
        if open_:
            show(path)
        _console().print(f"{'wrote' if html else 'opened'} {path}", markup=False, highlight=False, soft_wrap=True)
    else:
        _console().print(loaded.terminal())


@app.command()
def check(
    folder: Annotated[Path, typer.Argument(help="written by `compile --out`")],
    solver: Annotated[str, typer.Option(help="z3 or cvc5")] = "z3",
) -> None:
    """Prove a compiled folder's certificate again, trusting program.json alone."""
    from neptune_verified.proofs.check import check as check_folder

    with _status(f"checking {folder}"):
        result = check_folder(folder, solver=solver)
    console = _console()
    console.print(result.text(), markup=False, highlight=False)
    if not result.ok:
        raise typer.Exit(int(Exit.REFUSED))


@app.command()
def audit(
    subject: Annotated[str, typer.Argument(metavar="DIR|FILE.py:FUNCTION", help="a compiled folder, or a definition")],
    inputs: Annotated[
        list[Path] | None, typer.Option(help=".pt, .npy, .npz or .safetensors; default: generated")
    ] = None,
    against: Annotated[
        list[str] | None, typer.Option(metavar="[FILE.py:]NAME,...", help="callables to compare with: flex,sdpa")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="folder for audit.json, audit.html and the worst inputs")] = None,
    budget: Annotated[
        list[str] | None, typer.Option(metavar="NAME=LIMIT", help="relative_rms, max_ulps, flex, ... (docs/audit.md)")
    ] = None,
    sizes: Annotated[list[str] | None, typer.Option(metavar="NAME=VALUE", help="a length or a scalar")] = None,
    families: Annotated[list[str] | None, typer.Option(metavar="NAME,...", help="of generated inputs")] = None,
    seeds: Annotated[int, typer.Option(help="draws of each family")] = 1,
    search: Annotated[int, typer.Option(metavar="N", help="try N more inputs in looking for a bad one")] = 0,
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="a parameter of FUNCTION and of peers")
    ] = None,
    target: Annotated[str | None, typer.Option(help="of FILE.py:FUNCTION; default: what is there")] = None,
    json_: Annotated[bool, typer.Option("--json", help="print JSON (docs/audit.md)")] = False,
) -> None:
    """Measure numerical errors against float64, beside peers; exit code 5 over the error budget."""
    from neptune_verified.auditing.command import Options, run_audit
    from neptune_verified.auditing.terminal import renderable

    _check_writable(out)
    options = Options(
        subject, inputs or (), against or (), sizes or (), families or (), seeds, search, budget or (),
        _parameters(set_ or []), target,
    )  # fmt: skip
    with _status(f"auditing {subject}") as status:
        result = run_audit(options, lambda name, n, of: status.update(f"{name} ({n} of {of})" if of else name))
    if json_:
        import json

        print(json.dumps(result.data(), indent=1, ensure_ascii=False, allow_nan=False))
    else:
        _console().print(renderable(result))
    if out is not None:
        folder = result.save(out)
        if not json_:
            _console().print(f"wrote {folder}", markup=False, highlight=False)
    if not result.ok:
        raise typer.Exit(int(Exit.OVER_BUDGET))


@app.command()
def repair(
    reducer: Annotated[str, typer.Option(help="sum, prod, max, min, logaddexp")],
    term: Annotated[list[str], typer.Option(help="what is reduced, such as 'exp(c - m)*v'; one for each accumulator")],
    producer: Annotated[list[str] | None, typer.Option(help="NAME=REDUCER:TERM, such as m=max:c")] = None,
    repair_: Annotated[
        list[str] | None, typer.Option("--repair", help="h to prove, such as 't*exp(m - m_new)'")
    ] = None,
    fact: Annotated[list[str] | None, typer.Option(help="a fact, such as 'n >= 1'")] = None,
    parameter: Annotated[list[str] | None, typer.Option(help="names that do not vary with the element")] = None,
    domain: Annotated[list[str] | None, typer.Option(help="NAME=DOMAIN, such as r=positive")] = None,
    verify: Annotated[bool, typer.Option("--verify", help="print every obligation")] = False,
) -> None:
    """Prove an online update that was written by hand, or find one (without --repair)."""
    from neptune_verified.repair_cli import repair_command

    code = repair_command(
        reducer,
        term,
        producer or (),
        repair_ or (),
        fact or (),
        parameter or (),
        domain or (),
        verify,
        lambda text: print(text),
    )
    if code:
        raise typer.Exit(code)


@app.command()
def reducer(
    value: Annotated[
        list[str], typer.Option(help="a component and its domain, such as 'v=real or -inf' or n=nonnegative")
    ],
    combine: Annotated[list[str], typer.Option(help="its value in C(a, b), such as 'max(v_a, v_b)'; one for each")],
    neutral: Annotated[list[str], typer.Option(help="its value in the neutral element, such as -inf; one for each")],
    fact: Annotated[
        list[str] | None, typer.Option(help="holds of partial results, such as 'n > 0 or mean == 0'")
    ] = None,
    verify: Annotated[bool, typer.Option("--verify", help="print every obligation")] = False,
) -> None:
    """Prove that an operation on tuples may be used in any order: associative, commutative, neutral, closed."""
    from neptune_verified.proofs.verdict import Verdict
    from neptune_verified.reducers import prove_reducer

    components = [(name.strip(), domain.strip() or "real") for name, _, domain in (v.partition("=") for v in value)]
    if len(dict(components)) < len(components):
        raise ValueError("--value names one component twice")
    report = prove_reducer(dict(components), combine, neutral, fact or ())
    print(report.text(verify))
    if not report.proved:
        raise typer.Exit(int(Exit.INTERNAL if report.verdict is Verdict.DISAGREEMENT else Exit.REFUSED))


@app.command()
def mutants(
    program: Annotated[list[str] | None, typer.Argument(help="programs of the catalogue; default: all")] = None,
    text: Annotated[bool, typer.Option("--text", help="wrong edits of emitted kernel files")] = False,
    program_: Annotated[list[str] | None, typer.Option("--program", metavar="NAME", help="the same as PROGRAM")] = None,
    list_: Annotated[bool, typer.Option("--list", help="list every mutant")] = False,
    json_: Annotated[bool, typer.Option("--json", help="print JSON; --json FILE.json writes it (with --text)")] = False,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="write JSON to FILE (with --text)")] = None,
    every: Annotated[bool, typer.Option("--every", help="every edit there is, not a choice (with --text)")] = False,
) -> None:
    """Test the verifier: wrong transformations, or wrong edits of kernel files, and which obligation refuses each."""
    programs = [*(program or ()), *(program_ or ())]
    if (out or every) and not text:
        raise UsageError("--out and --every are for --text")
    if text:
        from neptune_verified.mutants.text_catalogue import EACH
        from neptune_verified.mutants.text_command import text_mutants_command

        _check_writable(out)
        if not text_mutants_command(list_, json_ and out is None, programs, out, each=None if every else EACH):
            raise typer.Exit(int(Exit.INTERNAL))
        return
    from neptune_verified.mutants.command import mutants_command

    with _status("judging mutants") as status:
        fine = mutants_command(
            list_, json_, programs, progress=lambda name, n, of: status.update(f"{n} of {of}: {name} is done")
        )
    if not fine:
        raise typer.Exit(int(Exit.REFUSED))


@app.command()
def examples() -> None:
    """List the definitions in examples/."""
    import ast

    from rich.table import Table

    folder = _examples_folder()
    table = Table(
        "definition", "what it is", title=f"neptune-verified compile {_relative(folder)}/FILE.py:FUNCTION --verify"
    )
    for path in sorted(folder.glob("*.py")):
        for node in ast.parse(path.read_text()).body:
            if not isinstance(node, ast.FunctionDef) or "program" in [a.arg for a in node.args.kwonlyargs]:
                continue  # what is told the program's name is a peer of programs, not a definition
            if not node.name.startswith("_") and ast.get_docstring(node):
                summary = (ast.get_docstring(node) or "").splitlines()[0]
                table.add_row(f"{_relative(path)}:{node.name}", summary)
    _console().print(table)


@app.callback(invoke_without_command=True)
def _version(version: Annotated[bool, typer.Option("--version", help="print the version")] = False) -> None:
    if version:
        from neptune_verified import __version__

        print(f"neptune-verified {__version__}")
        raise typer.Exit


# ------------------------------------------------------------------------------------------------- input


def _parameters(pairs: list[str]) -> dict[str, Any]:
    import ast

    result: dict[str, Any] = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals or not name.isidentifier():
            raise UsageError(f"--set takes NAME=VALUE, got {pair!r}")
        try:
            result[name] = ast.literal_eval(text)
        except (ValueError, SyntaxError):
            result[name] = text
    return result


def read_definition(source: str, parameters: dict[str, Any]) -> tuple[Any, str]:
    """The program that FILE.py:FUNCTION defines, and a note on how its reading was checked."""
    path_text, _, function = source.rpartition(":")
    path = Path(path_text)
    if not path_text or not function.isidentifier():
        raise UsageError(f"{source!r} is not FILE.py:FUNCTION")
    if not path.is_file():
        raise UsageError(f"{path}: no such file")
    from neptune_verified.frontend.te import check_reading, from_te, record_lines
    from neptune_verified.ir.program import Program

    with record_lines() as lines:
        build = load_function(path, function)
        try:
            result = build(**parameters)
        except TypeError as e:
            if f"{function}()" in str(e):
                raise UsageError(f"{source}: {e}") from None
            raise UsageError(user_error(source, path, e)) from None
        except Exception as e:
            raise UsageError(user_error(source, path, e)) from None
    if isinstance(result, Program):
        return result, ""
    if not (isinstance(result, tuple) and len(result) == 2 and all(isinstance(x, list | tuple) for x in result)):
        raise UsageError(f"{source} returned {type(result).__name__}, wanted an nv.Program or (inputs, outputs)")
    inputs, outputs = list(result[0]), list(result[1])
    program = from_te(inputs, outputs, function, lines=lines)
    return program, check_reading(program, outputs, inputs)


def _schedule(text: str | None) -> Any:
    """What --schedule names. Raises UsageError for what is neither an update nor a name in a file."""
    from neptune_verified.schedule import UPDATES, Schedule

    if text is None or text in UPDATES:
        return Schedule(text or "auto")
    path, _, name = text.rpartition(":")
    if not path or not name.isidentifier() or not Path(path).is_file():
        raise UsageError(f"--schedule {text}: it is none of {', '.join(UPDATES)}, nor a name in a file as FILE.py:NAME")
    found, _ = load_object(Path(path), name)
    if not isinstance(found, Schedule) and not callable(found):
        raise UsageError(
            f"--schedule {text}: an nv.Schedule or a function from a program to one, got {type(found).__name__}"
        )
    return found


def _check_writable(out: Path | None) -> None:
    """An output folder that cannot be written is said before any work is done."""
    import os

    if out is None:
        return
    parent = out.absolute()
    while not parent.exists():
        parent = parent.parent
    if not parent.is_dir():
        raise UsageError(f"{out}: {parent} is not a folder")
    if not os.access(parent, os.W_OK):
        raise UsageError(f"{out}: {parent} is not writable")


def _examples_folder() -> Path:
    for folder in (Path("examples"), Path(__file__).parent.parent / "examples"):
        if folder.is_dir():
            return folder
    raise UsageError("there is no examples/ folder here: run this in a checkout of the project")


def _relative(path: Path) -> Path:
    try:
        return path.resolve().relative_to(Path.cwd())
    except ValueError:
        return path


# ------------------------------------------------------------------------------------------------- output


def _console() -> Any:
    from rich.console import Console

    return Console()


def _status(text: str) -> Any:
    from rich.console import Console

    return Console(stderr=True).status(text)


def _show_compiled(kernel: Any, whole: bool, note: str, folder: Path | None, read: float, built: float) -> None:
    from neptune_verified.report.lines import refused_notice

    console = _console()
    if whole:
        console.print(kernel.report.terminal())
        console.print()
    for refusal in () if whole else kernel.loops.refusals:
        console.print(f"not fused: {refused_notice(refusal)}", markup=False, highlight=False)
    if note:
        console.print(note, markup=False, highlight=False)
    proved = len(kernel.certificate["obligations"]) if kernel.certificate else 0
    state = f"{proved} obligations proved" if kernel.certificate else "NOT VERIFIED"
    console.print(
        f"{kernel.program.name}: {len(kernel.loops.nests)} kernel(s), {kernel.passes} pass(es), {state}; "
        f"target {kernel.target}; read in {read:.1f} s, compiled in {built:.1f} s",
        markup=False, highlight=False,
    )  # fmt: skip
    if folder is not None:
        console.print(f"wrote {folder}", markup=False, highlight=False)


if __name__ == "__main__":
    main()
