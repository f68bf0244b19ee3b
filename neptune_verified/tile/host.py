"""Not trusted: the functions that a launcher calls, as text. Both readers of an emitted file know them by their digests."""

from __future__ import annotations

HOST = '''
def _check_tensors(rows):
    device = rows[0][1].device if isinstance(rows[0][1], torch.Tensor) else None
    for name, x, rank, dtype in rows:
        if not isinstance(x, torch.Tensor):
            raise TypeError(f"{name} must be a torch.Tensor, got {type(x).__name__}")
        if x.dim() != rank:
            raise ShapeError(f"{name} has {x.dim()} dimensions, the definition says {rank}")
        if x.dtype != dtype:
            raise ShapeError(f"{name} is {x.dtype}, the definition says {dtype}: convert it, or compile for that dtype")
        if x.device != device:
            raise ShapeError(f"{name} is on {x.device}, {rows[0][0]} on {device}: move it there")
        if x.requires_grad and torch.is_grad_enabled():
            raise RuntimeError(f"{name} requires a gradient, and this kernel has no backward: detach it or use no_grad")


def _check_length(where, have, name, want):
    if have != want:
        why = f"but {name} = {want}" if name != str(want) else f"the definition says {want}"
        raise ShapeError(f"{where} is {have}, {why}")


def _check_scalar(name, x, kinds, what):
    if isinstance(x, bool) or not isinstance(x, kinds):
        raise TypeError(f"{name} must be {what}, got {type(x).__name__}")


def _check_limit(rows):
    for name, n in rows:
        if not -2147475456 <= n <= 2147475456:
            raise ShapeError(f"{name} is {n}: indices are 32-bit numbers here, so it must lie within 2^31 - 8192")


def _results(specs, inputs, out):
    device = inputs[0].device
    if out is None:
        return tuple(torch.empty(shape, dtype=dtype, device=device) for shape, dtype in specs)
    out = (out,) if isinstance(out, torch.Tensor) else tuple(out)
    if len(out) != len(specs):
        raise ShapeError(f"out has {len(out)} tensors, the kernel has {len(specs)} results")
    for k, (x, (shape, dtype)) in enumerate(zip(out, specs)):
        if tuple(x.shape) != tuple(shape) or x.dtype != dtype or x.device != device:
            raise ShapeError(f"out[{k}] is {x.dtype}{list(x.shape)} on {x.device}, wanted {dtype}{list(shape)} on {device}")
        if any(n > 1 and s == 0 for n, s in zip(x.shape, x.stride())):
            raise ShapeError(f"out[{k}] is expanded, so several results share one element: give a tensor of its own")
        others = (*inputs, *(y for j, y in enumerate(out) if j != k))
        if x.numel() and any(y.untyped_storage().data_ptr() == x.untyped_storage().data_ptr() for y in others):
            raise ShapeError(f"out[{k}] shares memory with another argument, which is read meanwhile: give its own tensor")
    return out


def _pick(table, rows, wanted):
    if wanted is not None:
        if wanted not in table:
            raise KeyError(f"no configuration {wanted!r}; there are {', '.join(table)}")
        return table[wanted][:2]
    return next(entry[:2] for entry in table.values() if rows >= entry[2])


class _device:
    """The tensor's device for the launch; nothing on a CPU."""

    def __init__(self, x):
        self.guard = torch.cuda.device(x.device) if x.is_cuda else None

    def __enter__(self):
        if self.guard:
            self.guard.__enter__()

    def __exit__(self, *exc):
        if self.guard:
            self.guard.__exit__(*exc)
'''.strip("\n").split("\n")

#: Of files with kernels for a split-K update. Any number of splits is right; how many are good was measured
#: (benchmarks/README.md).
HOST_SPLIT = """


def _shares(n, programs, waves, block, x, splits, split_size):
    for name, given in (("splits", splits), ("split_size", split_size)):
        if given is not None and (isinstance(given, bool) or not isinstance(given, int) or given < 1):
            raise ShapeError(f"{name} is {given!r}: it must be a positive int, or None for the launcher's own choice")
    if splits is not None and split_size is not None:
        raise ShapeError(f"splits = {splits} and split_size = {split_size}: give one of them")
    wanted = splits
    if splits is None and split_size is None:
        workers = torch.cuda.get_device_properties(x.device).multi_processor_count if x.is_cuda else 1
        wanted = max(1, min(waves * workers // max(1, programs), n // (2 * block)))
    size = -(-max(1, split_size if wanted is None else -(-n // wanted)) // block) * block
    count = max(1, min(n, splits) if splits is not None else -(-n // size))
    return (count, size) if count * size <= 2147475456 else (1, size)


def _between(specs, x):
    return tuple(torch.empty(shape, dtype=dtype, device=x.device) for shape, dtype in specs)
""".strip("\n").split("\n")
