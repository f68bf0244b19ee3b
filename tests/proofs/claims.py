"""Statements over extended reals whose truth is known by hand: true ones, false ones, contradictory ones."""

# One statement to a line reads better than one broken into four.

from __future__ import annotations

from neptune_verified.proofs.statement import Statement
from tests.proofs.library import say

SAFE = "select({0} == ninf, 0, {0})"
G = f"exp(c - {SAFE.format('m')})"
G_NEW = f"exp(c - {SAFE.format('m_new')})"
K = f"exp(m - {SAFE.format('m_new')})"
STATE = "c m m_new: masked"
REACH = ("m <= m_new", "m != ninf or c == ninf")
DEAD = "t: masked, m m_new: masked"

TRUE: dict[str, Statement] = {
    # O1 of a shifted exp, with dead states
    "O1 guarded": say(STATE, f"({G})*{K} ~ {G_NEW}", *REACH),
    "O1 guarded weighted": say(f"{STATE}, v: real", f"(({G})*v)*{K} ~ ({G_NEW})*v", *REACH),
    "O1 guarded weighted first": say(f"{STATE}, v: real", f"(v*({G}))*{K} ~ v*({G_NEW})", *REACH),
    "O1 kept neutral": say(f"{STATE}, v: real", f"select(({G})*v == 0, 0, (({G})*v)*{K}) ~ ({G_NEW})*v", *REACH),
    "O1 masked element": say(STATE, f"select(c == ninf, 0, {G})*{K} ~ select(c == ninf, 0, {G_NEW})", *REACH),
    "O1 scaled": say(
        f"{STATE}, a: positive",
        f"exp((c - {SAFE.format('m')})*a)*exp((m - {SAFE.format('m_new')})*a) ~ exp((c - {SAFE.format('m_new')})*a)",
        *REACH,
    ),
    "O1 exp2 literal": say(
        STATE,
        f"exp2((c - {SAFE.format('m')})*1.4426950408889634)*exp2((m - {SAFE.format('m_new')})"
        f"*1.4426950408889634) ~ exp2((c - {SAFE.format('m_new')})*1.4426950408889634)",
        *REACH,
    ),
    # O2
    "O2 sum": say("x y m m_new: real", f"(x+y)*{K} = x*{K} + y*{K}"),
    "O2 sum dead": say("x y: real, m m_new: masked", f"(x+y)*{K} = x*{K} + y*{K}", "m <= m_new"),
    "O2 max affine": say("x y: masked, k: positive, b: real", "max(x,y)*k + b = max(x*k + b, y*k + b)"),
    "O2 min affine": say("x y: real, k: positive, b: real", "min(x,y)*k + b = min(x*k + b, y*k + b)"),
    "O2 max scale zero": say("x y: real, k: nonnegative", "max(x,y)*k = max(x*k, y*k)"),
    "O2 max ratio": say("x y: masked, r r_new: positive", "max(x,y)*(r/r_new) = max(x*(r/r_new), y*(r/r_new))"),
    "O2 max kept": say(
        "x y: masked, r r_new: nonnegative",
        "select(max(x,y) == ninf, ninf, max(x,y)*(select(r==0,1,r)/select(r_new==0,1,r_new))) = "
        "max(select(x == ninf, ninf, x*(select(r==0,1,r)/select(r_new==0,1,r_new))),"
        " select(y == ninf, ninf, y*(select(r==0,1,r)/select(r_new==0,1,r_new))))",
    ),
    "O2 max shift dead": say("x y: masked, r r_new: real", "max(x,y) + (r-r_new) = max(x+(r-r_new), y+(r-r_new))"),
    # O3
    "O3 exp": say(
        "t m m_new m_two: real", "t*exp(m-m_new)*exp(m_new-m_two) = t*exp(m-m_two)", "m <= m_new", "m_new <= m_two"
    ),
    "O3 guarded": say(
        "t: real, m m_new m_two: masked",
        f"(t*{K})*exp(m_new - {SAFE.format('m_two')}) ~ t*exp(m - {SAFE.format('m_two')})",
        "m <= m_new",
        "m_new <= m_two",
        "m != ninf or t == 0",
    ),
    "O3 identity": say("t m: real", "t*exp(m-m) = t"),
    # O4
    "O4 guarded": say("m m_new: masked", f"0*{K} = 0", "m <= m_new"),
    "O4 max kept": say("r r_new: nonnegative", "select(ninf == ninf, ninf, ninf*(r/r_new)) = ninf"),
    "O4 max shift": say("r r_new: real", "ninf + (r - r_new) = ninf"),
    "O4 prod": say("r r_new: positive", "1**(r_new/r) = 1"),
    # O5
    "O5 sum": say("x y z: real", "(x+y)+z = x+(y+z)"),
    "O5 sum extended": say("x y: extended", "x+y ~ y+x"),
    "O5 sum neutral": say("x: extended", "x+0 = x"),
    "O5 prod": say("x y z: extended", "(x*y)*z ~ x*(y*z)"),
    "O5 prod neutral": say("x: extended", "1*x = x"),
    "O5 max": say("x y z: extended", "max(max(x,y),z) = max(x,max(y,z))"),
    "O5 max commutes": say("x y: extended", "max(x,y) = max(y,x)"),
    "O5 max neutral": say("x: extended", "max(x,ninf) = x"),
    "O5 min": say("x y z: extended", "min(min(x,y),z) = min(x,min(y,z))"),
    "O5 min neutral": say("x: extended", "min(x,pinf) = x"),
    "O5 any": say("x y z: bool", "((x or y) or z) = (x or (y or z))"),
    "O5 all": say("x y z: bool", "((x and y) and z) = (x and (y and z))"),
    "O5 all neutral": say("x: bool", "(x and true) = x"),
    "O5 logaddexp": say("x y z: masked", "log(exp(log(exp(x)+exp(y)))+exp(z)) = log(exp(x)+exp(log(exp(y)+exp(z))))"),
    "O5 logaddexp commutes": say("x y: masked", "log(exp(x)+exp(y)) = log(exp(y)+exp(x))"),
    "O5 logaddexp neutral": say("x: masked", "log(exp(x)+exp(ninf)) = x"),
    # O6
    "O6 guarded": say("t: real, m m_new: masked", f"def t*{K}", "m <= m_new"),
    "O6 guard refines": say("c m: masked", f"{G} ~ exp(c-m)", "c <= m"),
    "O6 divisor": say("t: real, r r_new: nonnegative", "def t*(select(r==0,1,r)/select(r_new==0,1,r_new))"),
    "O6 eps": say("c: real, r: nonnegative, n eps: positive", "def abs(c)/sqrt(r/n+eps)"),
    "O6 rsqrt": say("r: nonnegative", "def rsqrt(r/128+0.00001)"),
    "O6 live": say("c m: masked, s: extended", "def exp(c-m)/s", "m != ninf", "s >= 1", "s < pinf"),
    # guarded scaled L2, quotients
    "L2 O1": say(
        "c: real, r r_new: nonnegative",
        "pow(c/select(r==0,1,r),2)*pow(select(r==0,1,r)/select(r_new==0,1,r_new),2)"
        " ~ pow(c/select(r_new==0,1,r_new),2)",
        "r <= r_new",
        "abs(c) <= r",
    ),
    "L2 O1 mul": say(
        "c: real, r r_new: nonnegative",
        "(c/select(r==0,1,r))*(c/select(r==0,1,r))*pow(select(r==0,1,r)/"
        "select(r_new==0,1,r_new),2) ~ (c/select(r_new==0,1,r_new))*(c/select(r_new==0,1,r_new))",
        "r <= r_new",
        "abs(c) <= r",
    ),
    "quotient guarded": say(
        "c: real, r r_new: nonnegative",
        "(c/select(r==0,1,r))*(select(r==0,1,r)/select(r_new==0,1,r_new)) ~ c/select(r_new==0,1,r_new)",
        "r <= r_new",
    ),
    "two producers": say(
        "c m m_new: real, s s_new: positive", "exp(c-m)/s*((s/s_new)*exp(m-m_new)) = exp(c-m_new)/s_new", "m <= m_new"
    ),
    "two producers dead": say(
        "c m m_new: masked, s s_new: nonnegative",
        "(exp(c - select(m==ninf,0,m))/select(s==0,1,s))*"
        "((select(s==0,1,s)/select(s_new==0,1,s_new))*exp(m - select(m_new==ninf,0,m_new))) ~ "
        "exp(c - select(m_new==ninf,0,m_new))/select(s_new==0,1,s_new)",
        *REACH,
    ),
    # hoists
    "hoist": say("x l: real", "select(l==0,0,x/l) = x*select(l==0,0,1/l)"),
    "hoist sum": say("x y l: real", "select(l==0,0,(x+y)/l) = select(l==0,0,x/l) + select(l==0,0,y/l)"),
    "hoist select": say("x v l: real", "select(l==0,0,x/l)*v = select(l==0,0,(x*v)/l)"),
    "hoist max": say("x y: masked, l: positive", "max(x/l,y/l) = max(x,y)/l"),
    # Welford
    "moments": say("n s q: real, c: real, r: real", "q - 2*r*s + n*r*r + pow(c-r,2) = (q+c*c) - 2*r*(s+c) + (n+1)*r*r"),
    "mean fact": say(
        "n s q r r_new: real", "(q - 2*r*s + n*r*r) + n*pow(r-r_new,2) = q - 2*r_new*s + n*r_new*r_new", "s == n*r"
    ),
    # order and range
    "factor at most 1": say("m m_new: real", "exp(m-m_new) <= 1", "m <= m_new"),
    "factor positive": say("m m_new: real", "exp(m-m_new) > 0"),
    "ratio at most 1": say("r r_new: positive", "r/r_new <= 1", "r <= r_new"),
    "square": say("x: real", "x*x >= 0"),
    "root of square": say("x: real", "sqrt(x*x) = abs(x)"),
    "power zero": say("x: extended", "pow(x,0) = 1"),
    "inverse of inf": say("x: real", "x/pinf = 0"),
    "exp of log": say("x: nonnegative", "exp(log(x)) = x"),
    "half log": say("r: positive", "exp(log(r)/2) = sqrt(r)"),
    "sigmoid ends": say("x: extended", "def sigmoid(x)"),
    "cast to bool": say("x: real", "select(x != 0, x, 0) = x"),
}

