#!/usr/bin/env python3
"""Writes tests/golden/hf/NAME_lora/: adapters of the small models of tools/make_hf_goldens.py as peft saves them, and what peft computes with them.

    /tmp/composer-peers/transformers/bin/python tools/make_lora_goldens.py     peft 0.21, transformers 4.57.1, torch 2.7

A folder has adapter_config.json, adapter_model.safetensors and golden.safetensors: input_ids, labels and masks as in the model's own golden, logits,
and the gradient of each trained parameter as grad/NAME without `base_model.model.`, of the mean cross-entropy.
"""
import pathlib
import shutil
import sys

import peft
import torch
import transformers
from safetensors.torch import load_file, save_file

FOLDER = pathlib.Path(__file__).resolve().parent.parent / "tests" / "golden" / "hf"
PREFIX = "base_model.model."
MODELS = {
    "llama": ("LlamaForCausalLM", dict(r=2, lora_alpha=6, target_modules=["q_proj", "v_proj", "down_proj"])),
    "gpt2": ("GPT2LMHeadModel", dict(r=3, lora_alpha=4, use_rslora=True, target_modules=["c_attn", "c_proj"], fan_in_fan_out=True)),
    "bert": ("BertForSequenceClassification", dict(r=2, lora_alpha=2, target_modules=["query", "value"], modules_to_save=["classifier"])),
}


def make(name):
    kind, fields = MODELS[name]
    torch.manual_seed(5)
    model = getattr(transformers, kind).from_pretrained(FOLDER / name, attn_implementation="eager")
    model = peft.get_peft_model(model, peft.LoraConfig(**fields))
    with torch.no_grad():
        for param in model.parameters():
            if param.requires_grad:
                param.add_(torch.randn_like(param) * 0.1)
    own = load_file(FOLDER / name / "golden.safetensors")
    content = {key: own[key] for key in ("input_ids", "attention_mask", "token_type_ids", "labels") if key in own}
    output = model(**{key: value for key, value in content.items() if key != "labels"})
    content["logits"] = output.logits
    torch.nn.functional.cross_entropy(output.logits.flatten(0, -2), content["labels"].flatten()).backward()
    for param, value in model.named_parameters():
        if value.grad is not None:
            own_name = param.replace(PREFIX, "").replace(".default", "").replace(".modules_to_save", "")
            content["grad/" + own_name] = value.grad
    folder = FOLDER / f"{name}_lora"
    shutil.rmtree(folder, ignore_errors=True)
    model.save_pretrained(folder)
    (folder / "README.md").unlink(missing_ok=True)
    text = (folder / "adapter_config.json").read_text().replace(str(FOLDER), "tests/golden/hf")
    (folder / "adapter_config.json").write_text(text)
    save_file({key: value.detach().contiguous() for key, value in content.items()}, folder / "golden.safetensors")


for wanted in sys.argv[1:] or MODELS:
    make(wanted)
