"""Makes the goldens of the training loop: events, learning rates used, gradients of weighted microbatches, loss curves.

Called by make_goldens.py. Cases with two ranks run this file as a program under Composer's own launcher (CPU, Gloo):
    composer -n 2 tools/golden_loop.py FOLDER        each rank writes FOLDER/rank<R>.json
SPDX-License-Identifier: Apache-2.0
"""

import contextlib
import functools
import json
import pathlib
import subprocess
import sys
import tempfile
import types

import torch
from composer.core import Callback, DataSpec, Evaluator, Event, Time, Timestamp
from composer.models import ComposerClassifier, ComposerModel
from composer.optim import DecoupledAdamW, DecoupledSGDW
from composer.optim import scheduler as schedulers
from composer.utils import dist
from golden_file import SEED, Lcg, make_trainer, write
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset, DistributedSampler, TensorDataset

# --- two ranks ------------------------------------------------------------------------------------------------------


class Shares(DistributedSampler):
    """Consecutive global batches, each split into one contiguous share per rank: our order, not the interleaved one."""

    def __init__(self, dataset, rank_batch):
        super().__init__(dataset, dist.get_world_size(), dist.get_global_rank(), shuffle=False)
        self.rank_batch = rank_batch

    def __iter__(self):
        for start in range(0, len(self.dataset), self.num_replicas * self.rank_batch):
            begin = start + self.rank * self.rank_batch
            yield from range(begin, begin + self.rank_batch)


def loader(dataset, rank_batch):
    return DataLoader(dataset, rank_batch, sampler=Shares(dataset, rank_batch))


@functools.cache
def two_ranks():
    """Returns what this file's program wrote, by rank."""
    with tempfile.TemporaryDirectory() as folder:
        launcher = pathlib.Path(sys.executable).parent / "composer"
        subprocess.run([launcher, "-n", "2", __file__, folder], check=True, stdout=sys.stderr)
        return [json.loads(pathlib.Path(folder, f"rank{rank}.json").read_text()) for rank in (0, 1)]



# --- events ---------------------------------------------------------------------------------------------------------


class Recorder(Callback):
    """Records every event with its timestamp."""

    def __init__(self):
        self.sequence, self.times, self.iterations = [], [], []

    def run_event(self, event, state, logger):
        now = state.timestamp
        self.sequence.append(event.value)
        self.times.append([now.epoch.value, now.batch.value, now.sample.value, now.batch_in_epoch.value])
        if event == Event.ITERATION_END:
            self.iterations.append([now.iteration.value, now.epoch.value, now.batch.value])


def rows(count):
    return TensorDataset(torch.rand(count, 3), torch.zeros(count).long())


def events_run(name, train, evaluators, iteration_length=None, **kwargs):
    """Runs 2 epochs in microbatches of 2 samples per rank. evaluators is a list of loaders."""
    torch.manual_seed(SEED)
    model = ComposerClassifier(torch.nn.Linear(3, 2), num_classes=2)
    recorder = Recorder()
    settings = dict(max_duration="2ep", device_train_microbatch_size=2, callbacks=[recorder])
    settings["optimizers"] = torch.optim.SGD(model.parameters(), lr=0.01)
    if evaluators:
        settings["eval_dataloader"] = [Evaluator(label=f"eval{i}", dataloader=data, metric_names=["MulticlassAccuracy"])
                                       for i, data in enumerate(evaluators)]
    with tempfile.TemporaryDirectory() as folder:
        folder = dist.all_gather_object(folder)[0] if dist.get_world_size() > 1 else folder
        if "save_interval" in kwargs:
            settings["save_folder"] = folder
            settings["save_filename"] = "ep{epoch}-ba{batch}.pt"
        trainer = make_trainer(model, train, **{**settings, **kwargs})
        trainer.state._iteration_length = iteration_length
        trainer.fit()
        saved = [pathlib.Path(p).name for saver in trainer.state.callbacks
                 for p in getattr(saver, "saved_checkpoints", [])]
        trainer.close()
    counts = {event.value: recorder.sequence.count(event.value) for event in Event}
    evaluated_at = [recorder.times[i][:2] for i, e in enumerate(recorder.sequence) if e == "eval_before_all"]
    run = {"name": name, "settings": {k: str(v) for k, v in kwargs.items()}, "evaluators": len(evaluators),
           "evaluated_at": evaluated_at, "saved": saved, "counts": counts, "sequence": recorder.sequence,
           "times": recorder.times}
    if iteration_length is not None:
        run["settings"]["iteration_length"] = iteration_length
        run["iterations"] = recorder.iterations
    return run


