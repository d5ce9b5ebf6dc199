"""Makes the goldens of algorithms and optimizers that change a step: gradient clipping, SAM, LBFGS, the samples that
SelectiveBackprop keeps. Called by make_goldens.py.
SPDX-License-Identifier: Apache-2.0
"""

import composer.algorithms.selective_backprop.selective_backprop as selective
import numpy as np
import torch
from composer.algorithms import SAM, GradientClipping, LabelSmoothing
from composer.algorithms.layer_freezing import freeze_layers
from composer.functional import mixup_batch
from composer.core import Callback
from composer.models import ComposerClassifier
from composer.optim import DecoupledSGDW
from golden_file import SEED, Lcg, make_trainer, write
from golden_loop import fill
from torch.utils.data import DataLoader, TensorDataset


class Losses(Callback):

    def __init__(self):
        self.losses = []

    def batch_end(self, state, logger):
        self.losses.append(float(state.total_loss_dict["loss/train/total"]))


def lbfgs(arguments, batch=8):
    """Runs torch's own loop: mosaicml adds up the losses of a step's evaluations, and a line search then sees that sum."""
    inputs, losses = Lcg(2).tensor(40, 8), []
    targets = inputs[:, :4].argmax(dim=1)
    net = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))
    fill(net, 1, 0.3)
    optimizer = torch.optim.LBFGS(net.parameters(), **arguments)
    for begin in 2 * list(range(0, 40, batch)):
        evaluated = []

        def closure():
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(net(inputs[begin:begin + batch]), targets[begin:begin + batch])
            loss.backward()
            evaluated.append(loss.item())
            return loss

        optimizer.step(closure)
        losses.append(evaluated[0])
    return {"kind": "lbfgs", "arguments": arguments, "batch": batch, "microbatch": batch, "losses": losses,
            "final": sum([p.detach().flatten().tolist() for p in net.parameters()], [])}


def run(kind, arguments, microbatch=8, clipping=None):
    inputs = Lcg(2).tensor(40, 8)
    train = DataLoader(TensorDataset(inputs, inputs[:, :4].argmax(dim=1)), 8)
    net = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))
    fill(net, 1, 0.3)
    model, watch = ComposerClassifier(net, num_classes=4), Losses()
    algorithms = {"gradient_clipping": GradientClipping, "sam": SAM, "label_smoothing": LabelSmoothing}
    more = [GradientClipping(**clipping)] if clipping else []
    trainer = make_trainer(model, train, max_duration="2ep", callbacks=[watch],
                           optimizers=DecoupledSGDW(model.parameters(), lr=0.5, momentum=0.9),
                           algorithms=[algorithms[kind](**arguments)] + more, device_train_microbatch_size=microbatch)
    trainer.fit()
    trainer.close()
    return {"kind": kind, "arguments": arguments, "microbatch": microbatch, "losses": watch.losses,
            "final": sum([p.detach().flatten().tolist() for p in model.parameters()], []),
            **({"clipping": clipping} if clipping else {})}


def selection(samples, keep, seed):
    """Returns which samples are kept, and the uniform numbers that numpy then draws."""
    losses, rows = Lcg(seed).tensor(samples), torch.arange(samples)[:, None].float()
    original, np.random.choice = np.random.choice, np.random.RandomState(seed).choice
    try:
        kept, _ = selective.select_using_loss(rows, rows, lambda batch: batch,
                                              lambda out, target, reduction: losses, keep, 1.0)
    finally:
        np.random.choice = original
    return {"losses": losses.tolist(), "keep": keep, "kept": kept.flatten().long().tolist(),
            "draws": np.random.RandomState(seed).random_sample(8 * samples).tolist()}


def mixes():
    inputs, permutation = Lcg(5).tensor(6, 3), torch.tensor([3, 0, 5, 1, 4, 2])
    rows = []
    for mixing in (0.0, 0.3, 0.5):
        mixed, permuted, _ = mixup_batch(inputs, torch.arange(6), mixing=mixing, indices=permutation)
        rows.append({"mixing": mixing, "permutation": permutation.tolist(), "mixed": mixed.flatten().tolist(),
                     "targets": permuted.tolist()})
    return rows


def freezes():
    rows = []
    for start, level in ((0.5, 1.0), (0.0, 0.6), (0.25, 0.9)):
        for elapsed in (0.1, 0.25, 0.5, 0.6, 0.75, 0.9, 1.0):
            net = torch.nn.Sequential(*[torch.nn.Linear(2, 2) for _ in range(8)])
            optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
            depth, part = freeze_layers(net, optimizer, elapsed, start, level)
            rows.append({"freeze_start": start, "freeze_level": level, "elapsed": elapsed, "depth": depth, "part": part})
    return rows


def steps():
    runs = [
        run("gradient_clipping", {"clipping_type": "norm", "clipping_threshold": 0.2}),
        run("gradient_clipping", {"clipping_type": "value", "clipping_threshold": 0.02}),
        run("gradient_clipping", {"clipping_type": "adaptive", "clipping_threshold": 0.05}, microbatch=4),
        run("sam", {"rho": 0.5}),
        run("label_smoothing", {"smoothing": 0.2}, microbatch=4),
        run("sam", {"rho": 0.1, "interval": 3}, microbatch=4),
        run("sam", {"rho": 0.5}, clipping={"clipping_type": "norm", "clipping_threshold": 0.2}),
        run("sam", {"rho": 0.3, "interval": 2}, clipping={"clipping_type": "value", "clipping_threshold": 0.02}),
        lbfgs({"lr": 0.1, "max_iter": 4}),
        lbfgs({"lr": 0.5, "max_iter": 6, "history_size": 5, "line_search_fn": "strong_wolfe"}, batch=40),
    ]
    selections = [selection(16, 0.5, SEED), selection(31, 0.3, 4), selection(10, 0.95, 9)]
    write("steps",
          "runs: Linear 8 -> 16, ReLU, Linear 16 -> 4, filled from start x = 1 times 0.3; 40 rows of 8 draws from start x "
          "= 2, label = index of the largest of the first 4; 2 epochs of 5 batches of 8, not shuffled (or `batch`); "
          "DecoupledSGDW, lr 0.5, momentum 0.9, or torch's LBFGS without mosaicml. losses: by batch; final: the weights. "
          "selections: the samples that SelectiveBackprop's select_using_loss keeps of these losses when numpy draws these "
          "numbers in turn. mixes: mixup_batch of 6 rows of 3 draws from start x = 5, targets 0 to 5. freezes: "
          "freeze_layers of 8 layers.",
          {"runs": runs, "mixes": mixes(), "freezes": freezes(), "selections": selections})
