#!/usr/bin/env python3
"""Writes tests/golden/hf/: small models of Hugging Face's families with random weights, as transformers saves them, and
what it computes with them.

    /tmp/composer-peers/transformers/bin/python tools/make_hf_goldens.py [NAME …]     transformers 4.57.1, torch 2.7

A folder NAME has config.json, model.safetensors (or its parts) and golden.safetensors: input_ids, attention_mask,
token_type_ids (pixel_values) and labels where the model takes them, logits (or hidden states), loss, the gradient of each parameter as
grad/NAME, and of decoders `generated`, greedy continuations. The loss of decoders is that of labels which are already
shifted; -100 does not count. attention_mask hides the end of the second row.

timm_vit is a ViT as timm 1.0 saves it; its gradients have transformers' names. `resized` writes resized.safetensors
beside models that are there: word tables and heads with 9 more rows, by resize_token_embeddings, as after/NAME where
the rows' covariance counts as not positive definite, as drawn/NAME otherwise; logits and loss of the former.
"""
import json
import pathlib
import sys

import torch
import transformers
from safetensors.torch import save_file

FOLDER = pathlib.Path(__file__).resolve().parent.parent / "tests" / "golden" / "hf"
SEED = 17
VOCAB, ROWS, TOKENS = 61, 2, 9

