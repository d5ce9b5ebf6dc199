"""Shared by the makers of goldens: the seed, the generator of data and weights, and the layout of a golden file.
SPDX-License-Identifier: Apache-2.0
"""

import importlib.metadata
import json
import math
import pathlib
import sys

import torch

SEED = 17
FOLDER = pathlib.Path(__file__).resolve().parent.parent / "tests" / "golden"


def versions():
    """Returns the versions of this environment: mosaicml's, or only torch's."""
    found = {"torch": torch.__version__}
    for package in ["mosaicml", "torchmetrics", "numpy"]:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            pass
    names = ["mosaicml", "torch", "torchmetrics", "numpy"]
    return {**{name: found[name] for name in names if name in found}, "python": sys.version.split()[0]}


def write(name, note, content):
    """Writes one top-level key per line, so that a change shows as a small diff."""
    header = {"note": note, "versions": versions(), "seed": SEED}
    lines = []
    for key, value in {**header, **content}.items():
        if isinstance(value, list) and value and isinstance(value[0], (dict, list)):
            rows = ",\n  ".join(json.dumps(row) for row in value)
            lines.append(f"{json.dumps(key)}: [\n  {rows}\n]")
        else:
            lines.append(f"{json.dumps(key)}: {json.dumps(value)}")
    path = FOLDER / f"{name}.json"
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    print(f"{path}: {path.stat().st_size} bytes")


class Lcg:
    """x <- (1664525 x + 1013904223) mod 2^32; a draw is (x >> 8) / 2^23 - 1, in [-1, 1), exact in float32."""

    def __init__(self, seed):
        self.x = seed

    def draw(self, count):
        values = []
        for _ in range(count):
            self.x = (1664525 * self.x + 1013904223) % 2**32
            values.append((self.x >> 8) / 2**23 - 1)
        return values

    def tensor(self, *shape):
        return torch.tensor(self.draw(math.prod(shape)), dtype=torch.float32).reshape(shape)


def make_trainer(model, train, **kwargs):
    import composer  # not in the environment that has only torch

    return composer.Trainer(model=model, train_dataloader=train, progress_bar=False, device="cpu", seed=SEED, **kwargs)
