"""Run under the Python `composer`: trains one batch of the small GPT with composer.Trainer, then writes the unix time
to a file.

Each rank writes $BENCH_OUT/first_step.<rank>; the driver takes the latest rank.
SPDX-License-Identifier: Apache-2.0
"""

import os
import time

import composer
import torch
from composer.core import Callback
from composer.models import ComposerModel
from composer.optim import DecoupledAdamW
from composer.utils import dist
from gpt import RANK_BATCH, Gpt, loss_of, random_batch
from torch.utils.data import DataLoader, TensorDataset


class ComposerGpt(ComposerModel):
    def __init__(self):
        super().__init__()
        self.net = Gpt()

    def forward(self, batch):
        return self.net(batch[0])

    def loss(self, outputs, batch):
        return loss_of(outputs, batch[1])


class FirstStep(Callback):
    def batch_end(self, state, logger):
        with open(f"{os.environ['BENCH_OUT']}/first_step.{dist.get_global_rank()}", "w") as out:
            out.write(repr(time.time()))


torch.set_num_threads(1)
model = ComposerGpt()
dataset = TensorDataset(*random_batch(2 * RANK_BATCH))
sampler = dist.get_sampler(dataset)
trainer = composer.Trainer(model=model, train_dataloader=DataLoader(dataset, RANK_BATCH, sampler=sampler),
                           max_duration="1ba", optimizers=DecoupledAdamW(model.parameters(), lr=1e-3), device="cpu",
                           progress_bar=False, callbacks=[FirstStep()])
trainer.fit()
trainer.close()
