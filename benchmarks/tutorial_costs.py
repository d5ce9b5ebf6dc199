#!/usr/bin/env python3
"""What Composer's FSDP tutorial costs: examples/bert-sentiment's model and texts, as a script of the Python Composer and as our YAML, one
process each on the same sentences in the same order: held-out accuracy, sentences per CPU second, CPU seconds until the first step is done,
memory. Losses are compared by bert_sentiment.py.

    python3 examples/bert-sentiment/prepare.py
    PYTHON benchmarks/tutorial_costs.py [--steps 120] [--test 508]    # a Python with mosaicml 0.32, transformers 4.57; writes docs/results/tutorial.md

A side runs three times: one step; one step and the evaluation; all steps and the evaluation. The last two give a step's time by their
difference. CPU time counts since others may use the machine. SPDX-License-Identifier: Apache-2.0
"""
import argparse
import datetime
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

import bert_sentiment

ROOT = pathlib.Path(__file__).resolve().parents[1]
LENGTH, BATCH, LR = 32, 8, 1e-4


def measured(argv, **options):
    """Runs a program on one thread; returns its output, wall and CPU seconds, and the largest process's memory in MB."""
    start = time.monotonic()
    environment = dict(os.environ, OMP_NUM_THREADS="1", MKL_NUM_THREADS="1", TOKENIZERS_PARALLELISM="false")
    with tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen([str(each) for each in argv], stdout=output, stderr=subprocess.STDOUT, env=environment, **options)
        _, status, usage = os.wait4(process.pid, 0)
        output.seek(0)
        text = output.read()
    if status != 0:
        sys.exit(text[-3000:])
    return text, {"wall": time.monotonic() - start, "cpu": usage.ru_utime + usage.ru_stime, "memory": usage.ru_maxrss / 1024}


def job(folder, name, steps, evaluates):
    tables = {"transforms": [{"tokenize": {"key": "text"}}, {"truncate": {"max_length": LENGTH}}, {"rename": {"from": "label", "to": "targets"}}],
              "collate": {"name": "pad"}}
    content = {"run_name": name, "run_folder": str(folder / name), "seed": 1, "composer_compat": True, "model": {"name": "hf", "path": str(folder / "model")},
               "tokenizer": {"name": "hf", "path": str(folder / "model")},
               "train_dataloader": {"name": "jsonl", "path": str(folder / "train.jsonl"), "shuffle": False, **tables}, "global_train_batch_size": BATCH,
               "optimizers": {"name": "decoupled_adamw", "lr": LR, "betas": [0.9, 0.98], "eps": 1e-6, "weight_decay": 1e-5},
               "schedulers": {"name": "linear_with_warmup", "t_warmup": "12ba", "alpha_f": 0.02},
               "algorithms": {"gradient_clipping": {"clipping_type": "norm", "clipping_threshold": 1.0}, "fused_layernorm": {}},
               "callbacks": {"speed_monitor": {"window_size": 20}, "lr_monitor": {}, "memory_monitor": {}}, "max_duration": f"{steps}ba"}
    if evaluates:
        content |= {"eval_dataloader": {"name": "jsonl", "path": str(folder / "test.jsonl"), "batch_size": 32, **tables}, "eval_interval": f"{steps}ba"}
    path = folder / f"{name}.yaml"
    path.write_text(json.dumps(content))
    return path


def ours(folder, steps, evaluates):
    name = f"ours-{steps}-{evaluates}"
    _, costs = measured([ROOT / "build/release/bin/composer", "-n", 1, job(folder, name, steps, evaluates)])
    lines = [json.loads(line) for line in open(folder / name / "metrics.jsonl", encoding="utf-8")]
    values = [line["metrics/eval/MulticlassAccuracy"] for line in lines if "metrics/eval/MulticlassAccuracy" in line]
    return (values[-1] if values else None), costs


def theirs(folder, steps, evaluates):
    text, costs = measured([sys.executable, __file__, "--peer", folder, "--steps", steps, *(["--evaluates"] if evaluates else [])])
    found = re.search(r"accuracy ([\d.]+)", text)
    return (float(found.group(1)) if found else None), costs


