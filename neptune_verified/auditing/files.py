"""Not trusted: reads the files in which users keep inputs; what is in them is judged in ``inputs``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

#: One set of inputs: by name, or in the order of the definition's inputs.
Raw = dict[str, Any] | list[Any]
#: What ``Recording.save`` writes, beside a list of samples.
RECORDING = "neptune_verified recording 1"


def raw_samples(path: Path, single: bool) -> list[tuple[Raw, tuple[str, ...]]]:
    """The samples of a file, each with what a recording notes of it. ``single``: the definition has one input, so that
    a list of tensors holds a sample each. Raises ValueError for a file that holds none."""
    if not path.is_file():
        raise ValueError(f"{path}: no such file")
    reader = READERS.get(path.suffix)
    if reader is None:
        raise ValueError(f"{path}: inputs are read from files called {', '.join(READERS)}: save them as one of these")
    content, notes = _unpacked(reader(path))
    samples = _samples(path, content, single)
    if not samples:
        raise ValueError(f"{path}: it holds no sample: save a dict of tensors by name, or a list of such")
    return [(s, notes[k] if k < len(notes) else ()) for k, s in enumerate(samples)]


def is_value(x: Any) -> bool:
    """A tensor or a number."""
    import torch

    return isinstance(x, torch.Tensor | int | float)


def _unpacked(content: Any) -> tuple[Any, list[tuple[str, ...]]]:
    if isinstance(content, Mapping) and content.get("format") == RECORDING:
        return list(content["samples"]), [tuple(n) for n in content["notes"]]
    return content, []


def _samples(path: Path, content: Any, single: bool) -> list[Raw]:
    if is_value(content):
        return [[content]]
    if isinstance(content, Mapping):
        return [_sample(path, content)]
    if isinstance(content, list | tuple):
        if all(is_value(x) for x in content):
            return [[x] for x in content] if single else [list(content)] if content else []
        return [[x] if single and is_value(x) else _sample(path, x) for x in content]
    raise ValueError(f"{path}: {type(content).__name__} at the top: {_WANTED}")


def _sample(path: Path, x: Any) -> Raw:
    if isinstance(x, Mapping):
        for name, value in x.items():
            if not isinstance(name, str) or not is_value(value):
                raise ValueError(f"{path}: {name!r} is a {type(value).__name__}: {_WANTED}")
        return dict(x)
    if isinstance(x, list | tuple):
        for k, value in enumerate(x):
            if not is_value(value):
                raise ValueError(f"{path}: item {k} of a sample is a {type(value).__name__}: {_WANTED}")
        return list(x)
    raise ValueError(f"{path}: a sample is a {type(x).__name__}: {_WANTED}")


_WANTED = "wanted are tensors by name (a dict), tensors in the order of the inputs (a list), or a list of such samples"


# ------------------------------------------------------------------------------------------------- the formats


def _pt(path: Path) -> Any:
    import torch

    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except Exception as e:  # damaged, no torch file, or objects that only running code could rebuild
        raise ValueError(
            f"{path}: torch.load(weights_only=True) cannot read it ({_first_line(e)}): "
            "write tensors alone, as torch.save({'x': x}, FILE)"
        ) from None


def _npy(path: Path) -> Any:
    import numpy as np

    try:
        return _tensor(path, path.stem, np.load(path, allow_pickle=False))
    except (ValueError, EOFError, OSError) as e:
        raise _unreadable(path, e, "numpy.save(FILE, x)") from None


def _npz(path: Path) -> Any:
    import numpy as np

    try:
        with np.load(path, allow_pickle=False) as file:
            found = {name: _tensor(path, name, file[name]) for name in file.files}
    except Exception as e:  # zip files raise classes of their own
        raise _unreadable(path, e, "numpy.savez(FILE, x=x)") from None
    ordered = [f"arr_{k}" for k in range(len(found))]
    return [found[k] for k in ordered] if found and set(ordered) == set(found) else found


def _tensor(path: Path, name: str, x: Any) -> Any:
    import torch

    if x.dtype.kind not in "biuf" or x.dtype.itemsize > 8:
        raise ValueError(f"{path}: {name} is {x.dtype}: floats, integers and truth values can be read")
    native = x.astype(x.dtype.newbyteorder("="), copy=True)
    return torch.from_numpy(native.astype("int64") if native.dtype.kind == "u" and native.itemsize > 1 else native)


def _safetensors(path: Path) -> Any:
    try:
        from safetensors.torch import load_file
    except ImportError:
        raise ValueError(f"{path}: this format needs a package of its own: pip install safetensors") from None
    try:
        return load_file(path, device="cpu")
    except Exception as e:
        raise _unreadable(path, e, "safetensors.torch.save_file({'x': x}, FILE)") from None


def _unreadable(path: Path, e: Exception, way_out: str) -> ValueError:
    text = _first_line(e)
    return (
        e
        if text.startswith(str(path)) and isinstance(e, ValueError)
        else ValueError(f"{path}: it cannot be read ({text}): write it with {way_out}")
    )


def _first_line(e: Exception) -> str:
    return (str(e).strip().splitlines() or [type(e).__name__])[0][:120]


READERS: dict[str, Callable[[Path], Any]] = {
    ".pt": _pt,
    ".npy": _npy,
    ".npz": _npz,
    ".safetensors": _safetensors,
}
