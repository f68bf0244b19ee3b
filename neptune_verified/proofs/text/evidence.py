"""Trusted: what was established of an emitted text, as the certificate records it and ``check`` makes it anew."""

from __future__ import annotations

from typing import Any

from neptune_verified.proofs.text.proof import TEXT_OBLIGATIONS, KernelProof, TextProof


def text_data(proof: TextProof) -> list[dict[str, Any]]:
    """One record for each kernel, configuration and obligation."""
    return [
        {
            "id": id_,
            "kernel": k.kernel,
            "configuration": k.config,
            "covers": covers(k, id_),
            "bounded": proof.second.get(id_, ""),
            "verdict": "proved",
            "routes": list(proof.routes),
        }
        for k in proof.kernels
        for id_ in TEXT_OBLIGATIONS
    ]


def covers(k: KernelProof, id_: str) -> str:
    """What an obligation says of this kernel, in a line."""
    outputs = ", ".join(k.outputs)
    match id_:
        case "O8":
            carried = (
                f"after a tile {', '.join(k.carried)} are the loop program's, from the values before it; "
                if k.carried
                else ""
            )
            return carried + "every element of a stream is in exactly one tile, or skipped (O10)"
        case "O9":
            masked = f"; what every row of a program masks is not looked at: {', '.join(k.unseen)}" if k.unseen else ""
            return f"lanes beyond an axis hold the neutral element of each reduction{masked}"
        case "O10":
            if k.skipping:
                return (
                    f"elements that no tile holds are neutral for {', '.join(k.skipping)}, in every row of the program"
                )
            return "no element is skipped"
        case "O11":
            return (
                f"{k.accesses} accesses in bounds or masked, for any strides; each element of {outputs} is written once"
            )
        case "O12":
            return (
                f"{k.integers} integer results fit their types for lengths up to 2^31 - 8192, which the launcher checks; no "
                "operand of a division or remainder is negative; offsets have 64 bits"
            )
        case "O13":
            return f"{outputs}: what is stored is the loop program's output, for all lengths"
        case _:
            rounded = f"; operands of products rounded to {', '.join(k.rounded)}" if k.rounded else ""
            rounded += "".join(f"; an operand of {name} taken as two {dtype} numbers" for name, dtype in k.doubled)
            order = f"; summed by tiles and trees: {', '.join(k.reordered)}" if k.reordered else ""
            return f"float conversions are the definition's{rounded}{order}"
