"""Files with kernels for a split-K update, and with packed tiles: wrong edits, each refused by the symbolic reader for its
obligation, and whether the bounded evaluation refuses it too; and right ones, accepted by both."""

from __future__ import annotations

import re

import pytest

from neptune_verified.errors import UnsupportedProgram
from neptune_verified.ir.expr import axis, read, reduce_, size
from neptune_verified.ir.program import Program, Stage, Tensor
from neptune_verified.ir.serialize import program_from_json, program_to_json
from neptune_verified.mutants.text_programs import SPLIT_PROGRAMS, TEXT_PROGRAMS, declared, text_base
from neptune_verified.pipeline import compile
from neptune_verified.proofs.bounded import bounded
from neptune_verified.schedule import Schedule
from tests.text.bases import TARGET, Edit, base, check, refusal

S, L, P, D = "split_softmax", "split_logsumexp", "split_passes", "packed_decode"


#: Edit, and whether the bounded evaluation refuses it.
WRONG: list[tuple[Edit, bool]] = [
    # How the axis is cut.
    (Edit(S, r"_shares\(N,", "_shares(N - 1,", "O13", "another length is split"), False),
    (Edit(S, r"_shares\(N,", "_shares(M,", "O13", "another length is split"), True),
    (Edit(D, r"_shares\(N, programs, 1, 32", "_shares(N, programs, 1, 16", "O11", "k may be accessed beyond"), True),
    (Edit(D, r"_shares\(N, programs, 1, 32", "_shares(N, programs, 1, 1", "O11", "k may be accessed beyond"), True),
    (Edit(D, r"_shares\(N, programs, 1, 32", "_shares(N, programs, 1, 33", "O11", "k may be accessed beyond"), True),
    (Edit(S, r"splits, split_size\)\n", "split_size, splits)\n", "O13", "in another way"), True),
    (Edit(S, r"shares, share = ", "share, shares = ", "O13", "in another way"), True),
    (Edit(S, r"(    if shares == 1)", r"    shares = shares + 1\n\1", "O13", "no launcher has"), True),
    (Edit(S, r"(    if shares == 1)", r"    share = share // 2\n\1", "O13", "no launcher has"), True),
    # The launcher's defaults.
    (Edit(S, "splits=None, split_size=None", "splits=2, split_size=16", "O13", "both a number"), True),
    (Edit(S, "splits=None,", "splits=0,", "O13", "no number of splits"), True),
    (Edit(S, "split_size=None", 'split_size="8"', "O13", "no number of splits"), True),
    # Which kernels run.
    (Edit(S, "if shares == 1", "if shares >= 1", "O13", "no launcher has"), True),
    (Edit(S, "if shares == 1", "if share == 1", "O13", "no launcher has"), True),
    (Edit(S, "if shares == 1", "if not shares == 1", "O13", "no launcher has"), True),
    (
        Edit(
            S,
            r"(?s)    if shares == 1:\n(.*?)    else:\n(.*)    return p",
            r"    if shares == 1:\n\2    else:\n\1    return p",
            "O11",
            "not between two kernels",
        ),
        True,
    ),
    (
        Edit(
            S,
            r"(?s)(?m)^        blocks, options = _pick\(_SPLIT_SOFTMAX_JOIN0.*?\n(?=        blocks)",
            "",
            "O13",
            "1 and 2 launches",
        ),
        True,
    ),
    (
        Edit(
            S,
            r"(?s)        blocks, options = _pick\(_SPLIT_SOFTMAX_PART1.*?\n(?=    return)",
            "",
            "O13",
            "1 and 2 launches",
        ),
        True,
    ),
    (
        Edit(
            S,
            r"(?s)(        blocks, options = _pick\(_SPLIT_SOFTMAX_PART0.*?)(        blocks, options = "
            r"_pick\(_SPLIT_SOFTMAX_JOIN0.*?)(?=        blocks)",
            r"\2\1",
            "O13",
            "",
        ),
        True,
    ),
    (Edit(S, r"(?s)    (p, = _results.*?\n)(.*    if shares == 1:\n)", r"\2        \1", "O13", "does not split"), True),
    # The tensors between the kernels.
    (Edit(S, r"\(shares, M,\), torch\.float32", "(shares - 1, M,), torch.float32", "O11", "another shape"), True),
    (Edit(S, r"\(shares, M,\), torch\.float32", "(share, M,), torch.float32", "O11", "another shape"), True),
    (Edit(S, r"\(shares, M,\), torch\.float32", "(M, shares,), torch.float32", "O11", "another shape"), True),
    (Edit(S, r"\(shares, M,\), torch\.float32", "(shares, M,), torch.float16", "O11", "another shape or type"), False),
    (Edit(P, r"\(shares, M,\), torch\.int32", "(shares, M,), torch.int8", "O11", "another shape or type"), False),
    (Edit(S, r"        m_part, l_part, m_all, l_all = .*\n", "", "O13", "no tensor, stride or length"), True),
    (Edit(S, r"\(x, m_part, l_part, \*", "(x, l_part, m_part, *", "O11", "not its index times its stride"), True),
    (
        Edit(
            S,
            r"\(m_part, l_part, m_all, l_all, \*m_part\.stride\(\), \*l_part\.stride\(\),",
            "(l_part, m_part, m_all, l_all, *l_part.stride(), *m_part.stride(),",
            "O13",
            "after a tile",
        ),
        True,
    ),
    (
        Edit(
            S,
            r"\(x, m_all, l_all, p, \*x\.stride\(\), \*m_all\.stride\(\), \*l_all\.stride\(\),",
            "(x, l_all, m_all, p, *x.stride(), *l_all.stride(), *m_all.stride(),",
            "O13",
            "p: ",
        ),
        True,
    ),
    # Launches.
    (Edit(S, r"M, N, shares, share, \*", "M, N, share, shares, *", "O11", "divided by something else"), True),
    (Edit(S, r"M, N, shares, share, \*", "M, N, shares, share - 1, *", "O13", "no tensor, stride or length"), False),
    (
        Edit(S, r"l_all\.stride\(\), M, shares,", "l_all.stride(), M, share,", "O11", "m_part may be accessed beyond"),
        True,
    ),
    (Edit(S, r" \* \(shares\)\n", " * (share)\n", "O11", "divided by something else"), False),
    (Edit(S, r" \* \(shares\)\n", "\n", "O12", "may overflow"), True),
    # Programs beyond the last row, which do nothing.
    (Edit(S, r" \* \(shares\)\n", " * (shares) * (shares)\n", "O12", "may overflow"), False),
    # The share of a program.
    (Edit(S, r"split \* split_size\)", "(split + 1) * split_size)", "O12", "may overflow"), True),
    (Edit(S, r"split \* split_size\)", "split * split_size + 1)", "O13", "l after a tile"), True),
    (Edit(S, r"t_3 = \(split \* split_size\)", "t_3 = split", "O12", "may overflow"), True),
    (
        Edit(S, r"tl\.minimum\(\(t_3 \+ split_size\), N\)", "(t_3 + split_size)", "O11", "x may be accessed beyond"),
        True,
    ),
    (Edit(S, r"tl\.minimum\(\(t_3 \+ split_size\), N\)", "N", "O13", "l after a tile"), True),
    (
        Edit(
            S,
            r"tl\.minimum\(\(t_3 \+ split_size\), N\)",
            "tl.minimum(t_3 + split_size - 1, N)",
            "O13",
            "l after a tile",
        ),
        True,
    ),
    (
        Edit(
            S,
            r"tl\.minimum\(\(t_3 \+ split_size\), N\)",
            "tl.minimum(t_3 + split_size, N) - 1",
            "O13",
            "l after a tile",
        ),
        True,
    ),
    (
        Edit(S, r"    split = \(pid % splits\)\n", "    split = splits - 1 - (pid % splits)\n", "O12", "may overflow"),
        False,
    ),
    (Edit(S, r"    split = \(pid % splits\)\n", "    split = (pid % splits) % 2\n", "O12", "may overflow"), True),
    (
        Edit(
            S, r"    split = \(pid % splits\)\n", "    split = tl.minimum(pid % splits, 65535)\n", "O12", "may overflow"
        ),
        False,
    ),
    (
        Edit(
            S,
            r"tl\.cast\(split, tl\.int64\) \* stride_m_part_0",
            "tl.cast(splits - 1 - split, tl.int64) * stride_m_part_0",
            "O11",
            "another form",
        ),
        True,
    ),
    (Edit(S, r"\(tl\.cast\(split, tl\.int64\) \* stride_l_part_0\) \+ ", "", "O11", "is not used"), True),
    (Edit(D, r"tl\.where\(t_\d+\[None, :\], (tl\.exp\(.*\)), 0\.0\)", r"\1", "O13", "o after a tile", at=1), True),
    # Joins.
    (
        Edit(
            S,
            r"mask=\(t_4\[:, None\] & \(split < splits\)\[None, :\]\)",
            "mask=t_4[:, None]",
            "O11",
            "m_part may be accessed",
        ),
        True,
    ),
    (Edit(L, r"range\(0, splits, BLOCK_SPLIT\)", "range(0, splits - 1, BLOCK_SPLIT)", "O10", "no tile holds"), False),
    (
        Edit(
            L,
            r"range\(0, splits, BLOCK_SPLIT\)",
            "range(0, tl.minimum(splits, 65536), BLOCK_SPLIT)",
            "O10",
            "no tile holds",
        ),
        False,
    ),
    (
        Edit(
            L,
            r"(m_part_tile_\d+) - tl\.where\(\(m == float\(\"-inf\"\)\), 0\.0, m\)\[:, None\]",
            r'\1 - tl.where(\1 == float("-inf"), 0.0, \1)',
            "O8",
            "l after a tile",
        ),
        True,
    ),
    (
        Edit(
            L,
            r"tl\.where\(\(split < splits\)\[None, :\], (m_part_tile_\d+), float\(\"-inf\"\)\)",
            r"\1",
            "O13",
            "m after a tile",
        ),
        False,
    ),
    (
        Edit(
            L,
            r"tl\.cast\(split\[None, :\], tl\.int64\) \* stride_m_part_0",
            "tl.cast(0 * split[None, :], tl.int64) * stride_m_part_0",
            "O13",
            "m after a tile",
        ),
        True,
    ),
    # The last pass stores along shares.
    (
        Edit(S, r"(?s)(def _split_softmax_part1_kernel.*?)x0_first_7 = t_3", r"\1x0_first_7 = 0", "O11", "is not used"),
        True,
    ),
    (
        Edit(
            S,
            r"(?s)(def _split_softmax_part1_kernel.*)tl\.cast\(x0, tl\.int64\) \* stride_p_1",
            r"\1tl.cast(x0 - t_3, tl.int64) * stride_p_1",
            "O11",
            "beyond the share of a split",
        ),
        True,
    ),
    # Packed tiles: the rows of a group.
    (Edit(D, r"h_lane < 3", "h_lane < 2", "O11", "left unwritten"), True),
    (Edit(D, r"h_lane < 3", "h_lane < 4", "O11", "another form"), True),
    (Edit(D, r"h_group \* 3", "h_group * 2", "O11", "another form"), True),
    (Edit(D, r"h_group \* 3", "h_group * 4", "O11", "left unwritten"), True),
    (Edit(D, r"h_group \* 3 \+ h_lane", "h_group * 3 + h_lane + 1", "O11", "another form"), True),
    (Edit(D, r"h_group \* 3 \+ h_lane", "h_lane * 3 + h_group", "O11", "another form"), True),
    (Edit(D, r"h_group \* 3 \+ h_lane, 5\)", "h_group * 3 + h_lane, 0)", "O11", "another form"), True),
    (Edit(D, r"tl\.where\(h_lane < 3, h_group \* 3 \+ h_lane, 5\)", "h_group * 3 + h_lane", "O11", ""), True),
    (
        Edit(D, r"tl\.cast\(h_group, tl\.int64\) \* stride_k_1", "tl.cast(1 - h_group, tl.int64) * stride_k_1", "O13"),
        True,
    ),
    (Edit(D, r"programs = \(B\) \* \(2\)", "programs = (B) * (1)", "O11", ""), True),
]

