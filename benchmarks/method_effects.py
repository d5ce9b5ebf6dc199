"""Bench `method_effects`: what each method of docs/methods does to the quality of a short training. The same run with
and without it, with the same seeds: a small ResNet on Fashion-MNIST or a small GPT on text, the plain jobs of `composer
speedrun` made smaller. One thread. Every finished run is a line of method_effects.jsonl in the folder of the results
and is not repeated; `tools/check_methods.py --write --quality` takes the table into the cards.
SPDX-License-Identifier: Apache-2.0
"""

import json
import resource
import statistics
import tempfile

import programs
from bounded_job import run_to_exit

NAME = "method_effects"
TITLE = "What a method does to the quality of a short run: with and without it, the same seeds"
UNIT, LIMIT_S, SEEDS = "", 1200, (1, 2, 3)
SPEEDRUN = programs.REPOSITORY / "examples" / "speedrun"
# task: job, what makes it small, metric, whether less is better, factor, digits and unit in the table
TASKS = {
    "accuracy of a ResNet": (
        SPEEDRUN / "fashion-plain.yaml", ["model.widths=[16,32,64]", "max_duration=200ba", "eval_interval=1dur",
                                          "~callbacks"],
        "metrics/eval/MulticlassAccuracy", False, 100, 2, " %"),
    "loss of a GPT": (
        SPEEDRUN / "gpt-plain.yaml", ["model.n_layers=2", "model.d_model=64", "max_duration=200ba",
                                      "eval_interval=1dur", "eval_subset_num_batches=10", "~callbacks"],
        "metrics/eval/LanguageCrossEntropy", True, 1, 3, ""),
}
IMAGE, TEXT = TASKS
ABOUT = """Runs of 200 steps where nothing else is said: a ResNet of 16, 32, 64 channels on Fashion-MNIST in batches of
128; a GPT of 2 layers, 64 wide, on the King James Bible byte by byte in batches of 32 x 64. Rates and schedules are
those of the plain jobs of `composer speedrun`, which were tuned; the methods were not. "better" and "worse": all seeds
agree. What needs long trainings (augmentation, dropping, averages) cannot show it here. CPU time with starting and
evaluation.
"""
UNFLIPPED = "train_dataloader.transforms=[to_float,{normalize: {mean: [0.286], std: [0.353]}}]"
DECAY = ["optimizers.name=adamw", "optimizers.weight_decay=0.1"]


def optimizer(name, *keys):
    return ["~optimizers", *(f"+optimizers.{key}" for key in (f"name={name}", *keys))]


MUON = ("lr=0.02", "weight_decay=0", "adamw.lr=3.6e-3", "adamw.betas=[0.9,0.95]", "adamw.weight_decay=0")
# name: task, the algorithm's keys (None: it is not an algorithm), changes of the run with it, changes of both runs
METHODS = {
    "muon": (TEXT, None, optimizer("muon", *MUON), []),
    "normuon": (TEXT, None, optimizer("normuon", *MUON), []),
    "schedule_free_adamw": (TEXT, None, [*optimizer("schedule_free_adamw", "lr=6e-3"), "~schedulers",
                                         "+schedulers.name=constant_with_warmup", "+schedulers.t_warmup=50ba"], []),
    "relu_squared": (TEXT, "", [], []),
    "qk_norm": (TEXT, "", [], []),
    "zero_init": (TEXT, "", [], []),
    "gated_linear_units": (TEXT, "", [], []),
    "value_embeddings": (TEXT, "", [], []),
    "alibi": (TEXT, "max_sequence_length: 64, train_sequence_length_scaling: 1", [], []),
    "cautious_weight_decay": (TEXT, "", [], DECAY),
    "factorize": (TEXT, "min_features: 64, latent_features: 0.25", [], []),
    "gradient_clipping": (TEXT, "clipping_type: norm, clipping_threshold: 1.0", [], []),
    "lawa": (TEXT, "k: 5, interval: 10ba", [], []),
    "logit_soft_cap": (TEXT, "cap: 15", [], []),
    "low_precision_layernorm": (TEXT, "", [], ["precision=amp_bf16"]),
    "progressive_layer_dropping": (TEXT, "", [], []),
    "seq_length_warmup": (TEXT, "max_seq_length: 64", [], []),
    "warmup_stable_decay": (TEXT, None, ["~schedulers", "+schedulers.name=warmup_stable_decay",
                                         "+schedulers.t_warmup=50ba", "+schedulers.t_decay=0.2dur"], []),
    "z_loss": (TEXT, "", [], []),
    "batch_size_warmup": (IMAGE, "duration: 0.3", [], []),
    "blurpool": (IMAGE, "", [], []),
    "colout": (IMAGE, "", [], []),
    "cutmix": (IMAGE, "", [], []),
    "cutout": (IMAGE, "", [], []),
    "ema": (IMAGE, "half_life: 10ba", [], []),
    "ghost_batchnorm": (IMAGE, "", [], []),
    "label_smoothing": (IMAGE, "smoothing: 0.1", [], []),
    "mixup": (IMAGE, "alpha: 0.2", [], []),
    "progressive_resizing": (IMAGE, "", [], []),
    "sam": (IMAGE, "", [], []),
    "selective_backprop": (IMAGE, "", [], []),
    "squeeze_excite": (IMAGE, "min_channels: 16", [], []),
    "stochastic_depth": (IMAGE, "target_layer_name: ResNetBasicBlock, drop_rate: 0.1", [], []),
    "swa": (IMAGE, "update_interval: 10ba", [], []),
    "weight_standardization": (IMAGE, "", [], []),
    "whitening_conv": (IMAGE, "kernel_size: 2", [], []),
    "scale_schedule": (IMAGE, None, ["scale_schedule_ratio=2"], []),
    "alternating_flip": (IMAGE, "", [UNFLIPPED], ["max_duration=2ep"]),
    "layer_freezing": (IMAGE, "", [], ["max_duration=2ep"]),
}


