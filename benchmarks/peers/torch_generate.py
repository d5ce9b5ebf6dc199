"""Greedy generation with a GPT of random weights in Python, one thread: a plain torch loop over preallocated keys and
values, the same without a cache, and Hugging Face's GPT2LMHeadModel.generate when transformers is available.

    torch_generate.py LAYERS WIDTH HEADS CONTEXT PROMPT NEW ROWS [ROWS...]

Prints one line of JSON for each method and number of rows; the second run is measured. The loop is what one would write
by hand: without masks, since all rows are equally long.
SPDX-License-Identifier: Apache-2.0
"""

import json
import sys
import time

import torch
from torch import nn
from torch.nn import functional

try:
    from transformers import GPT2Config, GPT2LMHeadModel
except ImportError:
    GPT2LMHeadModel = None
VOCAB = 256


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x, cache, begin):
        rows, tokens, width = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(rows, tokens, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        if cache is not None:
            cache[0][:, :, begin:begin + tokens], cache[1][:, :, begin:begin + tokens] = k, v
            k, v = cache[0][:, :, :begin + tokens], cache[1][:, :, :begin + tokens]
        attended = functional.scaled_dot_product_attention(q, k, v, is_causal=tokens > 1)
        x = x + self.out(attended.transpose(1, 2).reshape(rows, tokens, width))
        return x + self.down(functional.gelu(self.up(self.norm2(x)), approximate="tanh"))


class Gpt(nn.Module):
    def __init__(self, layers, width, heads, context):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(VOCAB, width), nn.Embedding(context, width)
        self.blocks = nn.ModuleList([Block(width, heads) for _ in range(layers)])
        self.norm = nn.LayerNorm(width)

    def forward(self, ids, caches, begin):
        x = self.tokens(ids) + self.positions(torch.arange(begin, begin + ids.shape[1]))
        for i, block in enumerate(self.blocks):
            x = block(x, caches and caches[i], begin)
        return self.norm(x[:, -1]) @ self.tokens.weight.t()

    def generate(self, ids, new, use_cache):
        heads, width = self.blocks[0].heads, self.positions.weight.shape[1]
        shape = (len(ids), heads, ids.shape[1] + new, width // heads)
        caches = [(torch.zeros(shape), torch.zeros(shape)) for _ in self.blocks] if use_cache else None
        for n in range(new):
            begin = ids.shape[1] - 1 if use_cache and n > 0 else 0
            token = self(ids[:, begin:], caches, begin).argmax(-1)
            ids = torch.cat([ids, token[:, None]], 1)
        return ids


def ways(layers, width, heads, context, new):
    plain = Gpt(layers, width, heads, context).eval()
    yield "torch loop, cache", lambda ids: plain.generate(ids, new, True)
    yield "torch loop, no cache", lambda ids: plain.generate(ids, new, False)
    if GPT2LMHeadModel is None:
        return
    theirs = GPT2LMHeadModel(GPT2Config(n_layer=layers, n_head=heads, n_embd=width, n_positions=context,
                                        vocab_size=VOCAB, bos_token_id=None, eos_token_id=None)).eval()
    yield "transformers, cache", lambda ids: theirs.generate(input_ids=ids, attention_mask=torch.ones_like(ids),
                                                             do_sample=False, max_new_tokens=new, pad_token_id=0)


def main():
    layers, width, heads, context, prompt, new, *all_rows = map(int, sys.argv[1:])
    torch.set_num_threads(1)
    torch.manual_seed(1)
    with torch.inference_mode():
        for name, generate in ways(layers, width, heads, context, new):
            for rows in all_rows:
                ids = torch.tensor([[(row * 31 + i * 7) % VOCAB for i in range(prompt)] for row in range(rows)])
                for _ in range(2):
                    began, cpu_began = time.perf_counter(), time.process_time()
                    out = generate(ids)
                    seconds, cpu_seconds = time.perf_counter() - began, time.process_time() - cpu_began
                assert out.shape == (rows, prompt + new)
                print(json.dumps({"name": name, "rows": rows, "tokens_per_s": rows * new / seconds,
                                  "tokens_per_cpu_s": rows * new / cpu_seconds}), flush=True)


if __name__ == "__main__":
    main()