#: Right edits, and right files.
RIGHT: list[Edit] = [
    Edit(S, "splits=None,", "splits=2,"),
    Edit(S, "split_size=None", "split_size=4096"),
    Edit(S, r"_shares\(N, programs, 8, 8", "_shares(N, programs, 3, 16"),
    Edit(S, r"_shares\(N, programs, 8, 8", "_shares(N, programs, 8, 1"),
    Edit(S, r"_shares\(N, programs, 8, 8", "_shares(N, programs, 8, 9"),
    Edit(D, r"_shares\(N, programs, 1, 32, q", "_shares(N, programs, 2, 64, k"),
    Edit(S, r"(?s)(def _split_softmax_part1_kernel.*?)range\(x0_first_7, x0_end_8", r"\1range(x0_first_7, N"),
    Edit(S, r"programs = (.*) \* \(shares\)\n", r"programs = (shares) * \1\n"),
    Edit(S, r"split \* split_size\)", "split * split_size + 0)"),
    Edit(D, r"tl\.minimum\(\(t_3 \+ split_size\), N\)", "tl.minimum(t_3 + split_size - 1, N)"),
    Edit(D, r"tl\.where\(h_lane < 3, h_group \* 3 \+ h_lane, 5\)", "tl.where(h_lane < 3, h_lane + 3 * h_group, 6)"),
    Edit(D, r"tl\.where\(h_lane < 3, h_group \* 3 \+ h_lane, 5\)", "tl.where(h_lane >= 3, 5, h_group * 3 + h_lane)"),
]


