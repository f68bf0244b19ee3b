"""Trusted: what the functions of Triton mean that emitted kernels call, lane by lane. Any other call is refused."""

from __future__ import annotations

import ast
import math
from fractions import Fraction
from typing import TYPE_CHECKING

from neptune_verified.ir.expr import DTYPES, FLOATS, INTS, Expr, Number, axis, const, int_limit, op, reduce_
from neptune_verified.ir.intervals import representable
from neptune_verified.proofs.text.findings import Unproved
from neptune_verified.proofs.text.powers import log2
from neptune_verified.proofs.text.values import Tile, Value, lane, lanes, opened

if TYPE_CHECKING:
    from neptune_verified.proofs.text.launch import Grid
    from neptune_verified.proofs.text.reader import Reading

_TYPES = {f"tl.{d}": d for d in DTYPES} | {"tl.int1": "bool"}
_UNARY = ("exp", "exp2", "log", "sqrt", "rsqrt", "abs", "erf", "sin", "cos", "floor", "ceil")
_HELPERS = {"_tanh": "tanh", "_sigmoid": "sigmoid", "_floordiv": "floordiv", "_floormod": "floormod",
            "_pow": "pow", "_logaddexp": "logaddexp"}  # fmt: skip
_REDUCERS = {"_mul": "prod", "_logaddexp": "logaddexp"}
_BITS = {"float16": 11, "bfloat16": 8, "float32": 24, "float64": 53}


