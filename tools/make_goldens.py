#!/usr/bin/env python3
"""Writes tests/golden/*.json: what the Python Composer does, as data that our tests compare with.

Run it with the `mosaic` environment of tools/peers_setup.sh (mosaicml 0.32.1, CPU, fp32, 1 thread):
    /tmp/composer-peers/mosaic/bin/python tools/make_goldens.py [name ...]
Every file begins with the versions and the seed that made it and a note on how to read it. Float32 values are written
as the exact double they equal, so a parser that rounds to float gets the same bits. Running it again on
the same machine changes nothing; another CPU may round the last digits of losses and weights differently.
SPDX-License-Identifier: Apache-2.0
"""

import datetime
import logging
import math
import sys
import types
import warnings

import golden_loop
import golden_profiler
import torch
import torchmetrics
from composer.core import Callback, Event, Time, Timestamp
from composer.metrics import CrossEntropy, LanguageCrossEntropy, LanguagePerplexity
from composer.models import ComposerClassifier
from composer.optim import DecoupledAdamW, DecoupledSGDW
from composer.optim import scheduler as schedulers
from golden_file import FOLDER, SEED, Lcg, make_trainer, write
from torch.utils.data import DataLoader, TensorDataset


# --- optimizers -----------------------------------------------------------------------------------------------------


def optimizer_run(kind, lrs, params, grads, **kwargs):
    tensors = [torch.nn.Parameter(p.clone()) for p in params]
    optimizer = kind(tensors, lr=lrs[0], **kwargs)
    after = {}
    for step, lr in enumerate(lrs):
        optimizer.param_groups[0]["lr"] = lr
        for tensor, grad in zip(tensors, grads[step]):
            tensor.grad = grad.clone()
        optimizer.step()
        if step + 1 in (1, 2, 3, 10, len(lrs)):
            after[str(step + 1)] = [t.detach().flatten().tolist() for t in tensors]
    return {"optimizer": kind.__name__, "args": kwargs, "params_after": after}


def optimizers():
    shapes, updates = [[4, 3], [5], [2, 2, 2]], 20
    lcg = Lcg(SEED)
    params = [lcg.tensor(*s) for s in shapes]
    # Magnitudes from 1e-3 to 1, so that eps and the second moment matter.
    grads = [[lcg.tensor(*s) * 10.0 ** -(step % 4) for s in shapes] for step in range(updates)]
    lrs = [0.05 * (1 - step / (2 * updates)) for step in range(updates)]
    run = lambda kind, **kwargs: optimizer_run(kind, lrs, params, grads, **kwargs)
    runs = [
        run(DecoupledAdamW, betas=[0.9, 0.95], eps=1e-8, weight_decay=1e-2),
        run(DecoupledAdamW, betas=[0.9, 0.95], eps=1e-8, weight_decay=0.0),
        run(DecoupledAdamW, betas=[0.9, 0.999], eps=1e-6, weight_decay=1e-2, amsgrad=True),
        run(DecoupledSGDW, momentum=0.0, weight_decay=1e-2),
        run(DecoupledSGDW, momentum=0.9, weight_decay=1e-2),
        run(DecoupledSGDW, momentum=0.9, weight_decay=1e-2, nesterov=True),
        run(DecoupledSGDW, momentum=0.9, dampening=0.1, weight_decay=1e-2),
    ]
    write("optimizers", "Step k (0-based) sets lr = lrs[k], the gradients grads[k], and updates once. initial_lr = "
          "lrs[0]. params_after[n]: the parameters, flat, after n updates.",
          {"shapes": shapes, "lrs": lrs, "params": [p.flatten().tolist() for p in params],
           "grads": [[g.flatten().tolist() for g in step] for step in grads], "runs": runs})


# --- schedulers -----------------------------------------------------------------------------------------------------

BATCHES_PER_EPOCH, SAMPLES_PER_BATCH, TOKENS_PER_BATCH = 1000, 16, 1024