@pytest.mark.parametrize(("edit", "seen"), WRONG, ids=[f"{k}: {e}" for k, (e, _) in enumerate(WRONG)])
def test_wrong(edit: Edit, seen: bool) -> None:
    check(edit)
    assert (bounded(base(edit.program).loops.program, edit.source(), TARGET).verdict != "proved") == seen


@pytest.mark.parametrize("edit", RIGHT, ids=[f"{k}: {e}" for k, e in enumerate(RIGHT)])
def test_right(edit: Edit) -> None:
    assert refusal(edit.program, edit.source()) == ("", "")
    assert bounded(base(edit.program).loops.program, edit.source(), TARGET).verdict == "proved"


@pytest.mark.parametrize("program", sorted(SPLIT_PROGRAMS))
def test_the_right_file(program: str) -> None:
    b = base(program)
    assert refusal(program, b.source) == ("", "")
    assert bounded(b.loops.program, b.source, TARGET).verdict == "proved"


def test_there_are_many() -> None:
    assert len(WRONG) >= 60 and len(RIGHT) >= 12
    assert {e.id for e, _ in WRONG} >= {"O8", "O10", "O11", "O12", "O13"}


def test_the_join_of_a_second_pass_reads_what_its_splits_stored() -> None:
    """And does not compute it anew, over the whole axis."""
    source = base(P).source
    join = source[source.index("def _split_passes_join1_kernel") : source.index("_SPLIT_PASSES_JOIN1_KERNEL_SIGNATURE")]
    assert "x_ptr" not in join and join.count("    for ") == 1


