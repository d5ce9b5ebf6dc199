"""composer_ema.py BLOCKS STEPS: the Python Composer's side of benchmarks/ema_step.cc; prints one JSON line per program.

composer_plain, composer_ema: a step without and with EMA, updated every batch. composer_ema_update: the update alone.
Uses the fused torch AdamW, no metric, no progress bar. A block is an epoch; epochs of the two programs alternate, with
one trainer each.
SPDX-License-Identifier: Apache-2.0
"""

import warnings

import composer
import torch
import workloads
from composer.algorithms import EMA
from composer.core import Callback
from composer.models import ComposerModel
from torch.utils.data import DataLoader, TensorDataset


class Model(ComposerModel):
    def __init__(self):
        super().__init__()
        workloads.LAYERS = 4
        self.net = workloads.make_model("gpt")

    def forward(self, batch):
        return self.net(batch[0])

    def loss(self, outputs, batch):
        return workloads.loss_of(outputs, batch[1])

    def get_metrics(self, is_train):
        return {}


class EpochTimes(Callback):
    def __init__(self):
        self.blocks = []

    def epoch_start(self, state, logger):
        self.start = workloads.now()

    def epoch_end(self, state, logger):
        self.blocks.append(workloads.since(self.start))


def make(algorithms, steps):
    model, times = Model(), EpochTimes()
    loader = DataLoader(TensorDataset(*workloads.make_data("gpt", steps)), workloads.BATCH["gpt"], shuffle=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    trainer = composer.Trainer(model=model, train_dataloader=loader, max_duration="1ep", device="cpu",
                               optimizers=optimizer, algorithms=algorithms, callbacks=[times], progress_bar=False)
    trainer.fit()  # warms up, and begins the average
    return trainer, times


def main():
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    blocks, steps, _ = workloads.arguments()
    ema = EMA()
    runs = {"composer_plain": make([], steps), "composer_ema": make([ema], steps)}
    updates = []
    for _ in range(blocks):
        for trainer, _ in runs.values():
            trainer.fit(duration="1ep")
        state, start = runs["composer_ema"][0].state, workloads.now()
        for _ in range(steps):
            ema.apply(composer.Event.BATCH_END, state, None)
        updates.append(workloads.since(start))
    for name, (_, times) in runs.items():
        workloads.report(name, times.blocks[1:], steps)
    workloads.report("composer_ema_update", updates, steps)


main()
