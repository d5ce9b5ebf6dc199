"""Runs of the Python Composer that a run here goes on from: tests/golden/composer_runs/{adamw,sgd}.pt and losses.json.

The whole data set is one batch, so that the order of samples does not matter. A run saves after six batches and trains
twenty more, whose losses are the golden.
Run: OMP_NUM_THREADS=1 /tmp/composer-peers/mosaic/bin/python tools/golden_composer_runs.py tests/golden/composer_runs
"""

import json
import pathlib
import sys
import tempfile

import composer
import torch
from composer.core import Callback
from composer.models import ComposerClassifier
from composer.optim import CosineAnnealingScheduler, DecoupledAdamW, DecoupledSGDW
from torch.utils.data import DataLoader, TensorDataset

SEED, SAVED, TOTAL = 17, 6, 26
OPTIMIZERS = {
    "adamw": lambda p: DecoupledAdamW(p, lr=0.02, weight_decay=1e-3),
    "sgd": lambda p: DecoupledSGDW(p, lr=0.05, momentum=0.9, weight_decay=1e-3),
}


class Mlp(torch.nn.Module):
    """The names of our mlp [6, 8, 3]."""

    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList([torch.nn.Linear(6, 8), torch.nn.Linear(8, 3)])

    def forward(self, x):
        return self.layers[1](torch.relu(self.layers[0](x)))


class Losses(Callback):
    def __init__(self):
        self.losses = []

    def after_loss(self, state, logger):
        self.losses.append(float(state.loss))


def train(name, folder, inputs, labels):
    torch.manual_seed(SEED)
    model = ComposerClassifier(Mlp(), num_classes=3)
    losses = Losses()
    with tempfile.TemporaryDirectory() as saved:
        trainer = composer.Trainer(
            model=model,
            train_dataloader=DataLoader(TensorDataset(inputs, labels), batch_size=len(inputs)),
            optimizers=OPTIMIZERS[name](model.parameters()),
            schedulers=CosineAnnealingScheduler(),
            max_duration=f"{TOTAL}ba",
            callbacks=losses,
            save_folder=saved,
            save_interval=f"{SAVED}ba",
            save_filename="ba{batch}.pt",
            seed=SEED,
            device="cpu",
            progress_bar=False,
            run_name=name,
        )
        trainer.fit()
        (folder / f"{name}.pt").write_bytes((pathlib.Path(saved) / f"ba{SAVED}.pt").read_bytes())
    return losses.losses


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(SEED)
    inputs, labels = torch.randn(24, 6), torch.randint(0, 3, (24,))
    golden = {
        "versions": {"mosaicml": composer.__version__, "torch": torch.__version__},
        "seed": SEED,
        "inputs": inputs.flatten().tolist(),
        "labels": labels.tolist(),
        "losses": {name: train(name, folder, inputs, labels) for name in OPTIMIZERS},
    }
    (folder / "losses.json").write_text(json.dumps(golden, indent=0) + "\n")


main()