# ------------------------------------------------------------------------------ once accepted


def test_the_last_kernel_is_not_launched_and_another_is_twice() -> None:
    """As many launches as there are kernels."""
    source = base(S).source
    a, e = source.index("@triton.jit\ndef _split_softmax_kernel"), source.index("@triton.jit\ndef _split_softmax_part0")
    twin = source[a:e].replace("_softmax_kernel", "_softmax_twin").replace("_SOFTMAX_KERNEL", "_SOFTMAX_TWIN")
    last, host = source.index("@triton.jit\ndef _split_softmax_part1"), source.index("def _check_tensors")
    source = source[:last] + twin + source[host:]
    loop = source[
        source.index("    if shares == 1:\n") + len("    if shares == 1:\n") : source.index("    else:\n        m_part")
    ]
    tiles = "        blocks, options = _pick(_SPLIT_SOFTMAX_TWIN_CONFIGS, M, config)\n"
    tiles += '        programs = -(-(M) // blocks["BLOCK_I"])\n'
    tiles += '        _check_limit((("the number of programs", programs),))\n'
    again = tiles + loop.replace("_softmax_kernel", "_softmax_twin")
    source = source.replace("    else:\n        m_part", f"{again}    else:\n        m_part")
    cut = source.index("        blocks, options = _pick(_SPLIT_SOFTMAX_PART1")
    source = source[:cut] + source[source.index("    return p") :]
    id_, why = refusal(S, source)
    assert (id_, "2 and 2 launches" in why) == ("O13", True), why


