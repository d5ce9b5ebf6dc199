#!/usr/bin/env python3
"""Writes tests/golden/*.json: results of the Python Composer, as data that our tests compare with.

Run it with the `mosaic` environment of tools/peers_setup.sh (mosaicml 0.32.1, CPU, fp32, 1 thread):
    /tmp/composer-peers/mosaic/bin/python tools/make_goldens.py [name ...]
Every file begins with the versions and the seed that made it and a note on how to read it. Float32 values are written
as the exact double that they equal, so a parser that rounds to float gets the same bits. Running it again on the same
machine changes nothing; another CPU may round the last digits of losses and weights differently.
SPDX-License-Identifier: Apache-2.0
"""

import datetime
import logging
import math
import sys
import types
import warnings

import golden_batches
import golden_ema
import golden_layers
import golden_loop
import golden_profiler
import golden_steps
import golden_surgery
import torch
import torchmetrics
from composer.core import Callback, Event, Time, Timestamp
from composer.loss import DiceLoss, binary_cross_entropy_with_logits
from composer.metrics import (BinaryF1Score, CrossEntropy, Dice, LanguageCrossEntropy, LanguagePerplexity, LossMetric,
                              MaskedAccuracy, MIoU)
from composer.models import ComposerClassifier
from composer.optim import DecoupledAdamW, DecoupledSGDW
from composer.optim import scheduler as schedulers
from composer.trainer._scale_schedule import scale_pytorch_scheduler
from golden_file import FOLDER, SEED, Lcg, make_trainer, write
from golden_optimizers import OPTIMIZER_NOTE, OptimizerRuns
from torch.optim import lr_scheduler as torch_schedulers
from torch.utils.data import DataLoader, TensorDataset


# --- optimizers -----------------------------------------------------------------------------------------------------


def optimizers():
    runs = OptimizerRuns([[4, 3], [5], [2, 2, 2]], [{"params": [0, 1], "lr": 1.0, "weight_decay": 1.0},
                                                    {"params": [2], "lr": 0.5, "weight_decay": 3.0}])
    rows = [
        runs.run(DecoupledAdamW, 1e-2, betas=[0.9, 0.95], eps=1e-8),
        runs.run(DecoupledAdamW, 0.0, betas=[0.9, 0.95], eps=1e-8),
        runs.run(DecoupledAdamW, 1e-2, betas=[0.9, 0.999], eps=1e-6, amsgrad=True),
        runs.run(DecoupledSGDW, 1e-2, momentum=0.0),
        runs.run(DecoupledSGDW, 1e-2, momentum=0.9),
        runs.run(DecoupledSGDW, 1e-2, momentum=0.9, nesterov=True),
        runs.run(DecoupledSGDW, 1e-2, momentum=0.9, dampening=0.1),
    ]
    write("optimizers", OPTIMIZER_NOTE, runs.content(rows))


# --- schedulers -----------------------------------------------------------------------------------------------------

BATCHES_PER_EPOCH, SAMPLES_PER_BATCH, TOKENS_PER_BATCH = 1000, 16, 1024


def scheduler_state(max_duration, ssr, batch):
    """What a scheduler reads from composer.State. The trainer scales max_duration by ssr before it calls schedulers."""
    limit = Time.from_timestring(max_duration)
    now = Timestamp(epoch=batch // BATCHES_PER_EPOCH, batch=batch, sample=batch * SAMPLES_PER_BATCH,
                    token=batch * TOKENS_PER_BATCH)
    return types.SimpleNamespace(max_duration=Time(int(limit.value * ssr), limit.unit), timestamp=now,
                                 dataloader_len=Time(BATCHES_PER_EPOCH, "ba"))


def scheduler_row(kind, args, max_duration="1000ep", ssr=1.0):
    limit = Time.from_timestring(max_duration)
    last = int(limit.value * ssr) * (BATCHES_PER_EPOCH if limit.unit.value == "ep" else 1)
    batches = sorted({0, 1, 999, 1000, last // 10, last // 7, last // 4, last // 3, last // 2, last * 3 // 4, last - 1,
                      last, last + 1000})
    row = {"scheduler": kind, "args": args, "max_duration": max_duration, "ssr": ssr}
    try:
        scheduler = getattr(schedulers, kind)(**args)
        row["values"] = [[b, scheduler(scheduler_state(max_duration, ssr, b), ssr)] for b in batches]
    except (ValueError, RuntimeError) as error:
        row["error"] = f"{type(error).__name__}: {error}"
    return row