def peer(folder, steps, evaluates):
    """The tutorial as a script: what its first user writes."""
    import torch
    import transformers
    from composer import Evaluator, Trainer
    from composer.algorithms import GradientClipping
    from composer.callbacks import LRMonitor, MemoryMonitor, SpeedMonitor
    from composer.models import HuggingFaceModel
    from composer.optim import DecoupledAdamW, LinearWithWarmupScheduler
    from torchmetrics.classification import MulticlassAccuracy
    torch.set_num_threads(1)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder / "model")
    model = transformers.AutoModelForSequenceClassification.from_pretrained(folder / "model", attn_implementation="sdpa")

    def collate(samples):
        rows = tokenizer([sample["text"] for sample in samples], padding=True, truncation=True, max_length=LENGTH, return_tensors="pt")
        return dict(rows, labels=torch.tensor([sample["label"] for sample in samples]))

    def loader(name, batch):
        return torch.utils.data.DataLoader([json.loads(line) for line in open(folder / name, encoding="utf-8")], batch_size=batch, collate_fn=collate)

    metrics = [MulticlassAccuracy(num_classes=2, average="micro")]
    trainer = Trainer(
        model=HuggingFaceModel(model, tokenizer, use_logits=True, metrics=metrics), train_dataloader=loader("train.jsonl", BATCH),
        optimizers=DecoupledAdamW(model.parameters(), lr=LR, betas=(0.9, 0.98), eps=1e-6, weight_decay=1e-5),
        eval_dataloader=Evaluator(label="eval", dataloader=loader("test.jsonl", 32), metric_names=["MulticlassAccuracy"]) if evaluates else None,
        eval_interval=f"{steps}ba", schedulers=LinearWithWarmupScheduler(t_warmup="12ba", alpha_f=0.02), max_duration=f"{steps}ba",
        algorithms=[GradientClipping("norm", 1.0)], callbacks=[SpeedMonitor(window_size=20), LRMonitor(), MemoryMonitor()],
        device="cpu", precision="fp32", progress_bar=False, seed=1)
    trainer.fit()
    if evaluates:
        print("accuracy", float(trainer.state.eval_metrics["eval"]["MulticlassAccuracy"].compute()))


def report(rows, options):
    import composer
    import torch
    import transformers
    lines = ["# The FSDP tutorial beside the Python Composer: what it costs", "",
             f"{datetime.date.today()}, two shared cores (load {os.getloadavg()[0]:.0f}). MiniLM-L6, {options.steps} steps of {BATCH} sentences of at most {LENGTH}",
             f"tokens, fp32, no dropout, one process and thread; {options.test} held-out sentences. Theirs: mosaicml {composer.__version__}, transformers",
             f"{transformers.__version__}, torch {torch.__version__}; ours: LibTorch 2.11. Times are CPU seconds of all processes (wall time is that of a loaded",
             "machine). `benchmarks/tutorial_costs.py` writes this file; the losses are in [bert_sentiment.md](bert_sentiment.md).", "",
             "| | ours | Python Composer | ratio |", "|---|---:|---:|---:|"]
    for label, value, form, better in (("accuracy, held out", "accuracy", ".4f", 0), ("sentences per CPU second", "rate", ".1f", 1),
                                       ("CPU seconds to the end of the first step, with start and end", "start", ".2f", -1),
                                       ("the same, wall", "start_wall", ".1f", -1), ("memory of the largest process, MB", "memory", ".0f", -1)):
        a, b = rows["ours"][value], rows["theirs"][value]
        ratio = f"{a / b if better > 0 else b / a:.2f} x" if better else ""
        lines.append(f"| {label} | {a:{form}} | {b:{form}} | {ratio} |")
    (ROOT / "docs/results/tutorial.md").write_text("\n".join(lines) + "\n")
    print("\n".join(lines))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=120)
    parser.add_argument("--test", type=int, default=508)
    parser.add_argument("--evaluates", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--peer", type=pathlib.Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.peer:
        return peer(options.peer, options.steps, options.evaluates)
    with tempfile.TemporaryDirectory() as name:
        folder, rows = pathlib.Path(name), {}
        bert_sentiment.write_model(folder / "model")
        texts = bert_sentiment.texts(options.steps * BATCH)
        (folder / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in texts), encoding="utf-8")
        held_out = open(bert_sentiment.SOURCE / "test.jsonl", encoding="utf-8").readlines()[:options.test]
        (folder / "test.jsonl").write_text("".join(held_out), encoding="utf-8")
        for side in (ours, theirs):
            _, first = side(folder, 1, False)
            _, one = side(folder, 1, True)
            accuracy, whole = side(folder, options.steps, True)
            rows[side.__name__] = {"accuracy": accuracy, "start": first["cpu"], "start_wall": first["wall"], "memory": whole["memory"],
                                   "rate": (options.steps - 1) * BATCH / (whole["cpu"] - one["cpu"])}
            print(side.__name__, rows[side.__name__], flush=True)
        report(rows, options)


if __name__ == "__main__":
    main()
