#!/usr/bin/env python3
"""A training step of each family beside PyTorch eager with the model of transformers, torchvision or diffusers: CPU milliseconds on one
thread, fp32, fused AdamW on both sides, the programs in turns. Goal: PyTorch / ours >= 1.05. Some fifteen minutes of one core.
  tools/peers_setup.sh && python3 benchmarks/family_step.py [--only NAME,…] [--rounds 3] [--python PATH] [--write]
The Python needs torch 2.11 (LibTorch's version here), transformers 4.57, torchvision 0.26 and diffusers 0.35. --write: docs/results/step_families.md.
SPDX-License-Identifier: Apache-2.0
"""
import argparse
import datetime
import json
import os
import pathlib
import statistics
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[1]
PEERS = pathlib.Path(os.environ.get("COMPOSER_PEERS", "/tmp/composer-peers"))
ENCODER = dict(vocab_size=8192, hidden_size=256, num_hidden_layers=4, num_attention_heads=4, intermediate_size=1024, max_position_embeddings=160,
               hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
DECODER = dict(vocab_size=8192, hidden_size=256, num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=2, intermediate_size=768,
               max_position_embeddings=128, tie_word_embeddings=False)


def text(model_type, architecture, **fields):
    return json.dumps(dict(model_type=model_type, architectures=[architecture], **fields))


# name: the model, samples of a batch, tokens or pixels, steps of a block
FAMILIES = {
    "BERT, masked LM": (text("bert", "BertForMaskedLM", **ENCODER), 8, 128, 4),
    "RoBERTa, classes": (text("roberta", "RobertaForSequenceClassification", **ENCODER), 8, 128, 4),
    "GPT-2": (text("gpt2", "GPT2LMHeadModel", vocab_size=8192, n_positions=128, n_embd=256, n_layer=4, n_head=4, resid_pdrop=0.0, embd_pdrop=0.0,
                   attn_pdrop=0.0), 8, 128, 4),
    "Llama": (text("llama", "LlamaForCausalLM", **DECODER), 8, 128, 4),
    "Mistral": (text("mistral", "MistralForCausalLM", sliding_window=None, **DECODER), 8, 128, 4),
    "Qwen2": (text("qwen2", "Qwen2ForCausalLM", **DECODER), 8, 128, 4),
    "Qwen3": (text("qwen3", "Qwen3ForCausalLM", head_dim=64, **DECODER), 8, 128, 4),
    "Mixtral": (text("mixtral", "MixtralForCausalLM", num_local_experts=4, num_experts_per_tok=2, sliding_window=None, **DECODER), 8, 128, 3),
    "MPT": (text("mpt", "MptForCausalLM", vocab_size=8192, d_model=256, n_heads=4, n_layers=4, max_seq_len=128), 8, 128, 4),
    "CLIP, text": (text("clip_text_model", "CLIPTextModel", vocab_size=8192, hidden_size=256, num_hidden_layers=4, num_attention_heads=4,
                        intermediate_size=1024, max_position_embeddings=128, eos_token_id=1), 8, 128, 4),
    "ViT": (text("vit", "ViTForImageClassification", hidden_size=192, num_hidden_layers=6, num_attention_heads=3, intermediate_size=768,
                 image_size=64, patch_size=8, num_channels=3, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0), 16, 64, 4),
    "ResNet-18": ("resnet18", 8, 64, 4),
    "ResNet-50": ("resnet50", 8, 64, 3),
    "EfficientNet-B0": ("efficientnet", 8, 64, 3),
    "DeepLabV3, ResNet-50": ("deeplabv3", 2, 64, 3),
    "U-Net": ("unet", 4, 64, 3),
    "diffusion U-Net": ("diffusion_unet", 8, 32, 3),
    "autoencoder (VAE)": ("autoencoder", 8, 32, 3),
}
BLOCKS = 3
# What the launcher gives its workers (launcher/workers/worker_environment.cc), and a Python program nobody.
MALLOC = "glibc.malloc.mmap_max=0:glibc.malloc.top_pad=67108864:glibc.malloc.trim_threshold=4294967296:glibc.malloc.hugetlb=1"


def run(argv, model, batch, size, steps, **variables):
    environment = dict(os.environ, OMP_NUM_THREADS="1", MKL_NUM_THREADS="1", **variables)
    found = subprocess.run([*argv, model, str(batch), str(size), str(BLOCKS), str(steps)], capture_output=True, text=True, env=environment)
    if found.returncode:
        raise SystemExit(found.stderr[-2000:])
    return json.loads(found.stdout.strip().splitlines()[-1])["cpu_ms_per_step"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(name.replace(", ", " ") for name in FAMILIES))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--python", default=PEERS / "diffusers/bin/python")
    parser.add_argument("--same-malloc", action="store_true", help="give PyTorch the launcher's GLIBC_TUNABLES, too")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    rows = []
    for name, (model, batch, size, steps) in FAMILIES.items():
        if name.replace(", ", " ") not in options.only.split(","):
            continue
        ours, theirs = [], []
        for _ in range(options.rounds):
            ours += run([ROOT / "build/release/bin/family_step"], model, batch, size, steps, GLIBC_TUNABLES=MALLOC)
            theirs += run([options.python, ROOT / "benchmarks/peers/torch_family.py"], model, batch, size, steps,
                          **(dict(GLIBC_TUNABLES=MALLOC) if options.same_malloc else {}))
        a, b = statistics.median(ours), statistics.median(theirs)
        rows.append(f"| {name} | {batch} x {size} | {a:.1f} ({min(ours):.1f} to {max(ours):.1f}) | {b:.1f} ({min(theirs):.1f} to {max(theirs):.1f}) | "
                    f"{b / a:.2f} | {min(theirs) / min(ours):.2f} |")
        print(rows[-1], flush=True)
    if options.write:
        load = os.getloadavg()[0]
        lines = ["# A step of each family beside PyTorch eager", "",
                 f"{datetime.date.today()}, two shared cores, load {load:.0f} at the end, {options.rounds} rounds of {BLOCKS} blocks in turns. CPU milliseconds a step on one",
                 "thread: median (lowest to highest). Ours is the trainer with a default job's metrics and log and the GLIBC_TUNABLES that the launcher",
                 f"gives its workers; theirs a plain loop{', with the same' if options.same_malloc else ''}. fp32, fused AdamW. `benchmarks/family_step.py --write` writes this table.", "",
                 "| family | batch x tokens or pixels | ours | PyTorch | PyTorch / ours | of the lowest |", "|---|---|---|---|---|---|", *rows]
        (ROOT / "docs/results/step_families.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