def scheduler_rows():
    yield from (scheduler_row("StepScheduler", dict(step_size=s, gamma=0.5)) for s in ["200ep", "333333ba", "0.25dur"])
    yield scheduler_row("MultiStepScheduler", dict(milestones=["100ep", "0.5dur", "750000ba"], gamma=0.1))
    yield scheduler_row("ConstantScheduler", dict(alpha=0.25, t_max="500ep"))
    yield scheduler_row("LinearScheduler", dict(alpha_i=1.0, alpha_f=0.0, t_max="1dur"))
    yield scheduler_row("LinearScheduler", dict(alpha_i=0.25, alpha_f=0.75, t_max="400ep"))
    yield scheduler_row("LinearScheduler", dict(alpha_i=1.0, alpha_f=0.1, t_max="8000000sp"))
    yield scheduler_row("LinearScheduler", dict(alpha_i=1.0, alpha_f=0.1, t_max="5e8tok"))
    yield scheduler_row("ExponentialScheduler", dict(gamma=0.99, decay_period="2ep"))
    yield scheduler_row("CosineAnnealingScheduler", dict(t_max="1dur", alpha_f=0.0))
    yield scheduler_row("CosineAnnealingScheduler", dict(t_max="1000000ba", alpha_f=0.2))
    yield scheduler_row("CosineAnnealingWarmRestartsScheduler", dict(t_0="100ep", t_mult=1.5, alpha_f=0.1))
    yield scheduler_row("PolynomialScheduler", dict(power=3.0, t_max="1dur", alpha_f=0.1))
    yield scheduler_row("MultiStepWithWarmupScheduler", dict(t_warmup="50ep", milestones=["500ep", "750ep"], gamma=0.1))
    yield scheduler_row("ConstantWithWarmupScheduler", dict(t_warmup="100000ba", alpha=0.5))
    yield scheduler_row("LinearWithWarmupScheduler", dict(t_warmup="250ep", alpha_i=0.8, alpha_f=0.2, t_max="1dur"))
    yield scheduler_row("LinearWithWarmupScheduler", dict(t_warmup="0.25dur", t_max="1000ep"))
    yield scheduler_row("PolynomialWithWarmupScheduler", dict(t_warmup="100ep", power=2.0, alpha_f=0.05))
    warm = "CosineAnnealingWithWarmupScheduler"
    for warmup in ["0ba", "1ba", "100ep", "100000ba", "0.1dur"]:
        for alpha_f in [0.0, 0.1]:
            yield scheduler_row(warm, dict(t_warmup=warmup, alpha_f=alpha_f))
    yield scheduler_row(warm, dict(t_warmup="100ba", t_max="2000ba", alpha_f=0.02), max_duration="2000ba")
    yield scheduler_row(warm, dict(t_warmup="100ba", t_max="1dur"), max_duration="2000ba")
    # In scaled schedules a warm-up keeps its length unless scale_warmup; a fraction of the run always scales.
    for args in [dict(t_warmup="100ep"), dict(t_warmup="100ep", scale_warmup=True), dict(t_warmup="0.1dur")]:
        for ssr in [0.5, 2.0]:
            yield scheduler_row(warm, args, ssr=ssr)
    yield scheduler_row("StepScheduler", dict(step_size="200ep", gamma=0.5), ssr=0.5)
    yield scheduler_row("MultiStepScheduler", dict(milestones=["100ep", "500ep"], gamma=0.1), ssr=0.5)
    yield scheduler_row("LinearScheduler", dict(t_max="1000ep"), ssr=2.0)
    yield scheduler_row("ExponentialScheduler", dict(gamma=0.99, decay_period="2ep"), ssr=2.0)
    # These are rejected: the schedule ends before the run; warm-up and schedule in different units; wall-clock time.
    yield scheduler_row(warm, dict(t_warmup="100ba", t_max="1000ba"), max_duration="2000ba")
    yield scheduler_row(warm, dict(t_warmup="1600sp", t_max="2000ba"), max_duration="2000ba")
    yield scheduler_row("LinearScheduler", dict(t_max="100sec"))