def small_run(name, evaluate, tokens=False, **kwargs):
    """Runs 5 batches of 4 samples per epoch, with an evaluator of 2 batches of 4. With tokens, a sample is a token."""
    train = DataLoader(rows(20), 4)
    if tokens:
        train = DataSpec(train, get_num_tokens_in_batch=len_of_batch)
    return events_run(name, train, [DataLoader(rows(8), 4)] if evaluate else [], **kwargs)


def len_of_batch(batch):
    return len(batch[0])


def table_runs(world):
    """Runs the table of mosaicml's tests/test_events.py with two evaluators: 5 batches of 4 samples a rank, 5 of 8."""
    runs = []
    for interval in ["1ep", "1ba"]:
        run = events_run(f"table_{interval}_world_{world}", loader(rows(20 * world), 4),
                         [loader(rows(40 * world), 8) for _ in range(2)], save_interval=interval,
                         eval_interval=interval)
        runs.append(run | {"world": world})
    return runs


def without(run, *keys):
    return {key: value for key, value in run.items() if key not in keys}


def numbered(run):
    """Returns the sequence as positions in all_events, which takes a quarter of the size."""
    order = {event.value: i for i, event in enumerate(Event)}
    return run | {"sequence": [order[event] for event in run["sequence"]]} if "sequence" in run else run


def events():
    runs = [
        small_run("no_eval", False),
        small_run("eval_1ep", True, eval_interval="1ep"),
        small_run("eval_1ba", True, eval_interval="1ba"),
        small_run("save_1ba", False, save_interval="1ba"),
        small_run("save_1ep", False, save_interval="1ep"),
    ]
    # For these only the times at which something happened are kept.
    for unit in ["2ba", "3ba", "4ba", "2ep", "8sp", "12sp", "0.25dur", "0.3dur", "1dur"]:
        for run in (small_run(f"eval_{unit}", True, eval_interval=unit),
                    small_run(f"save_{unit}", False, save_interval=unit)):
            runs.append(without(run, "sequence", "times", "counts"))
    for limit in ["7ba", "1ep", "26sp", "3ep"]:
        run = small_run(f"limit_{limit}", True, max_duration=limit, eval_interval="2ba", save_interval="1ep")
        runs.append(without(run, "sequence", "times"))
    iterations = [
        small_run("iterations_1ep", True, iteration_length="1ep", save_interval="1iter", eval_interval="1ep"),
        small_run("iterations_2ep", False, iteration_length="2ep", max_duration="5ep", save_interval="1iter"),
        # When shorter than an epoch, no epoch ever ends. When longer, it ends in the middle of one.
        small_run("iterations_12tok", False, tokens=True, iteration_length="12tok", max_duration="8ba"),
        small_run("iterations_24tok", False, tokens=True, iteration_length="24tok", max_duration="14ba",
                  save_interval="1iter"),
        small_run("iterations_20tok", False, tokens=True, iteration_length="20tok", max_duration="10ba",
                  save_interval="2iter"),
        small_run("eval_1iter", True, tokens=True, iteration_length="12tok", max_duration="8ba", eval_interval="1iter"),
        small_run("max_2iter", False, iteration_length="2ep", max_duration="2iter"),
    ]
    ranks = [rank["events"] for rank in two_ranks()]
    assert [without(run, "saved") for run in ranks[0]] == [without(run, "saved") for run in ranks[1]]  # rank 0 saves
    table = [without(run, "times") for run in table_runs(1) + ranks[0]]
    runs, table, iterations = ([numbered(run) for run in part] for part in (runs, table, iterations))
    write(
        "events", "World of 1 unless `world` says otherwise; 5 batches of 4 samples a rank an epoch (2 epochs unless "
        "max_duration says otherwise), microbatches of 2 samples; an evaluator of 2 batches of 4. table: as mosaicml's "
        "tests/test_events.py with two evaluators, each of 5 batches of 8 a rank; on 2 ranks both saw the same. iterations: "
        "state._iteration_length was set; a sample counts as a token where it is in tok; [iteration, epoch, batch] at each "
        "iteration_end. sequence: every event a callback sees, as its position in all_events; times[i]: [epoch, batch, sample, batch_in_epoch] of the "
        "timestamp when it saw sequence[i]; evaluated_at: [epoch, batch] at each eval_before_all; saved: checkpoints in "
        "the order written.",
        {"all_events": [event.value for event in Event], "runs": runs, "table": table, "iterations": iterations})


