"""Makes the goldens of EMA: the averages of mosaicml's algorithm through short runs. Called by make_goldens.py.
SPDX-License-Identifier: Apache-2.0
"""

import torch
from composer.algorithms import EMA
from composer.core import Callback, Evaluator
from composer.models import ComposerClassifier
from composer.optim import DecoupledSGDW
from golden_file import Lcg, make_trainer, write
from golden_loop import fill
from torch.utils.data import DataLoader, TensorDataset

HIDDEN, BATCHES, EPOCHS = 4, (1, 2, 7, 12, 13, 30), (1, 2, 3, 6)


def rows(count, start):
    inputs = Lcg(start).tensor(count, 8)
    return TensorDataset(inputs, inputs[:, :4].argmax(dim=1))


class Watch(Callback):
    """Records the averages at some ends of batches and epochs, and the results of evaluations with them."""

    def __init__(self):
        self.averages, self.entropies = [], []

    def record(self, unit, count, state):
        ema = state.algorithms[0]
        params = ema.ema_model.named_parameters_dict.values() if ema.ema_started else []
        buffers = ema.ema_model.named_buffers_dict.values() if ema.ema_started else []
        values = [t.flatten().tolist() for t in [*params, *(b for b in buffers if b.is_floating_point())]]
        self.averages.append({"after": f"{count}{unit}", "values": sum(values, [])})

    def batch_end(self, state, logger):
        if state.timestamp.batch.value in BATCHES:
            self.record("ba", state.timestamp.batch.value, state)

    def epoch_end(self, state, logger):
        if state.timestamp.epoch.value in EPOCHS:
            self.record("ep", state.timestamp.epoch.value, state)

    def eval_end(self, state, logger):
        self.entropies.append(state.eval_metrics["eval"]["CrossEntropy"].compute().item())


def run(batch_norm=False, **arguments):
    """Runs 6 epochs of 5 batches."""
    norm = [torch.nn.BatchNorm1d(HIDDEN)] if batch_norm else []
    net = torch.nn.Sequential(torch.nn.Linear(8, HIDDEN), *norm, torch.nn.ReLU(), torch.nn.Linear(HIDDEN, 4))
    fill(net, 1, 0.3)
    model, watch = ComposerClassifier(net, num_classes=4), Watch()
    evaluator = Evaluator(label="eval", dataloader=DataLoader(rows(24, 3), 8), metric_names=["CrossEntropy"])
    trainer = make_trainer(model, DataLoader(rows(40, 2), 8), eval_dataloader=evaluator, eval_interval="1ep",
                           max_duration="6ep", algorithms=[EMA(**arguments)], callbacks=[watch],
                           optimizers=DecoupledSGDW(model.parameters(), lr=0.5))
    trainer.fit()
    trainer.close()
    return {"arguments": arguments, "batch_norm": batch_norm, "averages": watch.averages, "eval": watch.entropies,
            "final": sum([p.detach().flatten().tolist() for p in model.parameters()], [])}


def ema():
    runs = [run(half_life="5ba"), run(half_life="2ep"), run(half_life="6ba", ema_start="0.4dur", update_interval="3ba"),
            run(half_life="3ep", ema_start="2ep", update_interval="2ep"), run(half_life="4ba", batch_norm=True),
            run(half_life="4ba", ema_start="50sp"), run(half_life=None, smoothing=0.8, update_interval="1ba"),
            run(half_life=None, smoothing=0.3, update_interval="1ep", ema_start="7ba")]
    write("ema",
          "Linear 8 -> 4, [BatchNorm], ReLU, Linear 4 -> 4, filled from start x = 1 times 0.3; 40 rows of 8 draws from "
          "start x = 2, label = index of the largest of the first 4; 6 epochs of 5 batches of 8, not shuffled; DecoupledSGDW, "
          "lr 0.5. averages: at those ends of batches and epochs, parameters then floating-point buffers, flat; empty before "
          "it begins. eval: the cross-entropy of 24 rows from start x = 3 after each epoch. final: the weights trained on.",
          {"runs": runs})