def upstream_rows():
    """Yields all 46 rows of mosaicml's tests/optim/test_scheduler.py, test_scheduler_init; the values are computed
    here."""
    warm = "WithWarmupScheduler"
    halves = ["0ba", "250000ba", "500000ba", "750000ba", "1000000ba"]
    tail = ["0ba", "250000ba", "500000ba", "500500ba", "501000ba", "502000ba"]
    short, long = ["0ba", "450000ba", "900000ba"], ["0ep", "100ep", "1000ep"]
    tens = ["0ba", "4500ba", "9000ba"]
    yield "StepScheduler", dict(step_size="10ba"), 1.0, ["5ba", "15ba", "35ba"]
    yield "StepScheduler", dict(step_size="0.002dur", gamma=0.8), 1.0, ["1000ba", "3000ba", "7000ba"]
    yield "StepScheduler", dict(step_size="1ep", gamma=0.5), 1.0, ["500ba", "1500ba", "3500ba"]
    yield "StepScheduler", dict(step_size="10ba", gamma=0.5), 0.5, ["3ba", "8ba", "18ba"]
    yield "MultiStepScheduler", dict(milestones=["10ba", "30ba", "70ba"]), 1.0, ["5ba", "20ba", "50ba", "100ba"]
    mixed = dict(milestones=["100ba", "1ep", "0.01dur"], gamma=0.5)
    yield "MultiStepScheduler", mixed, 1.0, ["50ba", "500ba", "5000ba", "50000ba"]
    yield "MultiStepScheduler", mixed, 4.0, ["200ba", "2000ba", "20000ba", "200000ba"]
    fifths = ["100000ba", "200000ba", "400000ba"]
    yield "LinearScheduler", dict(), 1.0, fifths
    yield "LinearScheduler", dict(alpha_i=0.0, alpha_f=2.0), 1.0, fifths
    yield "LinearScheduler", dict(alpha_i=0.0, alpha_f=1.0, t_max="0.25dur"), 1.0, fifths
    yield "LinearScheduler", dict(alpha_i=0.0, alpha_f=1.0, t_max="0.25dur"), 2.0, fifths
    yield "ExponentialScheduler", dict(gamma=0.5), 1.0, ["1ep", "2ep", "4ep"]
    yield "ExponentialScheduler", dict(gamma=0.5), 2.0, ["2ep", "4ep", "8ep"]
    cosine = "CosineAnnealingScheduler"
    yield cosine, dict(), 1.0, ["0ba", "333333ba", "500000ba", "666667ba", "1000000ba"]
    yield cosine, dict(t_max="30ba", alpha_f=0.5), 1.0, ["0ba", "10ba", "15ba", "20ba", "30ba", "50ba"]
    yield cosine, dict(t_max="30ba", alpha_f=0.5), 0.2, ["0ba", "2ba", "3ba", "4ba", "6ba", "10ba"]
    restarts = "CosineAnnealingWarmRestartsScheduler"
    yield restarts, dict(t_0="30ba"), 1.0, ["0ba", "10ba", "15ba", "20ba", "30ba", "40ba"]
    yield restarts, dict(t_0="0.003dur", t_mult=1.5), 1.0, ["0ba", "1000ba", "3000ba", "4500ba", "7500ba", "14250ba"]
    yield restarts, dict(t_0="30ep", t_mult=2.0, alpha_f=0.5), 0.5, ["0ba", "5000ba", "15000ba", "25000ba"]
    yield "PolynomialScheduler", dict(power=2.0), 1.0, ["0ba", "100000ba", "200000ba", "500000ba"]
    polynomial = dict(power=2.0, t_max="100ba", alpha_f=0.5)
    yield "PolynomialScheduler", polynomial, 1.0, ["0ba", "10ba", "20ba", "50ba"]
    yield "PolynomialScheduler", polynomial, 0.5, ["0ba", "10ba", "20ba", "50ba"]
    yield ("MultiStep" + warm, dict(t_warmup="10ba", milestones=["20ba", "40ba"]), 1.0,
           ["0ba", "5ba", "15ba", "25ba", "45ba"])
    steps = dict(t_warmup="10ba", milestones=["2ep", "4ep"], gamma=0.5)
    yield "MultiStep" + warm, steps, 0.5, ["0ba", "5ba", "15ba", "1500ba", "2500ba"]
    yield "MultiStep" + warm, dict(**steps, scale_warmup=True), 0.5, ["0ba", "5ba", "15ba", "1500ba", "2500ba"]
    yield "MultiStep" + warm, dict(t_warmup="1000ep", milestones=[]), 1.0, long
    yield "Constant" + warm, dict(t_warmup="500ep"), 1.0, halves
    yield "Constant" + warm, dict(t_warmup="500ep", alpha=3.0), 1.0, tail
    yield "Constant" + warm, dict(t_warmup="500ep", alpha=3.0), 1.0, tail  # twice upstream too
    yield "Constant" + warm, dict(t_warmup="0.0005dur"), 1.0, ["0ba", "250ba", "500ba", "499750ba"]
    yield "Constant" + warm, dict(t_warmup="500ep", alpha=3.0, t_max="501000ep"), 0.5, tail
    yield "Constant" + warm, dict(t_warmup="1000ep"), 1.0, long
    yield "Linear" + warm, dict(t_warmup="500ep"), 1.0, halves
    yield "Linear" + warm, dict(t_warmup="500ep", alpha_i=3.0, alpha_f=2.0, t_max="1002ep"), 0.5, tail
    yield "Linear" + warm, dict(t_warmup="0.0005dur"), 1.0, ["0ba", "250ba", "500ba", "499750ba"]
    yield "Linear" + warm, dict(t_warmup="500ba", scale_warmup=False), 0.5, ["0ba", "250ba", "500ba", "249875ba"]
    yield "Linear" + warm, dict(t_warmup="500ba", scale_warmup=True), 0.5, ["0ba", "125ba", "250ba", "249875ba"]
    yield "Linear" + warm, dict(t_warmup="1000ep"), 1.0, long
    for kind, at, late in [("CosineAnnealing", ["933333ba", "950000ba", "1000000ba"], ["9333ba", "9500ba", "10000ba"]),
                           ("Polynomial", ["913397ba", "929289ba", "1000000ba"], ["9134ba", "9293ba", "10000ba"])]:
        yield kind + warm, dict(t_warmup="0.9dur"), 1.0, short + at
        yield kind + warm, dict(t_warmup="0.9dur", alpha_f=0.5), 0.01, tens + late
        yield kind + warm, dict(t_warmup="0.9dur", alpha_f=0.5, scale_warmup=True), 0.01, tens + late
        yield kind + warm, dict(t_warmup="1000ep"), 1.0, long


