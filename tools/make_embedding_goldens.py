#!/usr/bin/env python3
"""Writes NAME/embedding.safetensors into tests/golden/hf: embeddings, contrastive loss and gradients in one process over the whole
batch, of models that tools/make_hf_goldens.py has made.

    /tmp/composer-peers/transformers/bin/python tools/make_embedding_goldens.py     transformers 4.57.1, torch 2.7

Of 6 samples: inputs, positives and negatives with their masks, padded at the end; for each pooling P: P/inputs, P/positives,
P/negatives (length 1), P/loss (the cross-entropy of products / 0.05) and P/grad/NAME. Pooling and loss are written as
sentence-transformers' Pooling and MultipleNegativesRankingLoss.
"""
import pathlib

import torch
import transformers
from safetensors.torch import save_file

FOLDER = pathlib.Path(__file__).resolve().parent.parent / "tests" / "golden" / "hf"
SEED, VOCAB, ROWS, TEMPERATURE = 17, 61, 6, 0.05
LENGTHS = {"inputs": 7, "positives": 9, "negatives": 8}
POOLINGS = {"bert_features": ("mean", "cls"), "llama": ("last", "mean")}


def texts():
    content = {}
    for key, length in LENGTHS.items():
        mask = (torch.arange(length) < torch.randint(3, length + 1, (ROWS, 1))).long()
        mask[0] = 1
        content[key] = torch.randint(3, VOCAB, (ROWS, length)) * mask
        content["attention_mask" if key == "inputs" else key + "_mask"] = mask
    return content


def embed(model, tokens, mask, pooling):
    hidden = model(input_ids=tokens, attention_mask=mask).last_hidden_state
    if pooling == "mean":
        weights = mask.unsqueeze(-1).float()
        pooled = (hidden * weights).sum(1) / weights.sum(1).clamp(min=1e-9)
    elif pooling == "cls":
        pooled = hidden[:, 0]
    else:
        pooled = hidden[torch.arange(len(hidden)), mask.sum(1) - 1]
    return torch.nn.functional.normalize(pooled, dim=1)


def make(name):
    torch.manual_seed(SEED)
    model = transformers.AutoModel.from_pretrained(FOLDER / name, dtype=torch.float32, attn_implementation="eager")
    content = texts()
    for pooling in POOLINGS[name]:
        model.zero_grad()
        parts = {key: embed(model, content[key], content["attention_mask" if key == "inputs" else key + "_mask"], pooling)
                 for key in LENGTHS}
        scores = parts["inputs"] @ torch.cat([parts["positives"], parts["negatives"]]).T / TEMPERATURE
        loss = torch.nn.functional.cross_entropy(scores, torch.arange(ROWS))
        loss.backward()
        content |= {f"{pooling}/{key}": value for key, value in parts.items()} | {f"{pooling}/loss": loss}
        content |= {f"{pooling}/grad/{param}": value.grad.clone() for param, value in model.named_parameters()
                    if value.grad is not None}
        print(name, pooling, loss.item())
    save_file({key: value.detach().contiguous().clone() for key, value in content.items()}, FOLDER / name / "embedding.safetensors",
              dict(transformers=transformers.__version__, torch=torch.__version__, seed=str(SEED)))


for each in POOLINGS:
    make(each)
