#!/usr/bin/env python3
"""Writes tests/golden/hf/: small models of Hugging Face's families with random weights, as transformers saves them, and
what it computes with them.

    /tmp/composer-peers/transformers/bin/python tools/make_hf_goldens.py [NAME …]     transformers 4.57.1, torch 2.7

A folder NAME has config.json, model.safetensors (or its parts) and golden.safetensors: input_ids, attention_mask,
token_type_ids (pixel_values) and labels where the model takes them, logits (or hidden states), loss, the gradient of each parameter as
grad/NAME, and of decoders `generated`, greedy continuations. The loss of decoders is that of labels which are already
shifted; -100 does not count. attention_mask hides the end of the second row.
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
    "mpt": ("MptForCausalLM", "MptConfig",
            dict(vocab_size=VOCAB, d_model=18, n_heads=6, n_layers=2, max_seq_len=16,
                 bos_token_id=1, eos_token_id=2)),
    "vit": ("ViTForImageClassification", "ViTConfig",
            dict(hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=24, image_size=13,
                 patch_size=4, num_channels=2, num_labels=3)),
}
DECODERS = {"gpt2", "llama", "llama_linear", "mistral", "mistral_window", "qwen2", "qwen2_window", "qwen3", "mixtral",
            "mpt"}


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


for each in sys.argv[1:] or FAMILIES:
    make(each)
