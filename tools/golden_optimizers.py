"""Runs of an optimizer, for the makers of goldens.

SPDX-License-Identifier: Apache-2.0
"""

import torch
from golden_file import SEED, Lcg

OPTIMIZER_NOTE = (
    "groups: the parameters of each, and what its lr and weight_decay are multiplied with. Step k "
    "(0-based) sets lr = lrs[k] * the group's, the gradients grads[k], and updates once. initial_lr: that "
    "of step 0. params_after[n]: the parameters, flat, after n updates.")


class OptimizerRuns:
    """Twenty updates of a few parameters in two groups, with a falling learning rate."""

    def __init__(self, shapes, groups, peak_lr=0.05, updates=20):
        lcg = Lcg(SEED)
        self.shapes, self.groups = shapes, groups
        self.params = [lcg.tensor(*s) for s in shapes]
        # Magnitudes range from 1e-3 to 1, so that eps and the second moment matter.
        self.grads = [[lcg.tensor(*s) * 10.0 ** -(step % 4) for s in shapes] for step in range(updates)]
        self.lrs = [peak_lr * (1 - step / (2 * updates)) for step in range(updates)]

    def run(self, kind, weight_decay, **kwargs):
        tensors = [torch.nn.Parameter(p.clone()) for p in self.params]
        groups = [{"params": [tensors[i] for i in g["params"]], "lr": self.lrs[0] * g["lr"],
                   "weight_decay": weight_decay * g["weight_decay"]} for g in self.groups]
        decay = {"weight_decay": weight_decay} if kind is not torch.optim.Rprop else {}
        optimizer = kind(groups, lr=self.lrs[0], **decay, **kwargs)
        after = {}
        for step, lr in enumerate(self.lrs):
            for own, group in zip(optimizer.param_groups, self.groups):
                own["lr"] = lr * group["lr"]
            for tensor, grad in zip(tensors, self.grads[step]):
                tensor.grad = grad.clone()
            optimizer.step()
            if step + 1 in (1, 2, 3, 10, len(self.lrs)):
                after[str(step + 1)] = [t.detach().flatten().tolist() for t in tensors]
        return {"optimizer": kind.__name__, "args": {"weight_decay": weight_decay, **kwargs}, "params_after": after}

    def content(self, runs):
        return {"shapes": self.shapes, "groups": self.groups, "lrs": self.lrs,
                "params": [p.flatten().tolist() for p in self.params],
                "grads": [[g.flatten().tolist() for g in step] for step in self.grads], "runs": runs}