def renamed(program: str, old: str, new: str) -> object:
    text = program_to_json(text_base(program).program)
    return program_from_json(re.sub(rf'"{old}"', f'"{new}"', text))


@pytest.mark.parametrize("update", ["rolling", "split-k"])
@pytest.mark.parametrize("old", ["N", "M", "x"])
@pytest.mark.parametrize("new", ["shares", "share", "blocks", "options", "programs", "config", "max", "_pick",
                                 "_split_softmax_kernel"])  # fmt: skip
def test_a_name_that_the_launcher_needs(new: str, old: str, update: str) -> None:
    program = renamed(S, old, new)
    with pytest.raises(UnsupportedProgram, match=f"the name {new}: the kernel file gives this name a meaning"):
        compile(program, TARGET, Schedule(update))  # type: ignore[arg-type]


@pytest.mark.parametrize("new", ["blocks", "options", "programs", "shares", "share", "_split_softmax_kernel"])
@pytest.mark.parametrize("old", ["N", "M", "x"])
def test_a_file_in_which_a_name_has_two_meanings(old: str, new: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Were it printed, it would be refused by both readers."""
    from neptune_verified.mutants import text_programs
    from neptune_verified.proofs.text import TextRefused, read_back
    from neptune_verified.tile import emit

    monkeypatch.setattr(emit, "check_names", lambda program, kernels: None)
    monkeypatch.setitem(TEXT_PROGRAMS, S, lambda: renamed(S, old, new))
    b = text_programs.text_base.__wrapped__(S)
    with pytest.raises(TextRefused, match=f"O13.*{new} has two meanings"):
        read_back(b.loops, b.source, TARGET)
    assert bounded(b.program, b.source, TARGET).verdict != "proved"


def test_a_nest_without_rows() -> None:
    """Programs differ in their share alone."""
    n, j = size("N"), axis("j", size("N"))
    total = Stage("s", (axis("i", 1),), reduce_("sum", (j,), read("x", (j,), "float32")))
    program = declared(Program("total", (Tensor("x", (n,), "float32"),), (n,), (total,), ("s",)), (n,))
    source = compile(program, TARGET, Schedule("split-k")).source
    assert "split = pid\n" in source


def test_scalar_arguments_and_several_nests_that_are_split() -> None:
    """A float argument in the trials with splits."""
    kernel = compile(text_base("two_kernels").program, TARGET, Schedule("split-k"))
    assert kernel.source.count("_shares(") == 3