def upstream_row(kind, args, ssr, times):
    scheduler = getattr(schedulers, kind)(**args)
    in_batches = lambda time: int(time[:-2]) * (BATCHES_PER_EPOCH if time.endswith("ep") else 1)
    return {"scheduler": kind, "args": args, "max_duration": "1000ep", "ssr": ssr,
            "values": [[b, scheduler(scheduler_state("1000ep", ssr, b), ssr)] for b in map(in_batches, times)]}


def scaled_torch_row(kind, ssr, **args):
    """Returns lrs[k], when k steps are done, of a torch scheduler that Composer has scaled."""
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
    scheduler = getattr(torch_schedulers, kind)(optimizer, **args)
    row = {"scheduler": kind, "args": args, "ssr": ssr, "lrs": []}
    try:
        scale_pytorch_scheduler(scheduler, ssr)
    except ValueError as error:
        return {**row, "error": f"{type(error).__name__}: {error}"[:80]}
    for _ in range(30):
        row["lrs"].append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    return row


def scaled_torch_rows():
    for ssr in [0.5, 1.75]:
        yield scaled_torch_row("StepLR", ssr, step_size=5, gamma=0.5)
        yield scaled_torch_row("MultiStepLR", ssr, milestones=[5, 8, 13], gamma=0.5)
        yield scaled_torch_row("CosineAnnealingLR", ssr, T_max=15, eta_min=0.1)
        yield scaled_torch_row("ExponentialLR", ssr, gamma=0.9)
        yield scaled_torch_row("LinearLR", ssr)


def lrs_used(make, every_batch=None, epochs=1, batches=6):
    """Returns the learning rate of each batch's update in a real run. make maps an optimizer to schedulers."""
    used = []

    class Watch(Callback):
        def after_train_batch(self, state, logger):
            used.append(state.optimizers[0].param_groups[0]["lr"])

    model = ComposerClassifier(torch.nn.Linear(3, 2), num_classes=2)
    loader = DataLoader(TensorDataset(torch.rand(4 * batches, 3), torch.zeros(4 * batches).long()), 4)
    optimizer = DecoupledSGDW(model.parameters(), lr=1.0)
    trainer = make_trainer(model, loader, max_duration=f"{epochs}ep", callbacks=[Watch()], schedulers=make(optimizer),
                           optimizers=optimizer, step_schedulers_every_batch=every_batch)
    trainer.fit()
    trainer.close()
    return used