FALSE: dict[str, Statement] = {
    "r exchanged": say(STATE, f"({G})*exp(m_new - {SAFE.format('m')}) ~ {G_NEW}", *REACH),
    "wrong sign": say("c m m_new: real", "exp(c-m)*exp(m_new-m) = exp(c-m_new)", "m <= m_new"),
    "unguarded": say(STATE, "exp(c-m)*exp(m-m_new) = exp(c-m_new)", *REACH),
    "unguarded definedness": say("t: real, m m_new: masked", "def t*exp(m-m_new)", "m <= m_new"),
    "guard without reach": say("t: real, m m_new: masked", f"def t*{K}/exp(m)"),
    "guard without order": say("t: real, m m_new: extended", f"def t*{K}"),
    "guard kept as state": say("m m_new: masked", f"{SAFE.format('m')} <= {SAFE.format('m_new')}", "m <= m_new"),
    "stale producer": say("c m m_new: real", "exp(c-m) = exp(c-m_new)", "m <= m_new"),
    "one of two repaired": say("c m m_new: real, s s_new: positive", "exp(c-m)/s*exp(m-m_new) = exp(c-m_new)/s_new"),
    "ratio at zero": say("c: real, r r_new: nonnegative", "def c*(r_new/r)", "r <= r_new"),
    "inverse ratio": say("c: real, r r_new: positive", "(c/r)*(r_new/r) = c/r_new", "r <= r_new"),
    "guarded inverse ratio": say(
        "c: real, r r_new: nonnegative",
        "(c/select(r==0,1,r))*select(r_new==0,1,r_new)/select(r==0,1,r) = c/select(r_new==0,1,r_new)",
        "r <= r_new",
    ),
    "max of any sign": say("x y k: real", "max(x,y)*k = max(x*k, y*k)"),
    "max negative": say("x y: real, k: negative", "max(x,y)*k = max(x*k, y*k)"),
    "max zero at -inf": say("x y: masked, k: nonnegative", "max(x,y)*k = max(x*k, y*k)"),
    "affine sum": say("x y b: real", "(x+y)+b = (x+b)+(y+b)"),
    "accumulator starts at 1": say("m m_new: real", "1*exp(m-m_new) = 1", "m <= m_new"),
    "max starts at -inf times 0": say(
        "r r_new: nonnegative", "ninf*(select(r==0,0,r)/select(r_new==0,1,r_new)) = ninf"
    ),
    "prod starts at 0": say("x: real", "0*x = x"),
    "softplus O2": say(
        "x y r r_new: real",
        "log(1+(exp(x+y)-1)*exp(r-r_new)) = log(1+(exp(x)-1)*exp(r-r_new)) + log(1+(exp(y)-1)*exp(r-r_new))",
        "x > 0",
        "y > 0",
    ),
    "sigmoid O2": say(
        "x y: positive, r r_new: real",
        "1/(1+(1/(x+y)-1)*exp(r-r_new)) = 1/(1+(1/x-1)*exp(r-r_new)) + 1/(1+(1/y-1)*exp(r-r_new))",
        "x < 1",
        "y < 1",
        "x + y < 1",
    ),
    "moments by root": say("t r r_new: real", "pow(sqrt(t)-r+r_new,2) = t", "t >= 0"),
    "doubled step": say("t m m_new: real", "t*exp(m-m_new)*exp(m-m_new) = t*exp(m-m_new)", "m <= m_new"),
    "half log of a real": say("r: real", "def exp(log(r)/2)"),
    "root of a real": say("r: real", "def sqrt(r)"),
    "log of a sum": say("x y: real", "def log(x+y)"),
    "divisor sum": say("x y: real", "def 1/(x+y)"),
    "pole cancels": say("x: real", "(x-1)/(x-1) = 1"),
    "x over x": say("x: real", "x/x = 1"),
    "zero times inf": say("x: extended", "x*0 = 0"),
    "inf minus inf": say("x: extended", "x-x = 0"),
    "sum extended": say("x y z: extended", "(x+y)+z = x+(y+z)"),
    "entropy masked": say("c: masked, m: real", "def (c-m)*exp(c-m)"),
    "square root": say("x: real", "sqrt(x*x) = x"),
    "log of exp sum": say("x y: real", "log(exp(x)+exp(y)) = x+y"),
    "factor below 1": say("m m_new: real", "exp(m-m_new) < 1", "m <= m_new"),
    "factor without order": say("m m_new: real", "exp(m-m_new) <= 1"),
    "mean fact missing": say(
        "n s q r r_new: real", "(q - 2*r*s + n*r*r) + n*pow(r-r_new,2) = q - 2*r_new*s + n*r_new*r_new"
    ),
    "mean fact wrong": say(
        "n s q r r_new: real", "(q - 2*r*s + n*r*r) - n*pow(r-r_new,2) = q - 2*r_new*s + n*r_new*r_new", "s == n*r"
    ),
    "hoist unguarded": say("x l: real", "select(l==0,0,x/l) = x/l"),
    "hoist other guard": say("x l: real", "select(l==0,0,x/l) = x*select(l==0,1,1/l)/1 + select(l==0,1,0)"),
    "hoist min as max": say("x y l: real", "max(x/l,y/l) = max(x,y)/l", "l != 0"),
    "literal is not log2e": say("c m: real", "exp2((c-m)*1.4426950408889634) = exp(c-m)"),
    "exp2 for exp": say("c m m_new: real", "exp(c-m)*exp2(m-m_new) = exp(c-m_new)"),
    "all of falling r": say("x r r_new: bool", "select(r, x and r, x) = select(r_new, x, true)"),
    "any starts at true": say("x: bool", "(x or true) = x"),
    "first wins": say("k j x y: real", "select(k >= j, x, y) = select(j >= k, y, x)"),
    "decay at 0": say("n: real, lam: nonnegative", "def exp(n*log(lam))"),
    "power base": say("t: real, r r_new: positive", "def t**(r_new/r)"),
    "abs distributes": say("x y: real", "abs(x+y) = abs(x)+abs(y)"),
    "clamp": say("x y: real", "max(x+y,0) = max(x,0)+max(y,0)"),
    "nonlinear": say("x y r: real", "pow(x+y-r,2) = pow(x-r,2)+pow(y-r,2)"),
    "missed constant": say("x: real", "select(x == 5, 0, 1) = 1"),
    "two zeros": say("x y: real", "select(x*y == 0, 0, 1) = select(x == 0, 0, 1)"),
}

VACUOUS: dict[str, Statement] = {
    "order": say("x y: real", "x = y + 1", "x < y", "y < x"),
    "sign": say("x: positive", "x = 2*x", "x <= 0"),
    "square": say("x: real", "x = 1", "x*x < 0"),
    "undefined": say("x: real", "x = 1", "x/0 == 1"),
    "false": say("x: real", "x = 1", "false"),
    "exp": say("x: real", "x = 1", "exp(x) < 0"),
    "kinds": say("x: masked", "x = 1", "x == pinf"),
}