def arms(name):
    """Returns the changes of the job for the run without the method and for the one with it."""
    task, keys, changes, both = METHODS[name]
    algorithm = [] if keys is None else [f"+algorithms=[{{{name}: {{{keys}}}}}]"]
    without = (*TASKS[task][1], *both)
    return without, (*without, *algorithm, *changes)


def cpu_seconds():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def train(binary, task, changes, seed):
    """Returns the line of a finished run."""
    job, _, metric = TASKS[task][:3]
    with tempfile.TemporaryDirectory(prefix="bench-effect-") as folder:
        before = cpu_seconds()
        run_to_exit([binary, "-n", 1, job, f"run_folder={folder}/run", f"seed={seed}", *changes], LIMIT_S,
                    cwd=programs.REPOSITORY, env={"OMP_NUM_THREADS": "1"})
        return {"task": task, "changes": changes, "seed": seed, "cpu_seconds": round(cpu_seconds() - before, 2),
                "value": programs.summary(f"{folder}/run")["metrics"][metric]}


def read(path):
    """Returns {(task, changes, seed): line} of the runs that are finished."""
    lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    return {(line["task"], tuple(line["changes"]), line["seed"]): line for line in lines}


def verdict(differences, less_is_better):
    """Says better or worse only when all seeds do."""
    gains = [-each if less_is_better else each for each in differences]
    return "better" if min(gains) > 0 else "worse" if max(gains) < 0 else "no clear difference"


def row(name, runs):
    """Returns the table's row of a method, or None while a seed lacks a run."""
    task = METHODS[name][0]
    *_, less_is_better, scale, digits, unit = TASKS[task]
    sides = [[runs.get((task, changes, seed)) for seed in SEEDS] for changes in arms(name)]
    if None in sides[0] + sides[1]:
        return None
    values = [[scale * line["value"] for line in side] for side in sides]
    cpu = [sum(line["cpu_seconds"] for line in side) for side in sides]
    differences = [b - a for a, b in zip(*values)]
    means = " | ".join(f"{statistics.mean(side):.{digits}f}{unit}" for side in values)
    each = ", ".join(f"{value:+.{digits}f}" for value in differences)
    return (f"| {name} | {task} | {means} | {each} | {verdict(differences, less_is_better)} | "
            f"{100 * (cpu[1] / cpu[0] - 1):+.0f} % | {', '.join(arms(name)[1][len(TASKS[task][1]):])} |")


def table(_):
    head = ["method", "what", "without", "with", "difference, by seed", "verdict", "CPU time of the run", "changes"]
    lines = [ABOUT, f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    return "\n".join(lines + [each for each in (row(name, finished) for name in sorted(METHODS)) if each])


finished = {}  # of read(), for table()


def run(options):
    path = options.results / f"{NAME}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    finished.update(read(path))
    binary = options.programs.ours("composer")
    failed = {}
    for name, (task, *_) in METHODS.items() if binary else ():
        for key in [(task, changes, seed) for seed in SEEDS for changes in arms(name)]:
            if key in finished:
                continue
            try:
                finished[key] = train(binary, *key)
            except RuntimeError as error:
                failed[name] = str(error)
                break
            with path.open("a") as lines:
                lines.write(json.dumps(finished[key]) + "\n")
        print(f"{NAME}: {failed.get(name) or row(name, finished)}")
    return {}, {"runs": len(finished), **({"failed": failed} if failed else {})}
