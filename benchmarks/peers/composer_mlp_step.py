"""composer_mlp_step.py BLOCKS STEPS: the Python Composer's Trainer on the tiny MLP; one JSON line for each setting.

composer_default: as a user gets it (ComposerClassifier's accuracy metric; the progress bar draws into a file);
composer_bare: no metric, no progress bar. Both with the fused torch AdamW and a DataLoader; a block is an epoch.
SPDX-License-Identifier: Apache-2.0
"""

import os
import time
import warnings

import composer
import torch
from composer.core import Callback
from composer.models import ComposerClassifier
from mlp import BATCH, CLASSES, blocks_and_steps, make_data, make_mlp, report
from torch.utils.data import DataLoader, TensorDataset


class EpochTimes(Callback):
    def __init__(self):
        self.starts, self.ends = [], []

    def epoch_start(self, state, logger):
        self.starts.append(time.perf_counter())

    def epoch_end(self, state, logger):
        self.ends.append(time.perf_counter())


def measure(name, blocks, steps, progress_bar, **classifier_args):
    model = ComposerClassifier(make_mlp(), num_classes=CLASSES, **classifier_args)
    times = EpochTimes()
    loader = DataLoader(TensorDataset(*make_data(steps)), BATCH, shuffle=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    with open(os.devnull, "w") as console:
        trainer = composer.Trainer(model=model, train_dataloader=loader, max_duration=f"{blocks + 1}ep", device="cpu",
                                   optimizers=optimizer, callbacks=[times], progress_bar=progress_bar,
                                   console_stream=console)
        trainer.fit()
        trainer.close()
    epochs = [end - start for start, end in zip(times.starts, times.ends)]
    report(name, epochs[1:], steps)  # the first epoch is the warm-up


def main():
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    blocks, steps = blocks_and_steps()
    measure("composer_default", blocks, steps, progress_bar=True)
    measure("composer_bare", blocks, steps, progress_bar=False, train_metrics={}, val_metrics={})


main()
