"""Reads an emitted kernel file back and proves that it computes its definition: O8 to O13 and O16."""

from neptune_verified.proofs.text.findings import Finding, TextRefused
from neptune_verified.proofs.text.proof import KernelProof, TextProof, read_back
from neptune_verified.proofs.text.routes import prove_text

__all__ = ["Finding", "KernelProof", "TextProof", "TextRefused", "prove_text", "read_back"]
