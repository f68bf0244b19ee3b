"""The model's forward pass against what is known of it: its file, torch's own encoder, and the chemistry it learnt."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from tests.assets import fetch_rxnfp
from tests.assets.bert import REACTIONS, Activation, Bert, attention_scale, tokenise

ROOT = Path(__file__).resolve().parents[2]
LONGEST = max(REACTIONS.values(), key=lambda smiles: len(tokenise(smiles)))
UNUSED = {f"{name}.{kind}" for name in ("bert.pooler.dense", "cls.seq_relationship") for kind in ("weight", "bias")}
"""The head that was to tell whether two sentences follow each other: no part of the encoder."""

needs_asset = pytest.mark.asset


class Recorded(dict[str, Tensor]):
    """Weights that note which of them were asked for."""

    def __init__(self, weights: dict[str, Tensor]) -> None:
        super().__init__(weights)
        self.used: set[str] = set()

    def __getitem__(self, name: str) -> Tensor:
        self.used.add(name)
        return super().__getitem__(name)


def with_weights(model: Bert, weights: dict[str, Tensor]) -> Bert:
    config = {
        "num_hidden_layers": model.layers,
        "num_attention_heads": model.heads,
        "max_position_embeddings": model.longest,
        "layer_norm_eps": model.epsilon,
    }
    return Bert(config, model.vocabulary, weights)


def masked_accuracy(model: Bert, smiles: str, batch: int = 32) -> tuple[int, int]:
    """How many tokens the model restores when each in turn is masked (each third, of a long one), and of how many."""
    tokens = model.encode(smiles)
    places = torch.arange(1, len(tokens) - 1, 3 if len(tokens) > 100 else 1)
    right = 0
    with torch.no_grad():
        for part in places.split(batch):
            masked = tokens.repeat(len(part), 1)
            rows = torch.arange(len(part))
            masked[rows, part] = model.index["[MASK]"]
            right += int((model.predict(masked)[rows, part].argmax(-1) == tokens[part]).sum())
    return right, len(places)


@pytest.mark.parametrize(
    ("smiles", "tokens"),
    [
        ("CCl.BrI>>CBr", "C Cl . Br I >> C Br"),
        ("C[C@@H](N)C(=O)[O-]", "C [C@@H] ( N ) C ( = O ) [O-]"),
        ("c1cc[nH]c1", "c 1 c c [nH] c 1"),
        (r"F/C=C\F", "F / C = C \\ F"),
        ("C%10CC%10", "C %10 C C %10"),
        ("[Na+]~[Cl-]", "[Na+] ~ [Cl-]"),
        ("C#CB(O)S", "C # C B ( O ) S"),
        ("", ""),
    ],
)
def test_tokens(smiles: str, tokens: str) -> None:
    assert tokenise(smiles) == tokens.split()


@pytest.mark.parametrize("smiles", ["C C", "[CH3", "CX", "C\n", "C]", "C%1"])
def test_text_that_is_no_smiles_is_refused(smiles: str) -> None:
    with pytest.raises(ValueError, match="not the SMILES"):
        tokenise(smiles)


def test_the_reactions_differ_in_length() -> None:
    lengths = [len(tokenise(smiles)) for smiles in REACTIONS.values()]
    assert lengths == sorted(set(lengths))
    assert lengths[0] < 32 and lengths[-1] > 100


@needs_asset
def test_the_vocabulary_has_every_token_of_the_reactions(rxnfp: Bert) -> None:
    assert len(rxnfp.vocabulary) == len(rxnfp.index) == rxnfp.weights["cls.predictions.bias"].numel()
    for smiles in REACTIONS.values():
        tokens = rxnfp.encode(smiles).tolist()
        assert rxnfp.index["[UNK]"] not in tokens
        assert [rxnfp.vocabulary[i] for i in tokens] == ["[CLS]", *tokenise(smiles), "[SEP]"]
    assert rxnfp.encode("[Xx]").tolist() == [rxnfp.index[token] for token in ("[CLS]", "[UNK]", "[SEP]")]
    with pytest.raises(ValueError, match="513 tokens"):
        rxnfp.encode("C" * 511)


@needs_asset
def test_every_weight_of_the_encoder_and_its_head_is_used(rxnfp: Bert) -> None:
    weights = Recorded({name: weight.clone().requires_grad_() for name, weight in rxnfp.weights.items()})
    model = with_weights(rxnfp, weights)
    tokens = model.encode(LONGEST)[None]
    model.predict(tokens).log_softmax(-1)[0].gather(-1, tokens[0, :, None]).sum().backward()
    assert set(weights) - weights.used == UNUSED
    for name in weights.used:
        gradient = weights[name].grad
        assert gradient is not None and gradient.isfinite().all(), name
        if not name.endswith("key.bias"):  # it adds the same to a whole row of scores: softmax does not see it
            assert gradient.abs().max() > 0, name


@needs_asset
def test_hidden_states_are_those_of_torchs_own_encoder(rxnfp: Bert) -> None:
    for smiles in (next(iter(REACTIONS.values())), LONGEST):
        with torch.no_grad():
            states = rxnfp.hidden(rxnfp.encode(smiles)[None])
            assert len(states) == rxnfp.layers + 1 == 13
            x = states[0]
            for layer, ours in enumerate(states[1:]):
                x = torch_layer(rxnfp, layer)(x)
                torch.testing.assert_close(ours, x, rtol=1e-4, atol=1e-4)


def torch_layer(model: Bert, layer: int) -> nn.Module:
    name = f"bert.encoder.layer.{layer}"
    renamed = {
        "self_attn.out_proj": "attention.output.dense",
        "linear1": "intermediate.dense",
        "linear2": "output.dense",
        "norm1": "attention.output.LayerNorm",
        "norm2": "output.LayerNorm",
    }
    state = {}
    for kind in ("weight", "bias"):
        for theirs, ours in renamed.items():
            state[f"{theirs}.{kind}"] = model.weights[f"{name}.{ours}.{kind}"]
        parts = [model.weights[f"{name}.attention.self.{part}.{kind}"] for part in ("query", "key", "value")]
        state[f"self_attn.in_proj_{kind}"] = torch.cat(parts)
    encoder = nn.TransformerEncoderLayer(256, 4, 512, activation="gelu", layer_norm_eps=1e-12, batch_first=True)
    encoder.load_state_dict(state)
    return encoder.eval()


@needs_asset
def test_hidden_states_are_finite_and_not_degenerate(rxnfp: Bert) -> None:
    for smiles in REACTIONS.values():
        tokens = rxnfp.encode(smiles)
        with torch.no_grad():
            states = rxnfp.hidden(tokens[None])
        for state in states:
            assert state.shape == (1, len(tokens), 256) and state.dtype == torch.float32
            assert state.isfinite().all()
            assert state[0].std(dim=0).mean() > 0.05  # the places differ
            assert state[0].std(dim=1).min() > 0.05  # and so do the features of each


@needs_asset
def test_masked_tokens_are_restored(rxnfp: Bert) -> None:
    right = total = 0
    for name, smiles in REACTIONS.items():
        hits, places = masked_accuracy(rxnfp, smiles)
        assert hits / places > 0.75, name
        right, total = right + hits, total + places
    tokens = Counter(token for smiles in REACTIONS.values() for token in tokenise(smiles))
    chance = tokens.most_common(1)[0][1] / tokens.total()  # of always saying the commonest one
    assert chance < 0.4
    assert right / total > 0.9


@needs_asset
@pytest.mark.parametrize(
    ("part", "factor", "most"),
    [
        (".attention.self.query.", 0.25, 0.7),  # scores four times too flat
        (".attention.self.value.", -1.0, 0.2),
        (".position_embeddings.", 0.0, 0.2),
    ],
)
def test_masked_tokens_are_not_restored_by_a_wrong_forward_pass(
    rxnfp: Bert, part: str, factor: float, most: float
) -> None:
    """The accuracy would notice. Not everything, though: scores twice too sharp cost it nothing, and it is torch's
    own encoder, above, that holds the scale."""
    weights = {name: weight * factor if part in name else weight for name, weight in rxnfp.weights.items()}
    counts = [masked_accuracy(with_weights(rxnfp, weights), smiles) for smiles in list(REACTIONS.values())[:6]]
    assert sum(right for right, _ in counts) / sum(places for _, places in counts) < most


@needs_asset
def test_activations_are_what_the_attention_takes(rxnfp: Bert, rxnfp_activations: list[Activation]) -> None:
    assert len(rxnfp_activations) == len(REACTIONS) * 12
    each = iter(rxnfp_activations)
    for smiles in REACTIONS.values():
        length = len(tokenise(smiles)) + 2
        with torch.no_grad():
            states = rxnfp.hidden(rxnfp.encode(smiles)[None])
            for layer in range(rxnfp.layers):
                got = next(each)
                assert (got.smiles, got.layer) == (smiles, layer)
                for tensor in (got.q, got.k, got.v):
                    assert tensor.shape == (4, length, 64) and tensor.dtype == torch.float32
                    assert tensor.is_contiguous() and not tensor.requires_grad and tensor.isfinite().all()
                after = rxnfp.finish(states[layer], got.q[None], got.k[None], got.v[None], layer)
                torch.testing.assert_close(after, states[layer + 1], rtol=1e-5, atol=1e-5)
                name = f"bert.encoder.layer.{layer}.attention.self"
                for head in range(4):
                    rows = slice(64 * head, 64 * head + 64)
                    weight, bias = rxnfp.weights[f"{name}.key.weight"][rows], rxnfp.weights[f"{name}.key.bias"][rows]
                    torch.testing.assert_close(got.k[head], states[layer][0] @ weight.T + bias, rtol=1e-4, atol=1e-4)


@needs_asset
def test_attention_is_neither_uniform_nor_a_copy(rxnfp_activations: list[Activation]) -> None:
    """Scores of real data: some rows are nearly one-hot, others spread out."""
    peaks = torch.cat(
        [torch.softmax(a.q @ a.k.transpose(-1, -2) * attention_scale, -1).amax(-1).flatten() for a in rxnfp_activations]
    )
    assert peaks.min() < 0.1 and peaks.max() > 0.99


@pytest.mark.parametrize(("strict", "status", "outcome"), [("0", 0, "1 skipped"), ("1", 1, "1 error")])
def test_a_missing_asset_is_skipped_or_fails(tmp_path: Path, strict: str, status: int, outcome: str) -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-rs", "-n", "0", "-p", "no:cacheprovider", __file__, "-k", "not_degenerate"],
        cwd=ROOT,
        env={**os.environ, "NEPTUNE_VERIFIED_ASSETS": str(tmp_path / "none"), "STRICT": strict},
        capture_output=True,
        text=True,
    )
    assert ran.returncode == status, ran.stdout + ran.stderr
    assert outcome in ran.stdout and fetch_rxnfp.COMMAND in ran.stdout