class Calls:
    """The part of the reader that knows functions."""

    env: dict[str, Value]
    device: set[str]
    found: Reading
    grid: Grid
    around: tuple[int, ...]
    line: int

    def value(self, e: ast.expr) -> Value:
        raise NotImplementedError

    def load(self, call: ast.Call) -> Tile:
        raise NotImplementedError

    def elementwise(self, name: str, *tiles: Tile) -> Tile:
        raise NotImplementedError

    def counted(self, t: Tile) -> Tile:
        raise NotImplementedError

    # -- types ---------------------------------------------------------------------------------------------

    @staticmethod
    def number(v: bool | int | float, dtype: str) -> Expr:
        """A constant in a tile's type; it has to be a number of that type exactly."""
        if dtype == "bool":
            if v not in (0, 1):
                raise Unproved("O13", f"{v} as a truth value")
            return const(bool(v), dtype)
        if dtype in INTS:
            if type(v) is not int or v not in representable_ints(dtype):
                raise Unproved("O12", f"the constant {v} in {dtype}")
            return const(v, dtype)
        if isinstance(v, float) and math.isnan(v):
            raise Unproved("O13", "a NaN")
        if not exact(v, dtype):
            raise Unproved("O16", f"the constant {v!r} is no {dtype}, so it is rounded unseen")
        return const(v, dtype)

    def through_float32(self, v: bool | int | float, dtype: str) -> Expr:
        """A constant that Triton makes a tile of its own first, of 32 bits if it is a float, and then converts."""
        if dtype == "float64" and not exact(v, "float32"):
            raise Unproved("O16", f"the constant {v!r} is no float32, through which it goes")
        return self.number(v, dtype)

    def extreme(self, name: str, a: Value, b: Value) -> Tile:
        """``tl.maximum``, ``tl.minimum``: some versions of Triton make constants tiles, and compute in 32 bits at least."""
        x, y = self.pair(a, b)
        tiles = isinstance(a, Tile) and isinstance(b, Tile)
        if x.dtype == "bfloat16" or not (tiles or x.dtype in ("float32", "int32", "int64")):
            raise Unproved("O16", f"a {name} of {x.dtype}, whose result may have another type")
        return self.elementwise(name, x, y)

    def pair(self, a: Value, b: Value) -> tuple[Tile, Tile]:
        """Both operands in one type, as Triton brings them there; only promotions that change no value are known."""
        if isinstance(a, Tile) and isinstance(b, Tile):
            if a.dtype == b.dtype:
                return a, b
            if {a.dtype, b.dtype} == {"int32", "int64"}:
                return self.cast(a, "int64"), self.cast(b, "int64")
            raise Unproved("O16", f"an operation on {a.dtype} and {b.dtype}")
        if isinstance(a, Tile) and isinstance(b, bool | int | float):
            return a, Tile((), self.number(b, a.dtype))
        if isinstance(b, Tile) and isinstance(a, bool | int | float):
            return Tile((), self.number(a, b.dtype)), b
        raise Unproved("O13", "an operation on addresses or constants")

    @staticmethod
    def common(*shapes: tuple[int, ...]) -> tuple[int, ...]:
        ranked = [s for s in shapes if s]
        if not ranked:
            return ()
        if len({len(s) for s in ranked}) != 1:
            raise Unproved("O13", f"tiles of different ranks: {[list(s) for s in ranked]}")
        result = []
        for dims in zip(*ranked, strict=True):
            sizes = set(dims) - {1}
            if len(sizes) > 1:
                raise Unproved("O13", f"tiles of different shapes: {[list(s) for s in ranked]}")
            result.append(sizes.pop() if sizes else 1)
        return tuple(result)

    @staticmethod
    def cast(t: Tile, dtype: str) -> Tile:
        if dtype == "bool" and t.dtype in INTS:
            return Tile(t.shape, op("ne", t.expr, const(0, t.dtype)))
        if dtype == "bool" and t.dtype in FLOATS:
            raise Unproved("O13", "a number cast to a truth value")
        return Tile(t.shape, op("cast", t.expr, dtype=dtype))

    # -- calls ---------------------------------------------------------------------------------------------

    def call(self, e: ast.Call) -> Value:
        name = ast.unparse(e.func)
        if name == "float" and len(e.args) == 1 and isinstance(e.args[0], ast.Constant) and not e.keywords:
            return float(str(e.args[0].value))
        if name == "tl.load":
            return self.load(e)
        keywords = {k.arg: k.value for k in e.keywords}
        if name in self.device and name in _HELPERS and not keywords:
            return self.helper(name, [self.value(a) for a in e.args])
        match name, e.args, sorted(map(str, keywords)):
            case "tl.program_id", [ast.Constant(value=0)], []:
                return Tile((), self.grid.start)
            case "tl.arange", [ast.Constant(value=0), n], []:
                return self.arange(self.value(n))
            case "tl.cdiv", [a, b], []:
                return self.cdiv(self.value(a), self.value(b))
            case "tl.full", [shape, v, dtype], []:
                return self.full(self.shape(shape), self.value(v), self.type(dtype))
            case "tl.where", [c, a, b], []:
                return self.where(self.value(c), self.value(a), self.value(b))
            case (("tl.maximum" | "tl.minimum"), [a, b], []):
                return self.extreme("max" if name == "tl.maximum" else "min", self.value(a), self.value(b))
            case "tl.cast", [x, dtype], []:
                given = self.value(x)
                tile = given if isinstance(given, Tile) else self.full((), given, "int32" if type(given) is int else "")
                result = self.cast(tile, self.type(dtype))
                return self.counted(result) if tile.dtype in INTS else result
            case "tl.broadcast_to", [x, shape], []:
                return self.broadcast(self.tile(x), self.shape(shape))
            case "tl.trans", [x], []:
                return self.permute(self.tile(x), (1, 0))
            case "tl.permute", [x, ast.Tuple(elts=elts)], []:
                return self.permute(self.tile(x), tuple(_int(a) for a in elts))
            case (("tl.sum" | "tl.max" | "tl.min"), [x], ["axis"]):
                return self.reduce(name[3:], self.tile(x), _int(keywords["axis"]))
            case "tl.reduce", [x, k, ast.Name(id=f)], [] if f in self.device and f in _REDUCERS:
                return self.reduce(_REDUCERS[f], self.tile(x), _int(k))
            case "tl.dot", args, ["input_precision"] if len(args) in (2, 3):
                return self.dot([self.tile(a) for a in args], keywords["input_precision"])
            case "tl.log2", [x], []:
                t = self.tile(x)
                return Tile(t.shape, log2(self.unary("log", t).expr.args[0]))  # type: ignore[attr-defined]
            case _, [x], [] if name[3:] in _UNARY and name.startswith("tl."):
                return self.unary(name[3:], self.tile(x))
            case _:
                raise Unproved("O13", f"the reader does not know this call: {ast.unparse(e)[:80]}")

    def tile(self, e: ast.expr) -> Tile:
        v = self.value(e)
        if not isinstance(v, Tile):
            raise Unproved("O13", f"{ast.unparse(e)[:40]} is no tile")
        return v

    def shape(self, e: ast.expr) -> tuple[int, ...]:
        values = [self.value(x) for x in e.elts] if isinstance(e, ast.List) else [None]
        if not all(type(v) is int and v >= 1 for v in values):
            raise Unproved("O13", "a shape that is no list of block sizes")
        return tuple(values)  # type: ignore[arg-type]

    @staticmethod
    def type(e: ast.expr) -> str:
        name = ast.unparse(e)
        if name not in _TYPES:
            raise Unproved("O13", f"{name} is no type that is known")
        return _TYPES[name]

    def helper(self, name: str, args: list[Value]) -> Tile:
        tiles = [a for a in args if isinstance(a, Tile)]
        if len(args) == 1 and len(tiles) == 1:
            return self.unary(_HELPERS[name], tiles[0])
        if len(args) != 2 or not tiles:
            raise Unproved("O13", f"{name} of something else than tiles")
        x, y = self.pair(*args)
        meaning = _HELPERS[name]
        if meaning in ("floordiv", "floormod"):
            if x.dtype not in INTS:
                raise Unproved("O13", f"{name} of {x.dtype}")
            # Inside: q = a // b, r = a - q * b, q - 1; all lie between -|a| - |b| and |a| + |b|.
            self.found.integers.append((op("add", op("abs", x.expr), op("abs", y.expr)), self.around, self.line))
            return Tile(self.common(x.shape, y.shape), op(meaning, x.expr, y.expr))
        if x.dtype not in ("float32", "float64"):
            raise Unproved("O16", f"{name} of {x.dtype}")
        if meaning == "logaddexp":
            total = op("add", op("exp", x.expr), op("exp", y.expr))
            return Tile(self.common(x.shape, y.shape), op("log", total))
        return self.elementwise(meaning, x, y)

    def unary(self, name: str, x: Tile) -> Tile:
        if name == "abs" and x.dtype != "bool":
            return self.elementwise(name, x)
        if x.dtype not in ("float32", "float64"):
            raise Unproved("O16", f"{name} of {x.dtype}")
        return self.elementwise(name, x)

    @staticmethod
    def arange(n: Value) -> Tile:
        if type(n) is not int or n < 1 or n & (n - 1):
            raise Unproved("O13", "a range of lanes that is no power of two")
        return Tile((n,), lanes((n,))[0])

    def cdiv(self, a: Value, b: Value) -> Value:
        """Triton computes (a + (b - 1)) // b."""
        if type(a) is int and type(b) is int and a >= 0 and b > 0:
            return -(-a // b)
        x, y = self.pair(a, b)
        total = self.counted(Tile(self.common(x.shape, y.shape), cdiv_sum(x.expr, y.expr)))
        self.found.divisions.append((total.expr, y.expr, self.around, self.line))
        return Tile(total.shape, op("floordiv", total.expr, y.expr))

    def full(self, shape: tuple[int, ...], v: Value, dtype: str) -> Tile:
        if isinstance(v, bool | int | float) and dtype:
            return Tile(shape, self.number(v, dtype))
        if isinstance(v, Tile) and v.shape == () and v.dtype == dtype:
            return Tile(shape, v.expr)
        raise Unproved("O13", "a tile full of something else than one number of its type")

    def where(self, c: Value, a: Value, b: Value) -> Tile:
        if not isinstance(c, Tile) or c.dtype != "bool":
            raise Unproved("O13", "a choice by something else than a truth value")
        if not isinstance(a, Tile) and not isinstance(b, Tile):
            if type(a) is not float or type(b) is not float:
                raise Unproved("O13", "a choice between two constants that are no floats")
            x, y = Tile((), self.number(a, "float32")), Tile((), self.number(b, "float32"))
        else:
            x, y = self.pair(a, b)
        return Tile(self.common(c.shape, x.shape, y.shape), op("select", c.expr, x.expr, y.expr))

    def broadcast(self, x: Tile, shape: tuple[int, ...]) -> Tile:
        if self.common(x.shape, shape) != shape:
            raise Unproved("O13", f"a tile of shape {list(x.shape)} does not stretch to {list(shape)}")
        return Tile(shape, x.expr)

    @staticmethod
    def permute(x: Tile, order: tuple[int, ...]) -> Tile:
        if sorted(order) != list(range(len(x.shape))):
            raise Unproved("O13", f"an order {order} of the dimensions of {list(x.shape)}")
        shape = tuple(x.shape[k] for k in order)
        return x.moved({k: j for j, k in enumerate(order)}, shape)

    def reduce(self, reducer: str, x: Tile, k: int) -> Tile:
        if not 0 <= k < len(x.shape):
            raise Unproved("O13", f"there is no dimension {k} in {list(x.shape)}")
        if x.dtype not in ("float32", "float64", "int32", "int64"):
            # Triton widens or rounds the others in ways of its own.
            raise Unproved("O16", f"a {reducer} of {x.dtype}")
        shape = tuple(n for j, n in enumerate(x.shape) if j != k)
        rest = lanes(shape)
        own = (*rest[:k], axis("inner", x.shape[k]), *rest[k:])
        return Tile(shape, reduce_(reducer, (axis("inner", x.shape[k]),), opened(x.expr, x.shape, own)))

    def dot(self, args: list[Tile], precision: ast.expr) -> Tile:
        """sum over k of a[m, k] b[k, n], products and sums in float32, plus the accumulator."""
        a, b = args[:2]
        if not (isinstance(precision, ast.Constant) and precision.value == "ieee"):
            raise Unproved("O16", "a dot whose operands may be rounded to tf32")
        if len(a.shape) != 2 or len(b.shape) != 2 or a.shape[1] != b.shape[0] or a.dtype != b.dtype:
            raise Unproved("O13", f"a dot of {a.dtype}{list(a.shape)} and {b.dtype}{list(b.shape)}")
        if a.dtype not in ("float16", "bfloat16", "float32"):
            raise Unproved("O16", f"a dot of {a.dtype}")
        m, k, n = a.shape[0], a.shape[1], b.shape[1]
        if min(m, k, n) < 16:
            raise Unproved("O13", f"a dot of {m} x {k} x {n}, which is too small for the matrix unit")
        bound = axis("inner", k)
        left = opened(a.expr, a.shape, (lane(0, m), bound))
        right = opened(b.expr, b.shape, (bound, lane(1, n)))
        body = op("mul", op("cast", left, dtype="float32"), op("cast", right, dtype="float32"))
        total: Expr = reduce_("sum", (bound,), body)
        if len(args) == 3:
            acc = args[2]
            if acc.dtype != "float32" or acc.shape != (m, n):
                raise Unproved("O16", f"a dot adds to {acc.dtype}{list(acc.shape)}")
            total = op("add", acc.expr, total)
        return Tile((m, n), total)


def cdiv_sum(a: Expr, b: Expr) -> Expr:
    """a + (b - 1), folded where b is known."""
    less = op("sub", b, const(1, b.dtype))
    value = getattr(b, "value", None)
    return op("add", a, const(value - 1, b.dtype) if value is not None else less)


def exact(v: Number | int, dtype: str) -> bool:
    """Is v a (normal) number of this float type, an infinity included?"""
    if isinstance(v, float) and math.isinf(v):
        return True
    x = Fraction(v)
    if x == 0:
        return True
    n, d = abs(x.numerator), x.denominator
    odd = n // (n & -n)
    if d & (d - 1) or odd.bit_length() > _BITS[dtype]:
        return False
    tiny = {"float16": -14, "bfloat16": -126, "float32": -126, "float64": -1022}[dtype]
    limit = representable(dtype)
    return abs(x) >= Fraction(2) ** tiny and -x <= limit.hi and x <= limit.hi


def representable_ints(dtype: str) -> range:
    least, greatest = (int(int_limit(dtype, which).value) for which in (0, 1))
    return range(least, greatest + 1)


def _int(e: ast.expr) -> int:
    if isinstance(e, ast.Constant) and type(e.value) is int:
        return e.value
    raise Unproved("O13", f"{ast.unparse(e)[:40]} is no number")
