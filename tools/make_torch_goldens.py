#!/usr/bin/env python3
"""Writes tests/golden/torch_*.json: results of torch's own optimizers and schedulers, as data that our tests compare
with.

Run it with the `torch211` environment of tools/peers_setup.sh (torch 2.11, the version of our LibTorch; CPU, 1 thread):
    /tmp/composer-peers/torch211/bin/python tools/make_torch_goldens.py [name ...]
Running it again changes nothing (except torch_muon on another kind of CPU, whose bfloat16 products round differently).
SPDX-License-Identifier: Apache-2.0
"""

import sys
import warnings

import torch
from golden_file import SEED, Lcg, write
from golden_fsdp import torch_fsdp
from golden_loss_parallel import loss_parallel
from golden_optimizers import OPTIMIZER_NOTE, OptimizerRuns
from torch.optim import lr_scheduler as torch_schedulers


def torch_optimizers():
    runs = OptimizerRuns([[4, 3], [5], [2, 2, 2]], [{"params": [0, 1], "lr": 1.0, "weight_decay": 1.0},
                                                    {"params": [2], "lr": 0.5, "weight_decay": 3.0}])
    adam, adamw, sgd, rmsprop = torch.optim.Adam, torch.optim.AdamW, torch.optim.SGD, torch.optim.RMSprop
    rows = [
        runs.run(sgd, 1e-2),
        runs.run(sgd, 1e-2, momentum=0.9),
        runs.run(sgd, 1e-2, momentum=0.9, nesterov=True),
        runs.run(sgd, 1e-2, momentum=0.9, dampening=0.1),
        runs.run(adam, 0.0),
        runs.run(adam, 1e-2, betas=[0.8, 0.95], eps=1e-6),
        runs.run(adam, 1e-2, amsgrad=True),
        runs.run(adamw, 1e-2),
        runs.run(adamw, 0.1, betas=[0.8, 0.95], eps=1e-6),
        runs.run(adamw, 1e-2, amsgrad=True),
        runs.run(rmsprop, 0.0),
        runs.run(rmsprop, 1e-2, alpha=0.9, eps=1e-6),
        runs.run(rmsprop, 1e-2, momentum=0.9),
        runs.run(rmsprop, 1e-2, momentum=0.9, centered=True),
        runs.run(rmsprop, 1e-2, alpha=0.95, centered=True),
    ]
    write("torch_optimizers", OPTIMIZER_NOTE, runs.content(rows))


def torch_more_optimizers():
    runs = OptimizerRuns([[4, 3], [5], [2, 2, 2]], [{"params": [0, 1], "lr": 1.0, "weight_decay": 1.0},
                                                    {"params": [2], "lr": 0.5, "weight_decay": 3.0}])
    optim = torch.optim
    rows = [
        runs.run(optim.Adagrad, 0.0),
        runs.run(optim.Adagrad, 1e-2, lr_decay=0.1, initial_accumulator_value=0.2, eps=1e-6),
        runs.run(optim.Adadelta, 0.0),
        runs.run(optim.Adadelta, 1e-2, rho=0.8, eps=1e-4),
        runs.run(optim.Adamax, 0.0),
        runs.run(optim.Adamax, 1e-2, betas=[0.8, 0.95], eps=1e-6),
        runs.run(optim.NAdam, 0.0),
        runs.run(optim.NAdam, 1e-2, betas=[0.8, 0.95], eps=1e-6, momentum_decay=0.1),
        runs.run(optim.NAdam, 1e-2, decoupled_weight_decay=True),
        runs.run(optim.RAdam, 0.0),
        runs.run(optim.RAdam, 1e-2, betas=[0.8, 0.95], eps=1e-6),
        runs.run(optim.RAdam, 1e-2, decoupled_weight_decay=True),
        runs.run(optim.ASGD, 0.0),
        runs.run(optim.ASGD, 1e-2, lambd=0.1, alpha=0.5, t0=3.0),
        runs.run(optim.Adafactor, 0.0),
        runs.run(optim.Adafactor, 1e-2, beta2_decay=-0.5, eps=[1e-6, 1e-2], d=1.5),
        runs.run(optim.Rprop, 0.0),
        runs.run(optim.Rprop, 0.0, etas=[0.3, 2.0], step_sizes=[0.01, 0.2]),
    ]
    write("torch_more_optimizers", OPTIMIZER_NOTE, runs.content(rows))


def torch_muon():
    runs = OptimizerRuns([[6, 4], [4, 6], [6, 4], [5, 5]], [{"params": [0, 1, 2], "lr": 1.0, "weight_decay": 1.0},
                                                            {"params": [3], "lr": 0.5, "weight_decay": 3.0}])
    muon = torch.optim.Muon
    rows = [
        runs.run(muon, 0.1),
        runs.run(muon, 0.0, nesterov=False, momentum=0.9),
        runs.run(muon, 0.1, adjust_lr_fn="match_rms_adamw"),
        runs.run(muon, 0.1, ns_steps=3, ns_coefficients=[2.0, -1.5, 0.5]),
    ]
    write("torch_muon", OPTIMIZER_NOTE, runs.content(rows))