def lag_rows():
    """Runs one epoch of 6 batches."""
    yield "LinearScheduler", {}
    yield "CosineAnnealingWithWarmupScheduler", {"t_warmup": "2ba"}
    yield "MultiStepScheduler", {"milestones": ["2ba"]}


def stepped_rows():
    """Runs three epochs of 4 batches. composer runs alone or with a torch scheduler; every_batch is
    step_schedulers_every_batch."""
    linear, samples = ("LinearScheduler", {}), ("LinearScheduler", {"t_max": "48sp"})
    step, cosine = ("StepLR", {"step_size": 2, "gamma": 0.5}), ("CosineAnnealingLR", {"T_max": 12})
    yield from [(linear, None, None), (samples, None, True), (linear, None, False), (None, step, None),
                (None, cosine, True), (linear, step, None)]


def stepped_row(ours, torchs, every_batch):
    def make(optimizer):
        made = [getattr(schedulers, ours[0])(**ours[1])] if ours else []
        return made + ([getattr(torch_schedulers, torchs[0])(optimizer, **torchs[1])] if torchs else [])

    named = lambda pair: {"scheduler": pair[0], "args": pair[1]} if pair else None
    return {"composer": named(ours), "torch": named(torchs), "every_batch": every_batch,
            "lr_used": lrs_used(make, every_batch, epochs=3, batches=4)}


def schedulers_():
    lag = [{"scheduler": kind, "args": args, "lr_used": lrs_used(lambda _: getattr(schedulers, kind)(**args))}
           for kind, args in lag_rows()]
    upstream = [upstream_row(*row) for row in upstream_rows()]
    assert len(upstream) == 46
    write("schedulers", "values: [batch, factor] of a call at that batch. max_duration is as the user gives it; "
          "Composer scales it by ssr (int truncation) before it calls the scheduler. upstream: the rows of mosaicml's "
          "own test. lag: the learning rates (base 1) of the 6 batches of a real run, which Composer reads one step "
          "late (composer_compat); lr_used[k+1] = factor(k), lr_used[0] = factor(0). stepped: the same for 3 epochs of "
          "4 batches of 4 samples, with a Composer scheduler, a torch scheduler or both. scaled_torch: lrs[k] (base 1) when k steps "
          "are done, of a torch scheduler under scale_schedule_ratio.",
          {"batches_per_epoch": BATCHES_PER_EPOCH, "samples_per_batch": SAMPLES_PER_BATCH,
           "tokens_per_batch": TOKENS_PER_BATCH, "rows": list(scheduler_rows()), "upstream": upstream, "lag": lag,
           "stepped": [stepped_row(*row) for row in stepped_rows()], "scaled_torch": list(scaled_torch_rows())})


# --- time -----------------------------------------------------------------------------------------------------------


def parse(text):
    try:
        time = Time.from_timestring(text)
        return {"value": time.value,
                "unit": time.unit.value} if math.isfinite(time.value) else {"value": str(time.value)}
    except Exception as error:
        return {"error": type(error).__name__}


def arithmetic(a, op, b):
    operand = lambda x: Time.from_timestring(x) if isinstance(x, str) else x
    row = {"a": a, "op": op, "b": b}
    try:
        x, y = operand(a), operand(b)
        result = {"+": lambda: x + y, "-": lambda: x - y, "*": lambda: x * y, "/": lambda: x / y, "%": lambda: x % y,
                  "<": lambda: x < y, ">": lambda: x > y, "==": lambda: x == y}[op]()
        row["result"] = result if isinstance(result, bool) else [result.value, result.unit.value]
    except Exception as error:
        row["error"] = type(error).__name__
    return row


