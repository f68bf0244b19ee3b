"""The BERT that `rxnfp` ships, in plain torch: reaction SMILES in, each layer's attention inputs out.

The model has 12 layers of width 256 with 4 heads of 64, learnt on masked tokens of chemical reactions. All math is
float32, without dropout; a sequence is run alone, so there is no padding and no mask. `fetch_rxnfp.py` fetches it.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional

from .fetch_rxnfp import COMMAND, CONFIG, VOCABULARY, WEIGHTS, asset_folder, damage

attention_scale = 1 / 8
"""What the model multiplies q @ k.T with before the softmax: 64 ** -0.5."""

REACTIONS: dict[str, str] = {
    "Fischer esterification": "CC(=O)O.CCO>>CCOC(C)=O",
    "borohydride reduction": "CC(=O)c1ccccc1.[BH4-].[Na+]>>CC(O)c1ccccc1",
    "Diels-Alder cycloaddition": "C=CC=C.O=C1C=CC(=O)O1>>O=C1OC(=O)C2CC=CCC12",
    "acetylation to aspirin": "CC(=O)OC(C)=O.O=C(O)c1ccccc1O>>CC(=O)Oc1ccccc1C(=O)O",
    "Wittig olefination": "C=P(c1ccccc1)(c1ccccc1)c1ccccc1.O=Cc1ccccc1>>C=Cc1ccccc1",
    "amide coupling": "CCN=C=NCCCN(C)C.ClCCl.NCc1ccccc1.O=C(O)c1ccccc1>>O=C(NCc1ccccc1)c1ccccc1",
    "peptide coupling": (
        "CC(C)(C)OC(=O)N[C@@H](Cc1ccccc1)C(=O)O.CCN(C(C)C)C(C)C.CN(C)C(On1nnc2cccnc21)=[N+](C)C.CN(C)C=O"
        ".COC(=O)[C@@H](N)CC(C)C.F[P-](F)(F)(F)(F)F"
        ">>COC(=O)[C@H](CC(C)C)NC(=O)[C@H](Cc1ccccc1)NC(=O)OC(C)(C)C"
    ),
    "Suzuki coupling": (
        "C1COCCO1.COc1ccc(Br)cc1.O=C([O-])[O-].OB(O)c1ccccc1.[K+].[K+].c1ccc([PH](c2ccccc2)(c2ccccc2)[Pd]"
        "([PH](c2ccccc2)(c2ccccc2)c2ccccc2)([PH](c2ccccc2)(c2ccccc2)c2ccccc2)[PH](c2ccccc2)(c2ccccc2)c2ccccc2)cc1"
        ">>COc1ccc(-c2ccccc2)cc1"
    ),
}
"""Textbook reactions as canonical SMILES, precursors before `>>` and the product after it; short ones first."""

_TOKEN = re.compile(
    r"""
      \[ [^][]+ \]            # an atom in brackets, whole
    | Br | Cl | [BCFINOPS]    # atoms of the organic subset
    | [bcnops] | \*           # aromatic ones, and any atom
    | % \d\d | \d             # the label of a ring bond
    | >> | >                  # precursors to products
    | [-=\#$:~/\\.()+@?|]     # bonds, branches, and the dots between molecules
    """,
    re.VERBOSE,
)


class AssetMissing(Exception):
    """The model's files are not there; the message says how to fetch them."""


@dataclass(frozen=True)
class Activation:
    """What the attention of one layer is given for one sequence: q, k and v, each [heads, seq, 64], float32.

    They are the projections with their biases, split into heads; the scale is not yet applied."""

    smiles: str
    layer: int
    q: Tensor
    k: Tensor
    v: Tensor


def tokenise(smiles: str) -> list[str]:
    """A reaction's SMILES, atom by atom."""
    tokens = _TOKEN.findall(smiles)
    if "".join(tokens) != smiles:
        raise ValueError(f"not the SMILES of a reaction: {smiles!r}")
    return tokens


class Bert:
    """The encoder and its head for masked tokens. A layer's weights have the names that the file gives them."""

    def __init__(self, config: dict[str, int], vocabulary: list[str], weights: dict[str, Tensor]) -> None:
        self.layers = config["num_hidden_layers"]
        self.heads = config["num_attention_heads"]
        self.longest = config["max_position_embeddings"]
        self.epsilon = config["layer_norm_eps"]
        self.vocabulary = vocabulary
        self.index = {token: i for i, token in enumerate(vocabulary)}
        self.weights = weights

    def encode(self, smiles: str) -> Tensor:
        """The token indices of [CLS] ... [SEP], shape [seq]."""
        unknown = self.index["[UNK]"]
        tokens = ["[CLS]", *tokenise(smiles), "[SEP]"]
        if len(tokens) > self.longest:
            raise ValueError(f"{len(tokens)} tokens, and the model takes {self.longest}: {smiles!r}")
        return torch.tensor([self.index.get(token, unknown) for token in tokens])

    def _linear(self, x: Tensor, name: str) -> Tensor:
        return functional.linear(x, self.weights[f"{name}.weight"], self.weights[f"{name}.bias"])

    def _norm(self, x: Tensor, name: str) -> Tensor:
        scale, shift = self.weights[f"{name}.weight"], self.weights[f"{name}.bias"]
        return functional.layer_norm(x, x.shape[-1:], scale, shift, self.epsilon)

    def embed(self, tokens: Tensor) -> Tensor:
        """[batch, seq] token indices to the first layer's input [batch, seq, width]; every token of type 0."""
        name = "bert.embeddings"
        words = self.weights[f"{name}.word_embeddings.weight"][tokens]
        places = self.weights[f"{name}.position_embeddings.weight"][: tokens.shape[1]]
        kind = self.weights[f"{name}.token_type_embeddings.weight"][0]
        return self._norm(words + places + kind, f"{name}.LayerNorm")

    def project(self, x: Tensor, layer: int) -> tuple[Tensor, Tensor, Tensor]:
        """A layer's q, k and v, each [batch, heads, seq, 64]."""
        name = f"bert.encoder.layer.{layer}.attention.self"
        parts = (self._linear(x, f"{name}.{part}") for part in ("query", "key", "value"))
        q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2).contiguous() for part in parts)
        return q, k, v

    def finish(self, x: Tensor, q: Tensor, k: Tensor, v: Tensor, layer: int) -> Tensor:
        """The rest of a layer: its attention, its feed-forward part, and the sums with what came in."""
        name = f"bert.encoder.layer.{layer}"
        mixed = torch.softmax(q @ k.transpose(-1, -2) * attention_scale, dim=-1) @ v
        mixed = self._linear(mixed.transpose(1, 2).flatten(-2), f"{name}.attention.output.dense")
        x = self._norm(x + mixed, f"{name}.attention.output.LayerNorm")
        wide = functional.gelu(self._linear(x, f"{name}.intermediate.dense"))
        return self._norm(x + self._linear(wide, f"{name}.output.dense"), f"{name}.output.LayerNorm")

    def hidden(self, tokens: Tensor) -> list[Tensor]:
        """The input of the first layer and the output of each, [batch, seq, width]."""
        states = [self.embed(tokens)]
        for layer in range(self.layers):
            states.append(self.finish(states[-1], *self.project(states[-1], layer), layer))
        return states

    def predict(self, tokens: Tensor) -> Tensor:
        """The head's logits of the token at each place, [batch, seq, vocabulary]."""
        name = "cls.predictions"
        x = functional.gelu(self._linear(self.hidden(tokens)[-1], f"{name}.transform.dense"))
        x = self._norm(x, f"{name}.transform.LayerNorm")
        return functional.linear(x, self.weights[f"{name}.decoder.weight"], self.weights[f"{name}.bias"])


@cache
def _read(folder: Path) -> Bert:
    if not folder.exists():
        raise AssetMissing(f"{folder} is missing; fetch it: {COMMAND}")
    if (wrong := damage(folder)) is not None:
        raise ValueError(f"{wrong}; fetch it again: {COMMAND}")
    weights = torch.load(folder / WEIGHTS, map_location="cpu", weights_only=True)
    vocabulary = (folder / VOCABULARY).read_text(encoding="utf-8").split()
    return Bert(json.loads((folder / CONFIG).read_text(encoding="utf-8")), vocabulary, weights)


def load() -> Bert:
    """The pretrained model, read once; AssetMissing if it has not been fetched."""
    return _read(asset_folder())


def activations(smiles: list[str]) -> list[Activation]:
    """The attention inputs of each layer, for each sequence in turn."""
    model = load()
    found = []
    with torch.no_grad():
        for each in smiles:
            x = model.embed(model.encode(each)[None])
            for layer in range(model.layers):
                q, k, v = model.project(x, layer)
                found.append(Activation(each, layer, q[0], k[0], v[0]))
                x = model.finish(x, q, k, v, layer)
    return found