STEPS = 30
BASE_LRS = [0.1, 0.02]


def make_optimizer(kind=torch.optim.SGD, **kwargs):
    groups = [{"params": [torch.nn.Parameter(torch.zeros(1))], "lr": lr} for lr in BASE_LRS]
    return kind(groups, lr=BASE_LRS[0], **kwargs)


def scheduler_row(kind, optimizer=None, **args):
    """Returns lrs[k][g] and momentum[k] of group g when k steps are done."""
    optimizer = optimizer or make_optimizer()
    scheduler = getattr(torch_schedulers, kind)(optimizer, **args)
    row = {"scheduler": kind, "args": args, "lrs": [], "momentum": []}
    for _ in range(STEPS):
        group = optimizer.param_groups[0]
        row["lrs"].append([g["lr"] for g in optimizer.param_groups])
        row["momentum"].append(group["betas"][0] if "betas" in group else group.get("momentum", 0))
        optimizer.step()
        scheduler.step()
    return row


def plateau_row(values, **args):
    """Returns lrs[k][g] of group g when values[0 .. k] were observed."""
    optimizer = make_optimizer()
    scheduler = torch_schedulers.ReduceLROnPlateau(optimizer, **args)
    lrs = []
    for value in values:
        scheduler.step(value)
        lrs.append([g["lr"] for g in optimizer.param_groups])
    return {"args": args, "lrs": lrs}


def torch_schedules():
    row, momentum = scheduler_row, dict(momentum=0.9)
    rows = [
        row("StepLR", step_size=7),
        row("StepLR", step_size=4, gamma=0.5),
        row("MultiStepLR", milestones=[5, 9, 9, 20], gamma=0.3),
        row("LinearLR"),
        row("LinearLR", start_factor=1.0, end_factor=0.1, total_iters=20),
        row("ExponentialLR", gamma=0.9),
        row("CosineAnnealingLR", T_max=12),
        row("CosineAnnealingLR", T_max=40, eta_min=0.01),
        row("CosineAnnealingWarmRestarts", T_0=6),
        row("CosineAnnealingWarmRestarts", T_0=4, T_mult=2, eta_min=0.005),
        row("OneCycleLR", make_optimizer(**momentum), max_lr=0.5, total_steps=STEPS),
        row("OneCycleLR", make_optimizer(**momentum), max_lr=0.5, epochs=4, steps_per_epoch=10, three_phase=True,
            anneal_strategy="linear", div_factor=10.0, final_div_factor=100.0),
        row("OneCycleLR", make_optimizer(torch.optim.Adam), max_lr=0.5, total_steps=STEPS, pct_start=0.25,
            base_momentum=0.8, max_momentum=0.9),
        row("OneCycleLR", make_optimizer(**momentum), max_lr=0.5, total_steps=STEPS, cycle_momentum=False,
            pct_start=0.45, three_phase=True),
        row("ConstantLR"),
        row("ConstantLR", factor=0.1, total_iters=12),
        row("PolynomialLR"),
        row("PolynomialLR", total_iters=20, power=1.7),
        row("CyclicLR", make_optimizer(**momentum), base_lr=0.01, max_lr=0.5, step_size_up=4),
        row("CyclicLR", make_optimizer(**momentum), base_lr=0.01, max_lr=0.5, step_size_up=3, step_size_down=5,
            mode="triangular2", base_momentum=0.7, max_momentum=0.95),
        row("CyclicLR", make_optimizer(torch.optim.Adam), base_lr=0.0, max_lr=0.5, step_size_up=5, mode="exp_range",
            gamma=0.95),
        row("CyclicLR", make_optimizer(**momentum), base_lr=0.02, max_lr=0.2, step_size_up=6, cycle_momentum=False),
    ]
    noise = Lcg(SEED).draw(60)
    values = [1 / (1 + 0.2 * min(k, 12)) + 0.002 * noise[k] for k in range(60)]
    plateau = [
        plateau_row(values, patience=3),
        plateau_row(values, patience=2, factor=0.5, cooldown=4, min_lr=0.015, threshold=0.01),
        plateau_row(values, patience=0, factor=0.5, threshold=0.05, threshold_mode="abs", eps=1e-3),
        plateau_row(values, patience=4, mode="max", threshold=0.1),
        plateau_row(values, patience=4, mode="max", threshold=0.001, threshold_mode="abs", cooldown=1),
    ]
    write(
        "torch_schedulers", "rows: lrs[k][g] and momentum[k] (beta1 of Adam, of group 0) when k steps are done, "
        "in groups with the learning rates base_lrs. plateau: ReduceLROnPlateau; lrs[k][g] when values[0] .. values[k] "
        "were observed.",
        {"base_lrs": BASE_LRS, "rows": rows, "values": values, "plateau": plateau})


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    makers = {"torch_optimizers": torch_optimizers, "torch_more_optimizers": torch_more_optimizers,
              "torch_muon": torch_muon, "torch_schedulers": torch_schedules,
              "torch_fsdp": torch_fsdp, "torch_loss_parallel": loss_parallel}
    for chosen in sys.argv[1:] or makers:
        makers[chosen]()