BERT = dict(vocab_size=VOCAB, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=24,
            max_position_embeddings=12, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
LLAMA = dict(vocab_size=VOCAB, hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=2, max_position_embeddings=16, bos_token_id=1, eos_token_id=2)
FAMILIES = {
    "bert": ("BertForSequenceClassification", "BertConfig", dict(BERT, num_labels=3)),
    "bert_regression": ("BertForSequenceClassification", "BertConfig", dict(BERT, num_labels=1)),
    "bert_mlm": ("BertForMaskedLM", "BertConfig", BERT),
    "bert_tokens": ("BertForTokenClassification", "BertConfig", dict(BERT, num_labels=4)),
    "bert_features": ("BertModel", "BertConfig", BERT),
    "clip_text": ("CLIPTextModel", "CLIPTextConfig",
                  dict(vocab_size=VOCAB, hidden_size=16, num_hidden_layers=2, num_attention_heads=2,
                       intermediate_size=24, max_position_embeddings=12, bos_token_id=1, eos_token_id=60,
                       pad_token_id=0)),
    "roberta": ("RobertaForSequenceClassification", "RobertaConfig", dict(BERT, type_vocab_size=1, num_labels=2)),
    "roberta_mlm": ("RobertaForMaskedLM", "RobertaConfig", dict(BERT, type_vocab_size=1)),
    "gpt2": ("GPT2LMHeadModel", "GPT2Config",
             dict(vocab_size=VOCAB, n_positions=16, n_embd=16, n_layer=2, n_head=2, resid_pdrop=0.0, embd_pdrop=0.0,
                  attn_pdrop=0.0, bos_token_id=1, eos_token_id=2)),
    "llama": ("LlamaForCausalLM", "LlamaConfig",
              dict(LLAMA, rope_scaling=dict(rope_type="llama3", factor=4.0, low_freq_factor=1.0, high_freq_factor=4.0,
                                            original_max_position_embeddings=8))),
    "llama_linear": ("LlamaForCausalLM", "LlamaConfig",
                     dict(LLAMA, tie_word_embeddings=True, attention_bias=True, mlp_bias=True,
                          rope_scaling=dict(rope_type="linear", factor=2.0))),
    "mistral": ("MistralForCausalLM", "MistralConfig", dict(LLAMA, head_dim=8, sliding_window=None, pad_token_id=5)),
    "mistral_window": ("MistralForCausalLM", "MistralConfig", dict(LLAMA, sliding_window=3)),
    "qwen2_window": ("Qwen2ForCausalLM", "Qwen2Config",
                     dict(LLAMA, use_sliding_window=True, sliding_window=4, max_window_layers=1)),
    "qwen2": ("Qwen2ForCausalLM", "Qwen2Config",
              dict(LLAMA, rope_scaling=dict(rope_type="yarn", factor=2.0, original_max_position_embeddings=8))),
    "qwen3": ("Qwen3ForCausalLM", "Qwen3Config", dict(LLAMA, head_dim=6, tie_word_embeddings=True)),
    "mixtral": ("MixtralForCausalLM", "MixtralConfig",
                dict(LLAMA, num_local_experts=3, num_experts_per_tok=2, sliding_window=None)),
    "llama_dynamic": ("LlamaForCausalLM", "LlamaConfig",
                      dict(LLAMA, max_position_embeddings=6, rope_scaling=dict(rope_type="dynamic", factor=2.0))),
    "llama_longrope": ("LlamaForCausalLM", "LlamaConfig",
                       dict(LLAMA, original_max_position_embeddings=5,
                            rope_scaling=dict(rope_type="longrope", short_factor=[1.0, 1.5], long_factor=[1.25, 4.0]))),
    "mpt": ("MptForCausalLM", "MptConfig",
            dict(vocab_size=VOCAB, d_model=18, n_heads=6, n_layers=2, max_seq_len=16,
                 bos_token_id=1, eos_token_id=2)),
    "vit": ("ViTForImageClassification", "ViTConfig",
            dict(hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=24, image_size=13,
                 patch_size=4, num_channels=2, num_labels=3)),
}
DECODERS = {"gpt2", "llama", "llama_linear", "llama_dynamic", "llama_longrope", "mistral", "mistral_window", "qwen2", "qwen2_window", "qwen3", "mixtral",
            "mpt"}
RESIZED = ("bert_mlm", "gpt2", "llama", "llama_linear", "mpt")
MORE = 9


def inputs_of(name, model):
    if name == "vit":
        return dict(pixel_values=torch.randn(ROWS, 2, 13, 13))
    ids = torch.randint(3, VOCAB, (ROWS, TOKENS))
    mask = torch.ones_like(ids)
    if name not in DECODERS:
        mask[1, TOKENS - 3:] = 0
    inputs = dict(input_ids=ids, attention_mask=mask)
    if name.startswith("bert"):
        inputs["token_type_ids"] = (torch.arange(TOKENS) > 4).long().repeat(ROWS, 1)
    if name not in DECODERS:
        inputs["input_ids"] = ids.masked_fill(mask == 0, model.config.pad_token_id)
    return inputs


def labels_of(name, model):
    if name in DECODERS or name.endswith("mlm"):
        labels = torch.randint(0, VOCAB, (ROWS, TOKENS))
        labels[0, :3] = -100
        return labels
    if name == "bert_tokens":
        labels = torch.randint(0, 4, (ROWS, TOKENS))
        labels[1, 5:] = -100
        return labels
    if name == "bert_regression":
        return torch.tensor([0.5, -1.25])
    if name in ("bert_features", "clip_text"):
        return None
    return torch.tensor([1, 0])


def make(name):
    kind, config, fields = FAMILIES[name]
    torch.manual_seed(SEED)
    model = getattr(transformers, kind)(getattr(transformers, config)(**fields, attn_implementation="eager"))
    with torch.no_grad():
        for param in model.parameters():
            param.add_(torch.randn_like(param) * 0.15)
    model.tie_weights()
    model.train()
    folder = FOLDER / name
    # Qwen2's is in parts, Mistral's in 16 bits.
    if name == "mistral":
        model.to(torch.bfloat16)
    model.save_pretrained(folder, max_shard_size="8KB" if name == "qwen2" else "5GB")
    if name == "mistral":
        model = type(model).from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").train()
    (folder / "generation_config.json").unlink(missing_ok=True)
    inputs, labels = inputs_of(name, model), labels_of(name, model)
    output = model(**inputs)
    content = dict(inputs)
    if labels is None:
        content |= dict(outputs=output.last_hidden_state, pooler_output=output.pooler_output)
        loss = output.last_hidden_state.square().mean() + output.pooler_output.square().mean()
    else:
        logits = content["logits"] = output.logits
        content["labels"] = labels
        if labels.is_floating_point():
            loss = torch.nn.functional.mse_loss(logits.squeeze(-1), labels)
        else:
            loss = torch.nn.functional.cross_entropy(logits.flatten(0, -2), labels.flatten())
    loss.backward()
    content["loss"] = loss
    for param, value in model.named_parameters():
        if value.grad is not None:
            content["grad/" + param] = value.grad
    if name in DECODERS:
        model.eval()
        with torch.no_grad():
            content["generated"] = model.generate(inputs["input_ids"][:, :5], max_new_tokens=6, do_sample=False,
                                                  eos_token_id=None, pad_token_id=0)[:, 5:]
    content = {key: value.detach().contiguous().clone() for key, value in content.items()}
    save_file(content, folder / "golden.safetensors",
              dict(transformers=transformers.__version__, torch=torch.__version__, seed=str(SEED)))
    size = sum(file.stat().st_size for file in folder.iterdir())
    print(f"{name}: {size} bytes, loss {loss.item():.6f}, {sorted(file.name for file in folder.iterdir())}")


def resize(name):
    kind = getattr(transformers, FAMILIES[name][0])
    positive_definite, content = torch.distributions.constraints.positive_definite, {}
    check = type(positive_definite).check
    for key in ("drawn", "after"):
        torch.manual_seed(SEED)
        model = kind.from_pretrained(FOLDER / name, attn_implementation="eager")
        if key == "after":
            type(positive_definite).check = lambda self, value: torch.zeros(1, dtype=torch.bool)
        model.resize_token_embeddings(VOCAB + MORE)
        type(positive_definite).check = check
        content |= {f"{key}/{param}": value for param, value in model.named_parameters() if value.shape[0] == VOCAB + MORE}
    content["input_ids"] = (torch.arange(ROWS * TOKENS) * 7 % (VOCAB + MORE)).view(ROWS, TOKENS)
    content["labels"] = (torch.arange(ROWS * TOKENS) * 11 % (VOCAB + MORE)).view(ROWS, TOKENS)
    content["logits"] = model(input_ids=content["input_ids"]).logits
    content["loss"] = torch.nn.functional.cross_entropy(content["logits"].flatten(0, -2), content["labels"].flatten())
    content = {key: value.detach().contiguous().clone() for key, value in content.items()}
    save_file(content, FOLDER / name / "resized.safetensors", dict(transformers=transformers.__version__, seed=str(SEED)))
    print(f"{name}: {sorted(content)}")


def transformers_names(name, value):
    """timm's parameter as transformers': name and values, three of qkv."""
    for old, new in (("pos_embed", "vit.embeddings.position_embeddings"), ("cls_token", "vit.embeddings.cls_token"),
                     ("patch_embed.proj", "vit.embeddings.patch_embeddings.projection"), ("head.", "classifier.")):
        name = name.replace(old, new)
    if name.startswith("norm."):
        name = "vit.layernorm." + name[5:]
    for old, new in (("blocks.", "vit.encoder.layer."), ("norm1", "layernorm_before"), ("norm2", "layernorm_after"),
                     ("attn.proj", "attention.output.dense"), ("mlp.fc1", "intermediate.dense"), ("mlp.fc2", "output.dense")):
        name = name.replace(old, new)
    if "attn.qkv" not in name:
        return {name: value}
    return {name.replace("attn.qkv", f"attention.attention.{part}"): third
            for part, third in zip(("query", "key", "value"), value.chunk(3))}


def make_timm(name):
    import timm
    import timm.models._hub
    torch.manual_seed(SEED)
    arguments = dict(img_size=12, patch_size=4, in_chans=2, embed_dim=16, depth=2, num_heads=2, mlp_ratio=1.5)
    model = timm.create_model("vit_tiny_patch16_224", num_classes=3, **arguments)
    with torch.no_grad():
        for param in model.parameters():
            param.add_(torch.randn_like(param) * 0.15)
    timm.models._hub.save_for_hf(model, FOLDER / name, model_args=arguments, safe_serialization=True)
    content = dict(pixel_values=torch.randn(ROWS, 2, 12, 12), labels=torch.tensor([1, 0]))
    content["logits"] = model(content["pixel_values"])
    loss = content["loss"] = torch.nn.functional.cross_entropy(content["logits"], content["labels"])
    loss.backward()
    for param, value in model.named_parameters():
        content |= {"grad/" + own: grad for own, grad in transformers_names(param, value.grad).items()}
    content = {key: value.detach().contiguous().clone() for key, value in content.items()}
    save_file(content, FOLDER / name / "golden.safetensors", dict(timm=timm.__version__, seed=str(SEED)))
    print(f"{name}: loss {loss.item():.6f}, {sorted(file.name for file in (FOLDER / name).iterdir())}")


for each in sys.argv[1:] or [*FAMILIES, "timm_vit", "resized"]:
    if each == "resized":
        for family in RESIZED:
            resize(family)
    elif each == "timm_vit":
        make_timm(each)
    else:
        make(each)