def timestamps():
    """Returns every member after each step, in seconds for the wall-clock ones."""
    seconds = lambda n: datetime.timedelta(seconds=n)
    steps = [("batch", 32, 100, 2.0), ("batch", 16, 50, 1.5), ("epoch", 0.25), ("batch", 32, 70, 0.5),
             ("iteration", 0.0),
             ("batch", 8, 0, 1.0), ("epoch", 0.0), ("epoch", 0.0), ("batch", 1, 1, 0.125), ("iteration", 3.0),
             ("batch", 2, 3, 4.0)]
    now, rows = Timestamp(), []
    for step, *args in steps:
        if step == "batch":
            now = now.to_next_batch(samples=args[0], tokens=args[1], duration=seconds(args[2]))
        else:
            now = getattr(now, f"to_next_{step}")(duration=seconds(args[0]))
        after = {k: v.total_seconds() if k.endswith("_wct") else v for k, v in now.state_dict().items()}
        rows.append({"step": step, "args": args, "after": after})
    return rows


def time():
    texts = ["1iter", "10ep", "500ba", "16sp", "1024tok", "0.5dur", "100sec", "0ba", "-5ba", "1e3ba", "1.5e9tok",
             "3E4TOK", "10EP", "10 ba", "  7ba", "2.0ep", "1dur", "0.1DUR", "1e-3dur", "30s", "5m", "1h", "1h30m",
             "1h2m3s", "23h59m59s", "0h0m1s", "2m30s", "0s", "1h5s", "00h05m", "+5ba", ".5dur", "5.ep", "1_000sp",
             "10ba\n", "-0.5dur", "2dur", "9007199254740992tok", "1e3sec", "59m59s",
             "ba", "10xx", "ep10", "1.5ep", "0.5ba", "1e-1sp", "10ba5ep", "ten ba", "nanba", "infba", "1h30", "30s1h",
             "5m1h", "1h1h", "10 epochs", "10 e p", "1__0ba", "_1ba", "1_ba", "0x10ba", "1.5h", "-1h", "1h 30m",
             "10,5ba", "1 000ba", "--5ba", "1e400ba", "ms", "1ms", "1.5sec", "10epba"]
    rows = [{"text": text, **parse(text)} for text in texts]
    # Our values are written by hand, and Composer's are its own; they must differ.
    ours = [("24h", 86400, "sec"), ("90m", 5400, "sec"), ("90s", 90, "sec"), ("1h60m", 7200, "sec"),
            ("100h", 360000, "sec"), ("1d", 86400, "sec"), ("1d12h", 129600, "sec"), ("1H30M", 5400, "sec"),
            ("5S", 5, "sec"), ("10", 10, "ep"), ("1e5", 100000, "ep"), ("5 ", 5, "ep"), ("10ep ", 10, "ep"),
            (" 1h ", 3600, "sec"),
            ("", None, None), ("infdur", None, None), ("nandur", None, None), ("1e400dur", None, None),
            ("1e20tok", None, None), ("0" * 63 + "1ba", None, None), ("\u0661ba", None, None)]
    differ = [{"text": text, "composer": parse(text),
               "ours": {"error": "InvalidArgument"} if unit is None else {"value": value, "unit": unit}}
              for text, value, unit in ours]
    assert all(row["composer"] != row["ours"] for row in differ)
    assert all(("error" in row["composer"]) != ("error" in row["ours"]) for row in differ)
    sums = [("5ep", "+", "3ep"), ("5ep", "-", "3ep"), ("3ep", "-", "5ep"), ("5ep", "+", 2), ("5ep", "-", 7),
            ("0.25dur", "+", "0.5dur"), ("10iter", "+", "5iter"), ("1h", "+", "90sec"),
            ("7ba", "%", "3ba"), ("-7ba", "%", "3ba"), ("7ba", "%", "-3ba"), ("6ba", "%", "3ba"), ("7ba", "%", "0ba"),
            ("0.75dur", "%", "0.5dur"), ("7ba", "%", 4),
            ("4ep", "/", "8ep"), ("-1ba", "/", "4ba"), ("4ep", "/", "0ep"), ("0.5dur", "/", "2dur"),
            ("9ba", "/", 2), ("-9ba", "/", 2), ("49ba", "/", 49), ("9ba", "/", 0.5), ("9ba", "/", 0), ("1dur", "/", 8),
            ("5ep", "*", 0.5), ("-5ep", "*", 0.5), ("5ep", "*", 3), ("100ba", "*", 0.29), ("0.25dur", "*", 3),
            ("5tok", "*", -1),
            ("100ba", "*", "0.33dur"), ("0.33dur", "*", "100ba"), ("0.5dur", "*", "0.5dur"), ("1000sp", "*", "1.5dur"),
            ("5ep", "*", "3ep"), ("5ep", "*", "3ba"),
            ("5ep", "+", "3ba"), ("5ep", "-", "3ba"), ("5ep", "%", "3ba"), ("5ep", "/", "3ba"), ("5ep", "+", "0.5dur"),
            ("5ep", "<", "6ep"), ("5ep", ">", "6ep"), ("5ep", "==", "5ep"), ("5ep", "==", "6ep"), ("5ep", "<", 6),
            ("0.5dur", "<", "0.6dur"), ("5ep", "<", "6ba"), ("1h", ">", "59m")]
    write(
        "time", "valid, invalid: both agree. ours_differ: both results. A bare number beside + - % < counts in the "
        "unit of the other; beside * and / it scales. timestamps: to_next_<step>(args: samples, tokens, seconds for a "
        "batch; seconds for the others) one after the other from zero, and every member after each.",
        {"valid": [r for r in rows if "error" not in r], "invalid": [r for r in rows if "error" in r],
         "ours_differ": differ, "arithmetic": [arithmetic(*s) for s in sums], "timestamps": timestamps()})