# --- learning rates -------------------------------------------------------------------------------------------------


def factor_at(scheduler, epoch, batch):
    """Returns the scheduler's value at a point of the run, when called directly."""
    state = types.SimpleNamespace(max_duration=Time(2, "ep"), dataloader_len=Time(5, "ba"),
                                  timestamp=Timestamp(epoch=epoch, batch=batch, sample=4 * batch))
    return scheduler(state, 1.0)


def learning_rates_run(chosen, every_batch=True):
    used = []

    class Watch(Callback):
        def after_train_batch(self, state, logger):
            used.append(state.optimizers[0].param_groups[0]["lr"])

    built = [getattr(schedulers, kind)(**args) for kind, args in chosen]
    model = ComposerClassifier(torch.nn.Linear(3, 2), num_classes=2)
    trainer = make_trainer(model, DataLoader(rows(20), 4), max_duration="2ep", callbacks=[Watch()], schedulers=built,
                           optimizers=DecoupledSGDW(model.parameters(), lr=1.0),
                           step_schedulers_every_batch=every_batch)
    trainer.fit()
    trainer.close()
    factors = [factor_at(s, batch // 5, batch) for batch in range(10) for s in built]
    product = [functools.reduce(lambda a, b: a * b, factors[i * len(built):(i + 1) * len(built)]) for i in range(10)]
    return {"schedulers": [{"name": kind, "args": args} for kind, args in chosen], "every_batch": every_batch,
            "lr_used": used, "factors": product}


def learning_rates():
    cosine = ("CosineAnnealingWithWarmupScheduler", {"t_warmup": "2ba"})
    multi_step = ("MultiStepScheduler", {"milestones": ["2ba", "1ep"]})
    runs = [learning_rates_run([case]) for case in [("LinearScheduler", {}), cosine, multi_step,
                                                    ("LinearWithWarmupScheduler", {"t_warmup": "1ep"}),
                                                    ("StepScheduler", {"step_size": "1ep", "gamma": 0.5})]]
    runs.append(learning_rates_run([("LinearScheduler", {}), multi_step]))
    runs.append(learning_rates_run([("StepScheduler", {"step_size": "1ep", "gamma": 0.5})], every_batch=False))
    write("learning_rates",
          "2 epochs of 5 batches, base rate 1. lr_used: the rate of each batch's update in a real run, "
          "which lags by one batch (composer_compat); factors: what the schedulers, multiplied, answer for each batch when "
          "asked directly. every_batch: step_schedulers_every_batch.", {"runs": runs})


# --- gradients ------------------------------------------------------------------------------------------------------

VOCAB, WIDTH, TOKENS, GLOBAL_BATCH = 11, 6, 5, 10


def fill(module, start, scale):
    """Fills parameters in order, each row by row, from one generator; norms' weights are around 1."""
    lcg = Lcg(start)
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            draws = lcg.tensor(*parameter.shape)
            parameter.copy_(1 + 0.1 * draws if "ln_" in name and name.endswith("weight") else draws * scale)


class TokenModel(ComposerModel):
    """A token's embedding determines the next: the loss is the mean over the targets that are not -100."""

    def __init__(self):
        super().__init__()
        self.embedding, self.head = torch.nn.Embedding(VOCAB, WIDTH), torch.nn.Linear(WIDTH, VOCAB)
        fill(self, 1, 0.3)

    def forward(self, batch):
        return self.head(self.embedding(batch[0]))

    def loss(self, outputs, batch):
        return functional.cross_entropy(outputs.flatten(0, 1), batch[1].flatten())


def token_rows(count):
    """Returns rows that end in 0 to 4 masked targets, so that microbatches and ranks differ in what they count."""
    lcg = Lcg(2)
    inputs = torch.tensor([int((v + 1) / 2 * VOCAB) for v in lcg.draw(count * TOKENS)]).reshape(count, TOKENS)
    targets = (3 * inputs + 1) % VOCAB
    for i, draw in enumerate(lcg.draw(count)):
        targets[i, TOKENS - int((draw + 1) / 2 * TOKENS):] = -100
    return inputs, targets


def count_tokens(batch):
    return {"total": batch[0].numel(), "loss_generating": int((batch[1] != -100).sum())}


def gradients_run(by_tokens, microbatch):
    world = dist.get_world_size()
    gradients, losses = [], []

    class Watch(Callback):
        def after_train_batch(self, state, logger):
            if not gradients:
                gradients.extend(p.grad.flatten().tolist() for p in model.parameters())

        def batch_end(self, state, logger):
            losses.append(float(state.total_loss_dict["loss/train/total"]))

    model = TokenModel()
    data = DataSpec(loader(TensorDataset(*token_rows(3 * GLOBAL_BATCH)), GLOBAL_BATCH // world),
                    get_num_tokens_in_batch=count_tokens)
    trainer = make_trainer(model, data, max_duration="1ep", callbacks=[Watch()],
                           device_train_microbatch_size=microbatch,
                           optimizers=DecoupledSGDW(model.parameters(), lr=0.5),
                           accumulate_train_batch_on_tokens=by_tokens)
    trainer.fit()
    tokens = trainer.state.timestamp.token.value
    trainer.close()
    return {"world": world, "by_tokens": by_tokens, "microbatch": microbatch, "losses": losses, "gradients": gradients,
            "final": [p.detach().flatten().tolist() for p in model.parameters()], "tokens": tokens}


def gradients():
    runs = [gradients_run(by_tokens, microbatch) for by_tokens in (False, True) for microbatch in (10, 4)]
    runs += two_ranks()[0]["gradients"]
    inputs, targets = token_rows(3 * GLOBAL_BATCH)
    write("gradients", "Embedding [11, 6], linear 6 -> 11 (weight, bias), filled from start x = 1 times 0.3; the mean "
          "cross-entropy over targets that are not -100. Global batches of 10 rows in order, each cut into one contiguous "
          "share a rank, in microbatches of `microbatch` (the last is uneven); DecoupledSGDW, lr 0.5. by_tokens: "
          "accumulate_train_batch_on_tokens. gradients: of the first step as the optimizer gets them; losses: each step's; "
          "final: the parameters after 3 steps.",
          {"inputs": inputs.tolist(), "targets": targets.tolist(), "runs": runs})


# --- several losses -------------------------------------------------------------------------------------------------


class LossesModel(ComposerModel):
    """Linear 8 -> 4, whose losses are made of the cross-entropy and the mean square of the logits."""

    def __init__(self, combine):
        super().__init__()
        self.layer, self.combine = torch.nn.Linear(8, 4), combine
        fill(self, 1, 0.3)

    def forward(self, batch):
        return self.layer(batch[0])

    def loss(self, outputs, batch):
        return self.combine(functional.cross_entropy(outputs, batch[1]), outputs.square().mean())


def losses():
    inputs = Lcg(2).tensor(15, 8)
    data = TensorDataset(inputs, inputs[:, :4].argmax(dim=1))
    forms = {
        "scalar": lambda entropy, square: entropy + square,
        "tuple": lambda entropy, square: (entropy, square),
        "map": lambda entropy, square: {"entropy": entropy, "square": square},
        "map_with_total": lambda entropy, square: {"total": entropy + 0.25 * square, "square": square,
                                                   "entropy": entropy},
    }
    runs = []
    for name, combine in forms.items():
        logged = []

        class Watch(Callback):
            def batch_end(self, state, logger):
                logged.append({key: float(value) for key, value in state.total_loss_dict.items()})

        model = LossesModel(combine)
        trainer = make_trainer(model, DataLoader(data, 5), max_duration="1ep", callbacks=[Watch()],
                               device_train_microbatch_size=2, optimizers=DecoupledSGDW(model.parameters(), lr=0.5))
        trainer.fit()
        trainer.close()
        runs.append({"form": name, "logged": logged,
                     "final": [p.detach().flatten().tolist() for p in model.parameters()]})
    write("losses",
          "Linear 8 -> 4 filled from start x = 1 times 0.3; 15 rows of 8 draws from start x = 2, label = index of "
          "the largest of the first 4; 3 batches of 5 in microbatches of 2, 2, 1; DecoupledSGDW, lr 0.5. entropy: the mean "
          "cross-entropy, square: the mean square of the logits. form: what the model returns: scalar entropy + square; the "
          "tuple or map of the two; a map with total = entropy + 0.25 square. logged: each step's.", {"runs": runs})


# --- loss curves ----------------------------------------------------------------------------------------------------


class CurveModel(ComposerModel):
    """A module with the loss of its logits. In amp_bf16 it runs under torch's autocast, since Composer refuses that on
    a CPU."""

    def __init__(self, module, precision):
        super().__init__()
        self.module, self.precision = module, precision

    def autocast(self):
        bf16 = self.precision == "amp_bf16"
        return torch.autocast("cpu", torch.bfloat16) if bf16 else contextlib.nullcontext()

    def forward(self, batch):
        with self.autocast():
            return self.module(batch[0])

    def loss(self, outputs, batch):
        with self.autocast():
            return functional.cross_entropy(outputs.flatten(0, -2), batch[1].flatten())


class Attention(torch.nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv, self.proj = torch.nn.Linear(width, 3 * width), torch.nn.Linear(width, width)

    def forward(self, x):
        batch, context, width = x.shape
        q, k, v = self.qkv(x).view(batch, context, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.proj(y.transpose(1, 2).reshape(batch, context, width))


class FeedForward(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.fc, self.proj = torch.nn.Linear(width, 4 * width), torch.nn.Linear(4 * width, width)

    def forward(self, x):
        return self.proj(functional.gelu(self.fc(x), approximate="tanh"))


class Block(torch.nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.ln_1, self.attn = torch.nn.LayerNorm(width), Attention(width, heads)
        self.ln_2, self.mlp = torch.nn.LayerNorm(width), FeedForward(width)

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class Gpt(torch.nn.Module):
    """The same as trainer/models/gpt.cc with a tied head, module by module."""

    def __init__(self, layers, heads, width, context, vocab):
        super().__init__()
        self.wte, self.wpe = torch.nn.Embedding(vocab, width), torch.nn.Embedding(context, width)
        self.blocks = torch.nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.ln_f = torch.nn.LayerNorm(width)

    def forward(self, tokens):
        x = self.wte(tokens) + self.wpe.weight[:tokens.shape[1]]
        for block in self.blocks:
            x = block(x)
        return functional.linear(self.ln_f(x), self.wte.weight)


GPT = dict(layers=2, heads=2, width=32, context=16, vocab=32)


def mlp_case():
    net = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 64), torch.nn.ReLU(),
                              torch.nn.Linear(64, 10))
    inputs = Lcg(2).tensor(80, 64)
    return net, inputs, inputs[:, :10].argmax(dim=1)


def gpt_case():
    """Sequences that mostly follow next = (5 x + 3) mod 32, else one more, so that most of it can be learnt."""
    lcg, sequences = Lcg(2), []
    for _ in range(80):
        row = [int((lcg.draw(1)[0] + 1) / 2 * 32)]
        for draw in lcg.draw(16):
            row.append((5 * row[-1] + 3 + (draw > 0.6)) % 32)
        sequences.append(row)
    tokens = torch.tensor(sequences)
    return Gpt(**GPT), tokens[:, :-1], tokens[:, 1:]


PROBES, SCALE = 16, {"mlp": 0.125, "gpt": 0.1}
OPTIMIZER = {"name": "DecoupledAdamW", "lr": 3e-3, "betas": [0.9, 0.95], "eps": 1e-8, "weight_decay": 1e-3}


def curve(case, scale, precision):
    """Returns (losses of 50 steps, all weights after them as one vector in float64)."""
    net, inputs, targets = case()
    fill(net, 1, scale)
    if precision == "fp64":
        net, inputs = net.double(), inputs.double() if inputs.is_floating_point() else inputs
    losses = []

    class Watch(Callback):
        def batch_end(self, state, logger):
            losses.append(float(state.total_loss_dict["loss/train/total"]))

    model = CurveModel(net, precision)
    args = {key: OPTIMIZER[key] for key in ("lr", "eps", "weight_decay")}
    optimizer = DecoupledAdamW(model.parameters(), betas=tuple(OPTIMIZER["betas"]), **args)
    trainer = make_trainer(model, DataLoader(TensorDataset(inputs, targets), 16), max_duration="10ep",
                           callbacks=[Watch()], optimizers=optimizer, device_train_microbatch_size=8)
    trainer.fit()
    trainer.close()
    return losses, torch.cat([p.detach().flatten().double() for p in net.parameters()])


def distances(run, other):
    """Returns the largest relative difference of a step's loss, and the norm of the weights' difference relative to
    theirs."""
    loss = max(abs(a - b) / b for a, b in zip(run[0], other[0]))
    return {"loss": loss, "weights": ((run[1] - other[1]).norm() / other[1].norm()).item()}


# A run of ours may be this many times as far from Composer's of the same precision as that is from exact arithmetic. In
# fp32 the sums are the same but in other orders (another torch, another CPU), and 50 steps of Adam drift apart. In
# amp_bf16 two independent roundings are sqrt(2) times as far apart as each is from the truth, and a little more where
# the true gradient is 0 (the bias of attention's keys): Adam makes whole steps of the noise there.
ALLOWED = {"fp32": 20, "amp_bf16": 3}


def loss_curves_of(name, case):
    net, inputs, targets = case()
    fill(net, 1, SCALE[name])
    exact = curve(case, SCALE[name], "fp64")
    lcg = Lcg(SEED)
    probes = [lcg.tensor(len(exact[1])).double() for _ in range(PROBES)]
    runs = []
    for precision in ("fp32", "amp_bf16"):
        run = curve(case, SCALE[name], precision)
        rounding = distances(run, exact)
        runs.append({"precision": precision, "losses": run[0], "norm": run[1].norm().item(),
                     "probes": [(probe @ run[1]).item() for probe in probes], "rounding": rounding,
                     "tolerance": {key: ALLOWED[precision] * value for key, value in rounding.items()}})
    return {"model": name, "scale": SCALE[name], "shapes": [list(p.shape) for p in net.parameters()],
            "initial_norm": torch.cat([p.detach().flatten() for p in net.parameters()]).double().norm().item(),
            "inputs": inputs.tolist() if name == "gpt" else [], "targets": targets.tolist(), "exact_losses": exact[0],
            "runs": runs}


def loss_curves():
    write("loss_curves",
          "50 steps of two models: 80 samples, not shuffled, 10 epochs of 5 batches of 16 in microbatches of "
          "8, constant lr. A generator with state x draws x = (1664525 x + 1013904223) mod 2^32, value (x >> 8) / 2^23 - 1. "
          "Weights: start x = 1, parameters in order, each row by row, draw * scale; the weights of norms 1 + 0.1 draw. mlp: "
          "64-64-64-10 with ReLU; data: start x = 2, 80 x 64 draws; the targets are given. gpt: trainer/models/gpt.h with the "
          "options given; inputs and targets are given. losses: the mean of each batch before its update. exact_losses: all "
          "in float64. rounding: the run's distance from that one: loss, the largest relative difference of a step; weights, "
          "the norm of the difference of all final weights relative to their norm. probes: the final weights' products with "
          "16 vectors of draws, start x = seed, one after the other; the mean square of the differences of two runs' probes, "
          "times 3, estimates the squared norm of the weights' difference. tolerance: what we may differ from the run.",
          {"optimizer": OPTIMIZER, "gpt": GPT,
           "curves": [loss_curves_of("mlp", mlp_case), loss_curves_of("gpt", gpt_case)]})


# --- the program of a rank ------------------------------------------------------------------------------------------


def rank_program(folder):
    if not dist.is_initialized():
        dist.initialize_dist("cpu")
    result = {"events": table_runs(2),
              "gradients": [gradients_run(by_tokens, microbatch) for by_tokens in (False, True)
                            for microbatch in (5, 2)]}
    pathlib.Path(folder, f"rank{dist.get_global_rank()}.json").write_text(json.dumps(result))


if __name__ == "__main__":
    torch.set_num_threads(1)
    rank_program(sys.argv[1])