def scheduler_state(max_duration, ssr, batch):
    """What a scheduler reads of composer.State. The trainer scales max_duration by ssr before it calls schedulers."""
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
    # Scaled schedules: a warm-up keeps its length unless scale_warmup; a fraction of the run always scales.
    for args in [dict(t_warmup="100ep"), dict(t_warmup="100ep", scale_warmup=True), dict(t_warmup="0.1dur")]:
        for ssr in [0.5, 2.0]:
            yield scheduler_row(warm, args, ssr=ssr)
    yield scheduler_row("StepScheduler", dict(step_size="200ep", gamma=0.5), ssr=0.5)
    yield scheduler_row("MultiStepScheduler", dict(milestones=["100ep", "500ep"], gamma=0.1), ssr=0.5)
    yield scheduler_row("LinearScheduler", dict(t_max="1000ep"), ssr=2.0)
    yield scheduler_row("ExponentialScheduler", dict(gamma=0.99, decay_period="2ep"), ssr=2.0)
    # Refused: the schedule ends before the run; warm-up and schedule in different units; wall-clock time.
    yield scheduler_row(warm, dict(t_warmup="100ba", t_max="1000ba"), max_duration="2000ba")
    yield scheduler_row(warm, dict(t_warmup="1600sp", t_max="2000ba"), max_duration="2000ba")
    yield scheduler_row("LinearScheduler", dict(t_max="100sec"))


def lrs_used(scheduler, batches):
    """The learning rate of each batch's update in a real run: Composer's lags by one step."""
    used = []

    class Watch(Callback):
        def after_train_batch(self, state, logger):
            used.append(state.optimizers[0].param_groups[0]["lr"])

    model = ComposerClassifier(torch.nn.Linear(3, 2), num_classes=2)
    loader = DataLoader(TensorDataset(torch.rand(4 * batches, 3), torch.zeros(4 * batches).long()), 4)
    trainer = make_trainer(model, loader, max_duration="1ep", callbacks=[Watch()], schedulers=scheduler,
                           optimizers=DecoupledSGDW(model.parameters(), lr=1.0))
    trainer.fit()
    trainer.close()
    return used


def schedulers_():
    lag = [{"scheduler": type(s).__name__, "args": args, "lr_used": lrs_used(s, 6)} for s, args in [
        (schedulers.LinearScheduler(), {}),
        (schedulers.CosineAnnealingWithWarmupScheduler(t_warmup="2ba"), {"t_warmup": "2ba"}),
        (schedulers.MultiStepScheduler(["2ba"]), {"milestones": ["2ba"]}),
    ]]
    write("schedulers", "values: [batch, factor] of a call at that batch. max_duration is as the user gives it; "
          "Composer scales it by ssr (int truncation) before it calls the scheduler. lag: the learning rates (base 1) "
          "of the 6 batches of a real run, which Composer reads one step late (composer_compat); lr_used[k+1] = "
          "factor(k), lr_used[0] = factor(0).",
          {"batches_per_epoch": BATCHES_PER_EPOCH, "samples_per_batch": SAMPLES_PER_BATCH,
           "tokens_per_batch": TOKENS_PER_BATCH, "rows": list(scheduler_rows()), "lag": lag})


# --- time -----------------------------------------------------------------------------------------------------------


