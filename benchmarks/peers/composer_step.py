"""composer_step.py BLOCKS STEPS [mlp|cnn|gpt]: the Python Composer's Trainer; prints one JSON line for each setting.

composer_default is what a user gets (accuracy, or language cross-entropy, as train metric; the progress bar is drawn
into a file). composer_bare has no metric and no progress bar. Both use the fused torch AdamW and a DataLoader; a block
is an epoch.
SPDX-License-Identifier: Apache-2.0
"""

import os
import warnings

import composer
import torch
from composer.core import Callback
from composer.metrics.nlp import LanguageCrossEntropy
from composer.models import ComposerModel
from torch.utils.data import DataLoader, TensorDataset
from torchmetrics.classification import MulticlassAccuracy
from workloads import BATCH, CLASSES, arguments, loss_of, make_data, make_model, now, report, since


class Model(ComposerModel):
    def __init__(self, workload, metrics):
        super().__init__()
        self.net = make_model(workload)
        metric = LanguageCrossEntropy() if workload == "gpt" else MulticlassAccuracy(
            num_classes=CLASSES, average="micro")
        self.train_metrics = {type(metric).__name__: metric} if metrics else {}

    def forward(self, batch):
        return self.net(batch[0])

    def loss(self, outputs, batch):
        return loss_of(outputs, batch[1])

    def get_metrics(self, is_train):
        return self.train_metrics if is_train else {}

    def update_metric(self, batch, outputs, metric):
        metric.update(outputs, batch[1])


class EpochTimes(Callback):
    def __init__(self):
        self.blocks = []

    def epoch_start(self, state, logger):
        self.start = now()

    def epoch_end(self, state, logger):
        self.blocks.append(since(self.start))


def measure(name, workload, blocks, steps, usual):
    model, times = Model(workload, metrics=usual), EpochTimes()
    loader = DataLoader(TensorDataset(*make_data(workload, steps)), BATCH[workload], shuffle=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    with open(os.devnull, "w") as console:
        trainer = composer.Trainer(model=model, train_dataloader=loader, max_duration=f"{blocks + 1}ep", device="cpu",
                                   optimizers=optimizer, callbacks=[times], progress_bar=usual, console_stream=console)
        trainer.fit()
        trainer.close()
    report(name, times.blocks[1:], steps)  # the first epoch is the warm-up


def main():
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    blocks, steps, workload = arguments()
    measure("composer_default", workload, blocks, steps, usual=True)
    measure("composer_bare", workload, blocks, steps, usual=False)


main()