# --- metrics --------------------------------------------------------------------------------------------------------


def metric_value(metric, pairs):
    for outputs, target in pairs:
        metric.update(outputs, target)
    return float(metric.compute())


def unrounded_dice(num_classes, pairs):
    """Composer's Dice counts all classes but the first, and rounds to two decimals; this one does not round."""
    metric = Dice(num_classes - 1)
    for outputs, target in pairs:
        metric.update(outputs, target)
    return (100 * metric.dice / metric.n_updates).mean().item()


def segmentation(lcg):
    """Batches of 2, 1 and 3 images. Class 3 is never a target, class 2 is not in every batch, and -1 is ignored."""
    batches = []
    for n, kinds in [(2, 3), (1, 2), (3, 3)]:
        logits = lcg.tensor(n, 4, 3, 5)
        targets = torch.tensor([int((v + 1) / 2 * kinds) for v in lcg.draw(n * 15)]).reshape(n, 3, 5)
        right = lcg.tensor(n, 3, 5) > 0.2
        batches.append((logits, torch.where(right, logits.argmax(1).clamp(max=kinds - 1), targets)))
    ignored = [(l, torch.where(l[:, 0] > 0.8, -1, t)) for l, t in batches]
    f1 = torchmetrics.classification.MulticlassF1Score
    values = {
        "MIoU": metric_value(MIoU(4), ignored),
        "Dice_batch_mean": unrounded_dice(4, batches),
        "Dice_one_batch": unrounded_dice(4, [tuple(torch.cat([b[i] for b in batches]) for i in (0, 1))]),
        "MulticlassF1Score_macro": metric_value(f1(4, average="macro", ignore_index=-1), ignored),
        "MulticlassF1Score_micro": metric_value(f1(4, average="micro", ignore_index=-1), ignored),
        "MulticlassF1Score_weighted": metric_value(f1(4, average="weighted", ignore_index=-1), ignored),
    }
    as_lists = lambda pairs: [{"samples": len(t), "logits": l.flatten().tolist(), "targets": t.flatten().tolist()}
                              for l, t in pairs]
    return {"shape": [4, 3, 5], "batches": as_lists(batches), "batches_with_ignored": as_lists(ignored),
            "values": values}


def binary(lcg):
    batches = [(lcg.tensor(n, 2), torch.tensor([int(v > 0.1) for v in lcg.draw(n)])) for n in [6, 5, 2]]
    values = {"BinaryF1Score": metric_value(BinaryF1Score(), batches),
              "LossMetric_bce_batch_mean": metric_value(LossMetric(binary_cross_entropy_with_logits), batches)}
    return {"batches": [{"logits": l.flatten().tolist(), "targets": t.tolist()} for l, t in batches], "values": values}


