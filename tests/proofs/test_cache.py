"""The proof cache: when it answers, what it never keeps, damaged and poisoned entries, folders that cannot be used."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields, replace
from pathlib import Path

import pytest

from neptune_verified.fusion.fuse import fuse
from neptune_verified.ir.expr import var
from neptune_verified.ir.loops import LoopProgram, T
from neptune_verified.mutants.model import put_carried
from neptune_verified.proofs import cache as module
from neptune_verified.proofs import kernel
from neptune_verified.proofs.cache import VARIABLE, Cache, default_folder, key, sources_hash
from neptune_verified.proofs.cache_entry import CACHED, entry, lasting, replays
from neptune_verified.proofs.check import check
from neptune_verified.proofs.discharge import Discharged, discharge
from neptune_verified.proofs.kernel import Proved, Prover, required, verify
from neptune_verified.proofs.limits import LIMITS
from neptune_verified.proofs.statement import Defined, Equal, Hypothesis, Refines, Statement
from neptune_verified.proofs.text import TextRefused
from neptune_verified.proofs.verdict import Counterexample, RouteResult, Verdict
from tests.definitions import attention, softmax
from tests.proofs.claims import FALSE, TRUE, VACUOUS
from tests.proofs.folders import emitted, write
from tests.proofs.library import say

PROVED = TRUE["O1 guarded"]
REFUTED = FALSE[next(iter(FALSE))]
UNSUPPORTED = say("x: real", "tanh(x) <= 1")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.fixture
def store(folder: Path) -> Cache:
    return Cache(folder)


def claim(verdict: Verdict, ms: float = 1.0) -> Discharged:
    """An answer that no prover gave."""
    return Discharged(
        verdict, (RouteResult("z3", verdict, ms, script="(check-sat)\n"), RouteResult("sympy", verdict, ms))
    )


def only(folder: Path) -> Path:
    (path,) = folder.iterdir()
    return path


# ------------------------------------------------------------------------------------------------- answers


@pytest.mark.parametrize(
    "statement",
    [PROVED, REFUTED, UNSUPPORTED, next(iter(VACUOUS.values()))],
    ids=["proved", "refuted", "uns", "vacuous"],
)
def test_what_was_put_is_found_by_another_run(statement: Statement, folder: Path) -> None:
    answer = discharge(statement)
    Cache(folder).put(statement, answer)
    found = Cache(folder).get(statement)
    assert found is not None
    assert (found.verdict, found.counterexample) == (answer.verdict, answer.counterexample)
    for mine, theirs in zip(found.routes, answer.routes, strict=True):
        assert (mine.route, mine.verdict, mine.script) == (theirs.route, theirs.verdict, theirs.script)
        assert mine.detail == (CACHED if mine.verdict is Verdict.PROVED else theirs.detail)


def test_every_known_refutation_is_found_again(store: Cache) -> None:
    """Their points are evaluated anew, from their text."""
    for statement in FALSE.values():
        store.put(statement, discharge(statement))
        assert store.get(statement) is not None, statement


def test_the_second_run_calls_no_prover(store: Cache, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = verify(fuse(attention(), cold := Prover(store)), cold)

    def never(*_: object) -> Discharged:
        raise AssertionError("a prover was called")

    monkeypatch.setattr(kernel, "discharge", never)
    monkeypatch.setattr(kernel, "survey", never)
    second = verify(fuse(attention(), warm := Prover(Cache(folder))), warm)
    assert second.loops == first.loops
    assert [p.obligation for p in second.proved] == [p.obligation for p in first.proved]
    assert all(r.detail == CACHED for p in second.proved for r in p.result.routes)


def test_a_folder_compiled_from_the_cache_passes_the_check(store: Cache, folder: Path, tmp_path: Path) -> None:
    verify(fuse(softmax(), cold := Prover(store)), cold)
    verified = verify(fuse(softmax(), warm := Prover(Cache(folder))), warm)
    assert {r.detail for p in verified.proved for r in p.result.routes} == {CACHED}
    assert check(write(tmp_path / "out", verified)).problems == ()


# ------------------------------------------------------------------------------------------------- keys


def _hypothesis_dropped(s: Statement) -> Statement:
    return replace(s, hypotheses=s.hypotheses[1:])


def _kind_added(s: Statement) -> Statement:
    first = s.symbols[0]
    return replace(s, symbols=(replace(first, kinds=first.kinds | {"+inf"}), *s.symbols[1:]))


def _other_type(s: Statement) -> Statement:
    first = s.symbols[0]
    return replace(s, symbols=(replace(first, var=var(first.var.name, "float64")), *s.symbols[1:]))


def _other_meaning(s: Statement) -> Statement:
    return replace(s, symbols=(replace(s.symbols[0], meaning="something else"), *s.symbols[1:]))


def _other_origin(s: Statement) -> Statement:
    first = s.hypotheses[0]
    return replace(s, hypotheses=(Hypothesis(first.expr, "elsewhere"), *s.hypotheses[1:]))


def _sides_exchanged(s: Statement) -> Statement:
    assert isinstance(s.goal, Refines)
    return replace(s, goal=Refines(s.goal.rhs, s.goal.lhs))


def _stronger_goal(s: Statement) -> Statement:
    assert isinstance(s.goal, Refines)
    return replace(s, goal=Equal(s.goal.lhs, s.goal.rhs))


OTHERS: list[Callable[[Statement], Statement]] = [
    _hypothesis_dropped,
    _kind_added,
    _other_type,
    _other_meaning,
    _other_origin,
    _sides_exchanged,
    _stronger_goal,
    lambda s: replace(s, goal=Defined(s.terms()[0])),
    lambda s: replace(s, symbols=s.symbols[::-1]),
    lambda s: replace(s, hypotheses=s.hypotheses[::-1]),
]


@pytest.mark.parametrize("change", OTHERS)
def test_another_statement_is_a_miss(change: Callable[[Statement], Statement], store: Cache) -> None:
    store.put(PROVED, claim(Verdict.PROVED))
    assert store.get(PROVED) is not None
    assert store.get(change(PROVED)) is None


@pytest.mark.parametrize("limit", [f.name for f in fields(LIMITS)])
def test_other_limits_are_a_miss(limit: str, store: Cache) -> None:
    store.put(PROVED, claim(Verdict.PROVED))
    assert store.get(PROVED, replace(LIMITS, **{limit: getattr(LIMITS, limit) + 1})) is None


@pytest.mark.parametrize("part", range(len(module.environment())))
def test_other_sources_and_tools_are_a_miss(
    part: int, store: Cache, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.put(PROVED, claim(Verdict.PROVED))
    now = module.environment()
    monkeypatch.setattr(module, "environment", lambda: (*now[:part], now[part] + "!", *now[part + 1 :]))
    assert Cache(folder).get(PROVED) is None


def test_the_environment_names_the_tools() -> None:
    sources, *tools = module.environment()
    assert len(sources) == 64
    assert [t.split()[0] for t in tools] == ["mpmath", "neptune_verified", "python", "semantics", "sympy", "z3"]


def test_every_source_file_that_decides_is_in_the_hash(tmp_path: Path) -> None:
    for name in ("ir/expr.py", "proofs/route_z3.py", "proofs/deep/er.py", "fusion/fuse.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x = 1\n")
    before = sources_hash(tmp_path)
    (tmp_path / "fusion/fuse.py").write_text("x = 2\n")
    assert sources_hash(tmp_path) == before
    for name in ("ir/expr.py", "proofs/route_z3.py", "proofs/deep/er.py"):
        (tmp_path / name).write_text("x = 2\n")
        assert sources_hash(tmp_path) != before
        before = sources_hash(tmp_path)
    (tmp_path / "ir/new.py").write_text("")
    assert sources_hash(tmp_path) != before


def test_keys_do_not_depend_on_the_process() -> None:
    code = (
        "from neptune_verified.proofs.cache import key; from neptune_verified.proofs.limits import LIMITS\n"
        "from tests.proofs.claims import TRUE; print(key(TRUE['O1 guarded'], LIMITS))"
    )
    root = Path(__file__).parents[2]
    for seed in ("1", "2"):
        env = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(root)}
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=env, cwd=root
        )
        assert done.stdout.strip() == key(PROVED, LIMITS)


# ------------------------------------------------------------------------------------------------- what is kept


@pytest.mark.parametrize("verdict", [Verdict.TIMEOUT, Verdict.UNKNOWN, Verdict.DISAGREEMENT])
def test_what_depends_on_the_machine_is_not_kept(verdict: Verdict, store: Cache, folder: Path) -> None:
    store.put(PROVED, claim(verdict))
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("verdict", [Verdict.UNSUPPORTED, Verdict.VACUOUS])
def test_nor_what_a_clock_may_have_decided(verdict: Verdict) -> None:
    assert lasting(claim(verdict, 1.0))
    assert not lasting(claim(verdict, LIMITS.z3_ms * 0.9))


def test_an_entry_that_says_timeout_is_a_miss(store: Cache, folder: Path) -> None:
    store.put(PROVED, claim(Verdict.PROVED))
    only(folder).write_bytes(entry(claim(Verdict.TIMEOUT), key(PROVED, LIMITS)))
    assert store.get(PROVED) is None


def test_a_note_of_the_falsifier_is_no_answer(store: Cache, folder: Path) -> None:
    store.put_survivor(PROVED)
    assert store.survived(PROVED) and Cache(folder).survived(PROVED)
    assert store.get(PROVED) is None and not store.survived(REFUTED)


# ------------------------------------------------------------------------------------------------- damaged entries


def _rewritten(content: bytes, **changes: object) -> bytes:
    """The entry with other fields, and its hash made anew."""
    data = json.loads(content.partition(b"\n")[2]) | changes
    body = json.dumps(data).encode()
    return module.hashlib.sha256(body).hexdigest().encode() + b"\n" + body


Z3 = {"route": "z3", "verdict": "proved", "ms": 1.0, "detail": "", "script": ""}
SYMPY = Z3 | {"route": "sympy"}
DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda _: b"",
    "cut": lambda c: c[: len(c) // 2],
    "last byte cut": lambda c: c[:-1],
    "a bit flipped": lambda c: c[:100] + bytes([c[100] ^ 1]) + c[101:],
    "not text": lambda _: b"\xff" * 200,
    "no JSON": lambda c: _rewritten(c)[:64] + b"\n{",
    "other key": lambda c: _rewritten(c, key="0" * 64),
    "field added": lambda c: _rewritten(c, more=1),
    "no routes": lambda c: _rewritten(c, routes=[]),
    "one route": lambda c: _rewritten(c, routes=[Z3]),
    "one route twice": lambda c: _rewritten(c, routes=[Z3, Z3]),
    "routes exchanged": lambda c: _rewritten(c, routes=[SYMPY, Z3]),
    "falsifier proves": lambda c: _rewritten(c, routes=[Z3 | {"route": "falsifier"}]),
    "one route doubts": lambda c: _rewritten(c, routes=[Z3, SYMPY | {"verdict": "unknown"}]),
    "one route refutes": lambda c: _rewritten(c, routes=[Z3, SYMPY | {"verdict": "refuted"}]),
    "unknown verdict": lambda c: _rewritten(c, verdict="sure"),
    "a text for ms": lambda c: _rewritten(c, routes=[Z3 | {"ms": "1"}, SYMPY]),
    "with counterexample": lambda c: _rewritten(c, counterexample={"values": {}, "left": "1", "right": "2"}),
    "values no table": lambda c: _rewritten(c, counterexample={"values": [], "left": "1", "right": "2"}),
    "nested too deeply": lambda c: _rewritten(c)[:65] + b"[" * 100_000,
}


@pytest.mark.parametrize("name", DAMAGE)
def test_a_damaged_entry_is_a_miss_and_is_written_anew(name: str, store: Cache, folder: Path) -> None:
    store.put(PROVED, claim(Verdict.PROVED))
    path = only(folder)
    whole = path.read_bytes()
    path.write_bytes(DAMAGE[name](whole))
    assert store.get(PROVED) is None
    store.put(PROVED, claim(Verdict.PROVED))
    assert path.read_bytes() == whole and store.get(PROVED) is not None


def test_an_entry_under_another_name_is_a_miss(store: Cache, folder: Path) -> None:
    store.put(PROVED, claim(Verdict.PROVED))
    path = only(folder)
    path.rename(path.with_name(f"{key(REFUTED, LIMITS)}.json"))
    assert store.get(REFUTED) is None


def test_a_folder_in_the_place_of_an_entry_is_a_miss(store: Cache, folder: Path) -> None:
    (folder / f"{key(PROVED, LIMITS)}.json").mkdir()
    assert store.get(PROVED) is None


def test_a_wrong_counterexample_is_a_miss(store: Cache) -> None:
    """A true statement is not refuted by an entry, nor a false one at a point where it is true."""
    for found in (
        Counterexample({v.var.name: "0" for v in PROVED.symbols}, "1", "2"),
        Counterexample({v.var.name: "1/0" for v in PROVED.symbols}, "1", "2"),
        Counterexample({}, "1", "2"),
    ):
        route = RouteResult("falsifier", Verdict.REFUTED, 1.0, str(found), counterexample=found)
        store.put(PROVED, Discharged(Verdict.REFUTED, (route,), found))
        assert store.get(PROVED) is None
    right = discharge(REFUTED).counterexample
    assert right is not None and replays(REFUTED, right)
    assert not replays(REFUTED, replace(right, left="77"))
    assert not replays(REFUTED, replace(right, values={**right.values, next(iter(right.values)): "nan"}))


# ------------------------------------------------------------------------------------------------- poison


def _wrong(loops: LoopProgram) -> LoopProgram:
    """Softmax whose sum is not repaired when the maximum grows."""
    consumer = next(c for nest in loops.nests for c in nest.carried() if c.repair)
    assert consumer.repair is not None
    unrepaired = replace(consumer.repair, h=var(T, consumer.value.dtype))
    return put_carried(loops, consumer.name, repair=unrepaired)


def test_a_poisoned_cache_does_not_deceive_the_check(
    store: Cache, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = _wrong(fuse(softmax()))
    false = [o for o in required(wrong) if discharge(o.statement).verdict is not Verdict.PROVED]
    assert false
    for o in false:
        store.put(o.statement, claim(Verdict.PROVED))
    monkeypatch.setenv(VARIABLE, str(folder))
    deceived = verify(wrong, Prover(Cache.open()))
    assert deceived.loops == wrong, "the cache is trusted by compile, which docs/trust.md says"
    with pytest.raises(
        TextRefused, match="the definition says"
    ):  # the text is compared with the definition all the same
        emitted(deceived)
    report = check(write(tmp_path / "out", deceived, kernel_of=verify(fuse(softmax()))))
    assert not report.ok
    refuted = [c.id for c in report.checked if c.verdict is Verdict.REFUTED]
    assert refuted == [o.id for o in false]


def test_the_check_does_not_even_import_the_cache() -> None:
    code = "import sys, neptune_verified.proofs.check; print(*(m for m in sys.modules if 'cache' in m))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "neptune_verified" not in done.stdout


# ------------------------------------------------------------------------------------------------- the folder


@pytest.mark.parametrize("value", ["", "off", "OFF", " "])
def test_it_can_be_switched_off(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, value)
    assert Cache.open() is None


def test_the_default_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert default_folder() == tmp_path / "xdg" / "neptune_verified"
    for useless in ("", "relative/folder"):
        monkeypatch.setenv("XDG_CACHE_HOME", useless)
        assert default_folder() == tmp_path / ".cache" / "neptune_verified"
    monkeypatch.setenv(VARIABLE, "~/mine")
    assert default_folder() == tmp_path / "mine"


def test_a_new_folder_is_the_users_own(store: Cache, folder: Path) -> None:
    assert folder.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("mode", [0o770, 0o777, 0o702])
def test_a_folder_that_others_may_write_to_is_not_used(mode: int, folder: Path) -> None:
    Cache(folder).put(PROVED, claim(Verdict.PROVED))
    folder.chmod(mode)
    with pytest.warns(RuntimeWarning, match="others may write"):
        store = Cache(folder)
    assert store.get(PROVED) is None


def test_nor_one_of_another_user(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.mkdir(mode=0o700)
    mine = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: mine + 1)
    with pytest.warns(RuntimeWarning, match="others may write"):
        assert not Cache(folder).usable


def test_a_folder_that_cannot_be_made_costs_one_warning(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.warns(RuntimeWarning, match="cannot be made") as caught:
        store = Cache(tmp_path / "file" / "cache")
        store.put(PROVED, claim(Verdict.PROVED))
        store.put_survivor(PROVED)
        assert store.get(PROVED) is None and not store.survived(PROVED)
    assert len(caught) == 1


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS, errno.EACCES])
@pytest.mark.parametrize("where", ["mkstemp", "replace"])
def test_a_full_or_read_only_disk_costs_one_warning(
    code: int, where: str, store: Cache, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(module.tempfile if where == "mkstemp" else os, where, fail)
    with pytest.warns(RuntimeWarning, match="cannot be written") as caught:
        proved = verify(fuse(softmax(), prover := Prover(store)), prover).proved
    assert len(caught) == 1 and all(isinstance(p, Proved) and p.holds for p in proved)
    assert list(folder.iterdir()) == []


def test_the_oldest_entries_are_removed(folder: Path) -> None:
    store = Cache(folder, most=8)
    for k, statement in enumerate(TRUE.values()):
        store.put(statement, claim(Verdict.PROVED))
        os.utime(folder / f"{key(statement, LIMITS)}.json", (k, k))
        if k == 19:
            break
    assert len(list(folder.iterdir())) == 20
    abandoned = folder / ".new-abandoned"
    abandoned.write_text("")
    os.utime(abandoned, (1, 1))
    (folder / "strange").write_text("")
    Cache(folder, most=8).put(PROVED, claim(Verdict.PROVED))  # the first that is written looks at the folder
    left = {p.name for p in folder.iterdir()}
    assert len(left) == 7 and "strange" in left and abandoned.name not in left
    assert f"{key(PROVED, LIMITS)}.json" in left


def test_many_writers_at_once(folder: Path) -> None:
    statements = list(TRUE.values())[:10]

    def work(k: int) -> bool:
        store = Cache(folder, most=5)
        for s in statements[k:] + statements[:k]:
            store.put(s, claim(Verdict.PROVED))
            found = store.get(s)
            if found is not None and found.verdict is not Verdict.PROVED:
                return False
        return store.usable

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with ThreadPoolExecutor(8) as pool:
            assert all(pool.map(work, range(10)))
    assert not [p for p in folder.iterdir() if p.name.startswith(".new-")]


def test_a_statement_without_a_text_is_not_kept(store: Cache, folder: Path) -> None:
    odd = replace(PROVED, hypotheses=(Hypothesis(object(), "nothing"),))  # type: ignore[arg-type]
    store.put(odd, claim(Verdict.PROVED))
    assert store.get(odd) is None and list(folder.iterdir()) == []