def parse(text):
    try:
        time = Time.from_timestring(text)
        return {"value": time.value, "unit": time.unit.value} if math.isfinite(time.value) else {"value": str(time.value)}
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
    """Every member after each step; seconds for the wall-clock ones."""
    seconds = lambda n: datetime.timedelta(seconds=n)
    steps = [("batch", 32, 100, 2.0), ("batch", 16, 50, 1.5), ("epoch", 0.25), ("batch", 32, 70, 0.5), ("iteration", 0.0),
             ("batch", 8, 0, 1.0), ("epoch", 0.0), ("epoch", 0.0), ("batch", 1, 1, 0.125), ("iteration", 3.0), ("batch", 2, 3, 4.0)]
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
             "5m1h", "1h1h", "10 epochs", "10 e p", "1__0ba", "_1ba", "1_ba", "0x10ba", "1.5h", "-1h", "1h 30m", "10,5ba",
             "1 000ba", "--5ba", "1e400ba", "ms", "1ms", "1.5sec", "10epba"]
    rows = [{"text": text, **parse(text)} for text in texts]
    # Ours by hand; Composer's from itself, and it must differ.
    ours = [("24h", 86400, "sec"), ("90m", 5400, "sec"), ("90s", 90, "sec"), ("1h60m", 7200, "sec"),
            ("100h", 360000, "sec"), ("1d", 86400, "sec"), ("1d12h", 129600, "sec"), ("1H30M", 5400, "sec"),
            ("5S", 5, "sec"), ("10", 10, "ep"), ("1e5", 100000, "ep"), ("5 ", 5, "ep"), ("10ep ", 10, "ep"), (" 1h ", 3600, "sec"),
            ("", None, None), ("infdur", None, None), ("nandur", None, None), ("1e400dur", None, None), ("1e20tok", None, None),
            ("0" * 63 + "1ba", None, None), ("\u0661ba", None, None)]
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
            ("5ep", "*", 0.5), ("-5ep", "*", 0.5), ("5ep", "*", 3), ("100ba", "*", 0.29), ("0.25dur", "*", 3), ("5tok", "*", -1),
            ("100ba", "*", "0.33dur"), ("0.33dur", "*", "100ba"), ("0.5dur", "*", "0.5dur"), ("1000sp", "*", "1.5dur"),
            ("5ep", "*", "3ep"), ("5ep", "*", "3ba"),
            ("5ep", "+", "3ba"), ("5ep", "-", "3ba"), ("5ep", "%", "3ba"), ("5ep", "/", "3ba"), ("5ep", "+", "0.5dur"),
            ("5ep", "<", "6ep"), ("5ep", ">", "6ep"), ("5ep", "==", "5ep"), ("5ep", "==", "6ep"), ("5ep", "<", 6),
            ("0.5dur", "<", "0.6dur"), ("5ep", "<", "6ba"), ("1h", ">", "59m")]
    write("time", "valid, invalid: both agree. ours_differ: both results. A bare number beside + - % < counts in the "
          "unit of the other; beside * and / it scales. timestamps: to_next_<step>(args: samples, tokens, seconds for a "
          "batch; seconds for the others) one after the other from zero, and every member after each.",
          {"valid": [r for r in rows if "error" not in r], "invalid": [r for r in rows if "error" in r],
           "ours_differ": differ, "arithmetic": [arithmetic(*s) for s in sums], "timestamps": timestamps()})


# --- metrics --------------------------------------------------------------------------------------------------------


def metrics():
    classes, sizes = 10, [5, 5, 2]
    lcg = Lcg(SEED)
    batches = [(lcg.tensor(n, classes) * 3, torch.tensor([int((v + 1) * 5) for v in lcg.draw(n)])) for n in sizes]
    for logits, targets in batches[:2]:  # some right answers
        targets[:2] = logits[:2].argmax(dim=1)
    logits, targets = (torch.cat([b[i] for b in batches]) for i in (0, 1))

    def run(metric, pairs):
        for outputs, target in pairs:
            metric.update(outputs, target)
        return metric.compute().item()

    accuracy = torchmetrics.classification.MulticlassAccuracy
    ignored = [(l, torch.where(torch.arange(len(t)) % 3 == 1, -100, t)) for l, t in batches]
    values = {
        "MulticlassAccuracy": run(accuracy(classes, average="micro"), batches),
        "MulticlassAccuracy_macro": run(accuracy(classes, average="macro"), batches),
        "MulticlassAccuracy_top3": run(accuracy(classes, average="micro", top_k=3), batches),
        "CrossEntropy_batch_mean": run(CrossEntropy(), batches),
        "CrossEntropy_sample_mean": torch.nn.functional.cross_entropy(logits, targets).item(),
        "LanguageCrossEntropy": run(LanguageCrossEntropy(), ignored),
        "LanguagePerplexity": run(LanguagePerplexity(), ignored),
    }
    write("metrics", "batches: logits [samples][classes] row by row and targets, fed one batch after the other. "
          "CrossEntropy_batch_mean is Composer's CrossEntropy (mean of the batches' means); sample_mean is the exact "
          "one. Language*: target -100 (every index with i % 3 == 1 in its batch) is ignored.",
          {"classes": classes,
           "batches": [{"logits": l.flatten().tolist(), "targets": t.tolist()} for l, t in batches], "values": values})


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    torch.set_num_threads(1)
    makers = {"events": golden_loop.events, "optimizers": optimizers, "schedulers": schedulers_, "time": time,
              "learning_rates": golden_loop.learning_rates, "gradients": golden_loop.gradients,
              "losses": golden_loop.losses, "loss_curves": golden_loop.loss_curves, "metrics": metrics,
              "profiler_schedule": golden_profiler.schedule}
    FOLDER.mkdir(parents=True, exist_ok=True)
    for chosen in sys.argv[1:] or makers:
        makers[chosen]()