def metrics():
    classes, sizes = 10, [5, 5, 2]
    lcg = Lcg(SEED)
    batches = [(lcg.tensor(n, classes) * 3, torch.tensor([int((v + 1) * 5) for v in lcg.draw(n)])) for n in sizes]
    for logits, targets in batches[:2]:  # makes some answers right
        targets[:2] = logits[:2].argmax(dim=1)
    logits, targets = (torch.cat([b[i] for b in batches]) for i in (0, 1))
    accuracy, f1 = torchmetrics.classification.MulticlassAccuracy, torchmetrics.classification.MulticlassF1Score
    ignored = [(l, torch.where(torch.arange(len(t)) % 3 == 1, -100, t)) for l, t in batches]
    values = {
        "MulticlassAccuracy": metric_value(accuracy(classes, average="micro"), batches),
        "MulticlassAccuracy_macro": metric_value(accuracy(classes, average="macro"), batches),
        "MulticlassAccuracy_top3": metric_value(accuracy(classes, average="micro", top_k=3), batches),
        "MaskedAccuracy": metric_value(MaskedAccuracy(), ignored),
        "MulticlassF1Score_macro": metric_value(f1(classes, average="macro"), batches),
        "MulticlassF1Score_weighted": metric_value(f1(classes, average="weighted"), batches),
        "CrossEntropy_batch_mean": metric_value(CrossEntropy(), batches),
        "CrossEntropy_sample_mean": torch.nn.functional.cross_entropy(logits, targets).item(),
        "LanguageCrossEntropy": metric_value(LanguageCrossEntropy(), ignored),
        "LanguagePerplexity": metric_value(LanguagePerplexity(), ignored),
    }
    write("metrics", "batches: logits [samples][classes] row by row and targets, fed one batch after the other. "
          "CrossEntropy_batch_mean is Composer's CrossEntropy (mean of the batches' means); sample_mean is the exact "
          "one. Language* and MaskedAccuracy: target -100 (every index with i % 3 == 1 in its batch) is ignored. "
          "segmentation: logits [samples][shape]; MIoU and MulticlassF1Score are of batches_with_ignored (-1). Dice is "
          "unrounded; num_classes with the background.",
          {"classes": classes,
           "batches": [{"logits": l.flatten().tolist(), "targets": t.tolist()} for l, t in batches], "values": values,
           "segmentation": segmentation(lcg), "binary": binary(lcg)})


# --- losses ---------------------------------------------------------------------------------------------------------


def loss_row(function, logits, targets, **args):
    logits = logits.clone().requires_grad_()
    loss = function(logits, targets)
    loss.backward()
    return {"args": args, "loss": loss.item(), "grad": logits.grad.flatten().tolist()}


def loss_functions():
    lcg = Lcg(SEED)
    logits = lcg.tensor(3, 4, 2, 3)
    indices = torch.tensor([int((v + 1) / 2 * 3) for v in lcg.draw(18)]).reshape(3, 2, 3)
    indices[0, 0, :2] = -1  # no target there
    dense = (lcg.tensor(3, 4, 2, 3) + 1) / 2
    row = lambda targets, **args: loss_row(DiceLoss(**args), logits, targets, **args)
    bce = binary_cross_entropy_with_logits
    write("loss_functions",
          "logits [3, 4, 2, 3]; indices [3, 2, 3], of which -1 is not a target and 3 never occurs; dense: targets "
          "of the logits' shape. grad: of the loss by the logits.",
          {"logits": logits.flatten().tolist(), "indices": indices.flatten().tolist(),
           "dense": dense.flatten().tolist(),
           "bce": {"indices": loss_row(bce, logits, indices), "dense": loss_row(bce, logits, dense)},
           "dice_indices": [row(indices, sigmoid=True), row(indices, softmax=True),
                            row(indices, softmax=True, squared_pred=True), row(indices, sigmoid=True, jaccard=True),
                            row(indices, sigmoid=True, batch=True),
                            row(indices, softmax=True, ignore_absent_classes=True),
                            row(indices, softmax=True, batch=True, ignore_absent_classes=True),
                            row(indices, sigmoid=True, reduction="sum")],
           "dice_dense": [row(dense, sigmoid=True), row(dense, softmax=True, squared_pred=True, jaccard=True)]})


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    torch.set_num_threads(1)
    makers = {"events": golden_loop.events, "optimizers": optimizers, "schedulers": schedulers_, "time": time,
              "learning_rates": golden_loop.learning_rates, "gradients": golden_loop.gradients,
              "losses": golden_loop.losses, "ema": golden_ema.ema, "steps": golden_steps.steps,
              "loss_curves": golden_loop.loss_curves,
              "metrics": metrics, "loss_functions": loss_functions, "profiler_schedule": golden_profiler.schedule,
              "surgery": golden_surgery.surgery, "batches": golden_batches.batches,
              "layers": golden_layers.layers}
    FOLDER.mkdir(parents=True, exist_ok=True)
    for chosen in sys.argv[1:] or makers:
        makers[chosen]()
