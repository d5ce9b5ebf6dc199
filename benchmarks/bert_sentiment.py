#!/usr/bin/env python3
"""Fine-tuning a pretrained BERT (examples/bert-sentiment, 2 ranks with FULL_SHARD) beside the Python Composer's Trainer on the same batches: the
losses of every step. Both begin with the same head, have no dropout and compute in float32.

    python3 examples/bert-sentiment/prepare.py
    /tmp/composer-peers/transformers/bin/python benchmarks/bert_sentiment.py      # transformers 4.57, mosaicml 0.32; writes docs/results/bert_sentiment.md

SPDX-License-Identifier: Apache-2.0
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
SOURCE = ROOT / ".deps/sentiment"
CLIP, LR, WARMUP = 1.0, 1e-4, 12


def texts(count):
    """The first texts of each class in turns: batches of both."""
    rows = [json.loads(line) for line in open(SOURCE / "train.jsonl", encoding="utf-8")]
    classes = [[row for row in rows if row["label"] == label] for label in (0, 1)]
    return [row for pair in zip(*classes) for row in pair][:count]


def write_model(folder):
    """The pretrained body with a head that is drawn once, for both sides."""
    import torch
    import transformers
    torch.manual_seed(3)
    model = transformers.BertForSequenceClassification.from_pretrained(SOURCE / "model", num_labels=2, hidden_dropout_prob=0.0,
                                                                       attention_probs_dropout_prob=0.0)
    model.save_pretrained(folder)
    transformers.AutoTokenizer.from_pretrained(SOURCE / "model").save_pretrained(folder)


def python_losses(model_folder, rows, options):
    import torch
    import transformers
    from composer import Callback, Trainer
    from composer.algorithms import GradientClipping
    from composer.models import HuggingFaceModel
    from composer.optim import DecoupledAdamW, LinearWithWarmupScheduler
    torch.set_num_threads(1)
    tokenizer = transformers.AutoTokenizer.from_pretrained(model_folder)
    model = transformers.BertForSequenceClassification.from_pretrained(model_folder, attn_implementation="sdpa")

    def collate(samples):
        ids = [tokenizer(sample["text"])["input_ids"][:options.max_length] for sample in samples]
        length = max(map(len, ids))
        pad = [row + [0] * (length - len(row)) for row in ids]
        mask = [[1] * len(row) + [0] * (length - len(row)) for row in ids]
        return {"input_ids": torch.tensor(pad), "attention_mask": torch.tensor(mask), "labels": torch.tensor([s["label"] for s in samples])}

    class Losses(Callback):
        values = []

        def after_loss(self, state, logger):
            self.values.append(float(state.loss))

    loader = torch.utils.data.DataLoader(rows, batch_size=options.batch, shuffle=False, collate_fn=collate)
    optimizer = DecoupledAdamW(model.parameters(), lr=LR, betas=(0.9, 0.98), eps=1e-6, weight_decay=1e-5)
    trainer = Trainer(model=HuggingFaceModel(model, tokenizer, use_logits=True), train_dataloader=loader, optimizers=optimizer,
                      schedulers=LinearWithWarmupScheduler(t_warmup=f"{WARMUP}ba", alpha_f=0.02), max_duration=f"{options.steps}ba",
                      algorithms=[GradientClipping("norm", CLIP)], callbacks=[Losses()], device="cpu", precision="fp32", progress_bar=False, seed=1)
    trainer.fit()
    return Losses.values


def start_ours(model_folder, data, folder, options):
    job = {"run_name": "bert", "run_folder": str(folder / "run"), "seed": 1, "composer_compat": True,
           "model": {"name": "hf", "path": str(model_folder)}, "tokenizer": {"name": "hf", "path": str(model_folder)},
           "train_dataloader": {"name": "jsonl", "path": str(data), "shuffle": False,
                                "transforms": [{"tokenize": {"key": "text"}}, {"truncate": {"max_length": options.max_length}},
                                               {"rename": {"from": "label", "to": "targets"}}],
                                "collate": {"name": "pad"}},
           "global_train_batch_size": options.batch, "parallelism_config": {"fsdp": {"sharding_strategy": "FULL_SHARD"}},
           "optimizers": {"name": "decoupled_adamw", "lr": LR, "betas": [0.9, 0.98], "eps": 1e-6, "weight_decay": 1e-5},
           "schedulers": {"name": "linear_with_warmup", "t_warmup": f"{WARMUP}ba", "alpha_f": 0.02},
           "algorithms": {"gradient_clipping": {"clipping_type": "norm", "clipping_threshold": CLIP}},
           "max_duration": f"{options.steps}ba", "save_interval": "50ba"}
    (folder / "job.yaml").write_text(json.dumps(job))
    return subprocess.Popen([ROOT / "build/release/bin/composer", "-n", "2", folder / "job.yaml"])


def losses_of(run_folder):
    records = [json.loads(line) for line in open(run_folder / "metrics.jsonl", encoding="utf-8")]
    return [record["loss/train/total"] for record in records if "loss/train/total" in record]


def report(ours, theirs, options):
    import composer
    import torch
    import transformers
    worst = max(abs(a - b) for a, b in zip(ours, theirs))
    rows = [index for index in range(len(ours)) if index in (0, 1, 4) or (index + 1) % 20 == 0]
    lines = ["# Fine-tuning a pretrained BERT beside Python Composer", "",
             f"MiniLM-L6 (22.7 million parameters) on sentences of film reviews, {options.steps} steps of {options.batch} sentences of at most",
             f"{options.max_length} tokens, fp32, no dropout; DecoupledAdamW, linear warm-up, clipping by norm. Ours: 2 ranks, FULL_SHARD,",
             f"`composer_compat: true` (Composer's learning rate is that of one batch earlier). Theirs: mosaicml {composer.__version__}, transformers",
             f"{transformers.__version__}, torch {torch.__version__}, one process. Each side tokenises by itself. `benchmarks/bert_sentiment.py` writes this file.", "",
             f"Largest difference of a step's losses: **{worst:.2e}** (goal: 1e-3); mean {sum(abs(a - b) for a, b in zip(ours, theirs)) / len(ours):.2e}.", "",
             "| step | ours | Python Composer | difference |", "|---:|---:|---:|---:|"]
    lines += [f"| {i + 1} | {ours[i]:.6f} | {theirs[i]:.6f} | {ours[i] - theirs[i]:+.1e} |" for i in rows]
    (ROOT / "docs/results/bert_sentiment.md").write_text("\n".join(lines) + "\n")
    print("\n".join(lines[6:]))
    return worst


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--max-length", type=int, default=32)
    parser.add_argument("--folder", type=pathlib.Path, help="keeps model, data and run there, and continues a run that is there")
    options = parser.parse_args()
    rows = texts(options.steps * options.batch)
    if len(rows) < options.steps * options.batch:
        sys.exit(f"there are only {len(rows)} texts")
    with tempfile.TemporaryDirectory() as name:
        folder = options.folder or pathlib.Path(name)
        data = folder / "train.jsonl"
        if not data.exists():
            folder.mkdir(exist_ok=True)
            write_model(folder / "model")
            data.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        process = start_ours(folder / "model", data, folder, options)
        theirs = python_losses(folder / "model", rows, options)
        if process.wait() != 0:
            sys.exit("composer failed")
        ours = losses_of(folder / "run")
    if len(ours) != options.steps or len(theirs) != options.steps:
        sys.exit(f"{len(ours)} and {len(theirs)} steps")
    sys.exit(report(ours, theirs, options) > 1e-3)


if __name__ == "__main__":
    main()
