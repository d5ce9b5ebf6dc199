#!/usr/bin/env python3
"""Writes tests/golden/torchscript/: modules exported by Python's torch, and what Python gets when it trains them.

Run it with the `torch211` environment of tools/peers_setup.sh (torch 2.11.0, CPU, fp32, 1 thread):
    /tmp/composer-peers/torch211/bin/python tools/make_torchscript_goldens.py
training.json has for each module the losses of 5 steps of SGD with momentum (torch.optim.SGD, foreach off) and a
checksum of the final parameters; inputs and targets follow the formulas in `inputs_of` and `targets_of`, the same as in
C++. The .pt files contain the initial weights. Each module is trained unchanged, without torch.jit. Floats are the
exact doubles.
SPDX-License-Identifier: Apache-2.0
"""
import json
import pathlib
import sys
from typing import Dict, Optional, Tuple

import torch
from torch import nn
from torch.nn import functional as F

SEED = 17
FOLDER = pathlib.Path(__file__).resolve().parent.parent / "tests" / "golden" / "torchscript"


class Classifier(nn.Module):
    """Has batch norm (buffers), a nested module, and a parameter without gradient."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU())
        self.head = nn.Linear(8, 3)
        self.scale = nn.Parameter(torch.tensor(2.0), requires_grad=False)

    def forward(self, x):
        return self.head(self.body(x)) * self.scale


class Language(nn.Module):
    """Has tied weights: one tensor under two names."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(5, 8)
        self.mix = nn.Linear(8, 8)
        self.head = nn.Linear(8, 5, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, tokens):
        return self.head(torch.tanh(self.mix(self.embed(tokens))))


class Custom(nn.Module):
    """Has its own loss and eval_forward, several outputs, a buffer that is reassigned, and arguments by name."""
    mean: torch.Tensor

    def __init__(self):
        super().__init__()
        self.encode = nn.Linear(6, 2)
        self.decode = nn.Linear(2, 6)
        self.register_buffer("mean", torch.zeros(2))

    def forward(self, x, weights: Optional[torch.Tensor] = None,
                noise: float = 0.0) -> Tuple[torch.Tensor, torch.Tensor]:
        code = torch.tanh(self.encode(x))
        if weights is not None:
            code = code * weights.unsqueeze(1)
        if self.training:
            self.mean = 0.9 * self.mean + 0.1 * code.mean(0).detach()
        return self.decode(code - self.mean), code

    @torch.jit.export
    def eval_forward(self, x):
        return self.decode(torch.tanh(self.encode(x)) - self.mean) * 0.5

    @torch.jit.export
    def loss(self, outputs: Tuple[torch.Tensor, torch.Tensor],
             batch: Dict[str, torch.Tensor]) -> Dict[str, torch.Tensor]:
        decoded, code = outputs
        return {"reconstruction": F.mse_loss(decoded, batch["inputs"]), "size": 0.1 * code.pow(2).mean()}


class Returns(nn.Module):
    """Returns forward's results in a dict, and takes the whole batch as its argument."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(6, 3)

    def forward(self, batch: Dict[str, torch.Tensor]) -> Dict[str, torch.Tensor]:
        return {"logits": self.linear(batch["inputs"]), "other": batch["targets"]}


class WrongArgument(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(6, 3)

    def forward(self, x, count: int):
        return self.linear(x) * count


def inputs_of(step, kind):
    if kind == "tokens":
        return (torch.arange(12).reshape(3, 4) * 7 + step * 3) % 5
    i = torch.arange(4 * 6, dtype=torch.float32).reshape(4, 6)
    return (i * 37 + step * 11).remainder(29) / 16 - 0.875


def targets_of(step, kind):
    if kind == "tokens":
        return (torch.arange(12).reshape(3, 4) * 7 + step * 3 + 1) % 5
    return (torch.arange(4) + step) % 3


def train(module, kind, loss_of):
    module.train()
    optimizer = torch.optim.SGD([p for p in module.parameters() if p.requires_grad], lr=0.1, momentum=0.9,
                                foreach=False)
    losses = []
    for step in range(5):
        optimizer.zero_grad()
        loss = loss_of(module, inputs_of(step, kind), targets_of(step, kind))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    module.eval()
    outputs = module.eval_forward(inputs_of(0, kind)) if hasattr(module, "eval_forward") else module(inputs_of(0, kind))
    return {
        "losses": losses,
        "parameters": {name: p.double().sum().item() for name, p in module.named_parameters()},
        "buffers": {name: b.double().sum().item() for name, b in module.named_buffers()},
        "eval_outputs": outputs.double().sum().item(),
    }


def custom_loss(module, x, y):
    return sum(module.loss(module(x), {"inputs": x, "targets": y}).values())


def main():
    torch.manual_seed(SEED)
    torch.set_num_threads(1)
    FOLDER.mkdir(exist_ok=True)
    classifier, language, custom = Classifier(), Language(), Custom()
    torch.jit.script(classifier).save(FOLDER / "classifier.pt")
    torch.jit.trace(language, inputs_of(0, "tokens")).save(FOLDER / "language.pt")
    torch.jit.script(custom).save(FOLDER / "custom.pt")
    torch.jit.script(Returns()).save(FOLDER / "returns.pt")
    torch.jit.script(WrongArgument()).save(FOLDER / "wrong_argument.pt")
    torch.jit.freeze(torch.jit.script(Classifier().eval())).save(FOLDER / "frozen.pt")
    torch.save(classifier.state_dict(), FOLDER / "state_dict.pt")
    torch.export.save(torch.export.export(nn.Linear(2, 2), (torch.zeros(1, 2),)), FOLDER / "exported.pt2")
    golden = {
        "note": __doc__.splitlines()[0],
        "versions": {"torch": torch.__version__, "python": sys.version.split()[0]},
        "seed": SEED,
        "classifier": train(classifier, "points", lambda m, x, y: F.cross_entropy(m(x), y)),
        "language": train(language, "tokens", lambda m, x, y: F.cross_entropy(m(x).flatten(0, 1), y.flatten())),
        "custom": train(custom, "points", custom_loss),
    }
    (FOLDER / "training.json").write_text(json.dumps(golden, indent=1) + "\n")
    for path in sorted(FOLDER.iterdir()):
        print(f"{path.name}: {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
