#!/usr/bin/env python3
"""Writes what the recipe of Stable Diffusion needs, small: pictures of discs and squares with captions, and a folder as diffusers
writes it whose autoencoder is still to be trained. No packages.

    python3 make_folder.py FOLDER [COUNT]

FOLDER/pictures/train: COUNT samples (4096), FOLDER/pictures/test: a sixteenth, as MDS shards: `inputs`, uint8 [3, 16, 16], and
`caption`, such as "a red disc". FOLDER/unet, vae, scheduler: configurations. FOLDER/text_encoder: a CLIP text encoder of random
weights, FOLDER/tokenizer: the words of the captions.
"""
import json
import pathlib
import random
import struct
import sys

SIDE, SUB, WIDTH, LENGTH = 16, 3, 32, 8
COLOURS = {"red": (230, 60, 60), "green": (70, 200, 90), "blue": (80, 120, 240), "white": (240, 240, 240)}
KINDS = ["disc", "square"]
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", *COLOURS, *KINDS]


def picture(draw):
    kind, colour, size = draw.choice(KINDS), draw.choice(list(COLOURS)), draw.uniform(4, 5.5)
    x0, y0 = draw.uniform(6, SIDE - 6), draw.uniform(6, SIDE - 6)

    def covers(x, y):
        return x * x + y * y <= size * size if kind == "disc" else max(abs(x), abs(y)) <= 0.85 * size

    points = [(i + 0.5) / SUB for i in range(SUB)]
    part = [sum(covers(x + dx - x0, y + dy - y0) for dx in points for dy in points) / SUB**2 for y in range(SIDE) for x in range(SIDE)]
    return b"".join(bytes(round(value * covered) for covered in part) for value in COLOURS[colour]), f"a {colour} {kind}".encode()


def write_pictures(folder, count, seed):
    folder.mkdir(parents=True, exist_ok=True)
    draw = random.Random(seed)
    # Columns in alphabetical order; the lengths of those without a fixed size stand in front of a sample.
    samples = []
    for _ in range(count):
        pixels, caption = picture(draw)
        samples.append(struct.pack("<I", len(caption)) + caption + pixels)
    about = dict(column_encodings=["str", f"ndarray:uint8:3,{SIDE},{SIDE}"], column_names=["caption", "inputs"],
                 column_sizes=[None, 3 * SIDE * SIDE], compression=None, format="mds", hashes=[], size_limit=1 << 26)
    header = json.dumps(about, sort_keys=True).encode()
    offsets = [4 + 4 * (count + 1) + len(header)]
    for sample in samples:
        offsets.append(offsets[-1] + len(sample))
    content = struct.pack(f"<{count + 2}I", count, *offsets) + header + b"".join(samples)
    (folder / "shard.00000.mds").write_bytes(content)
    raw = dict(basename="shard.00000.mds", bytes=len(content), hashes={})
    index = dict(version=2, shards=[dict(about, raw_data=raw, samples=count, version=2, zip_data=None)])
    (folder / "index.json").write_text(json.dumps(index, sort_keys=True))


def write_config(folder, name="config.json", **fields):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(json.dumps(fields, indent=2) + "\n")


def write_text_encoder(folder):
    """Random weights tell captions apart; those of a real encoder would also know what they mean."""
    write_config(folder, model_type="clip_text_model", architectures=["CLIPTextModel"], vocab_size=len(WORDS), hidden_size=WIDTH,
                 intermediate_size=2 * WIDTH, num_hidden_layers=1, num_attention_heads=2, max_position_embeddings=LENGTH,
                 hidden_act="gelu", bos_token_id=2, eos_token_id=3, pad_token_id=0)
    layer = "text_model.encoder.layers.0."
    shapes = {"text_model.embeddings.token_embedding.weight": [len(WORDS), WIDTH],
              "text_model.embeddings.position_embedding.weight": [LENGTH, WIDTH]}
    for name in ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.out_proj"):
        shapes |= {f"{layer}{name}.weight": [WIDTH, WIDTH], f"{layer}{name}.bias": [WIDTH]}
    shapes |= {layer + "mlp.fc1.weight": [2 * WIDTH, WIDTH], layer + "mlp.fc1.bias": [2 * WIDTH],
               layer + "mlp.fc2.weight": [WIDTH, 2 * WIDTH], layer + "mlp.fc2.bias": [WIDTH]}
    for name in (layer + "layer_norm1", layer + "layer_norm2", "text_model.final_layer_norm"):
        shapes |= {name + ".weight": [WIDTH], name + ".bias": [WIDTH]}
    draw, tensors, data = random.Random(3), {}, b""
    for name, shape in sorted(shapes.items()):
        count = shape[0] * (shape[1] if len(shape) == 2 else 1)
        if len(shape) == 2:
            scale = 1.0 if "embedding" in name else WIDTH**-0.5
            values = [draw.gauss(0, scale) for _ in range(count)]
        else:
            values = [1.0 if name.endswith("weight") else 0.0] * count
        tensors[name] = dict(dtype="F32", shape=shape, data_offsets=[len(data), len(data) + 4 * count])
        data += struct.pack(f"<{count}f", *values)
    header = json.dumps(tensors).encode()
    header += b" " * (-len(header) % 8)
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + data)


def main():
    folder, count = pathlib.Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 4096
    write_pictures(folder / "pictures" / "train", count, 1)
    write_pictures(folder / "pictures" / "test", count // 16, 2)
    write_config(folder / "vae", _class_name="AutoencoderKL", in_channels=3, out_channels=3, latent_channels=4,
                 block_out_channels=[16, 32], layers_per_block=1, norm_num_groups=8, sample_size=SIDE, scaling_factor=1.0,
                 act_fn="silu", down_block_types=["DownEncoderBlock2D"] * 2, up_block_types=["UpDecoderBlock2D"] * 2)
    write_config(folder / "unet", _class_name="UNet2DConditionModel", in_channels=4, out_channels=4, sample_size=SIDE // 2,
                 block_out_channels=[32, 64], layers_per_block=1, down_block_types=["CrossAttnDownBlock2D", "DownBlock2D"],
                 up_block_types=["UpBlock2D", "CrossAttnUpBlock2D"], attention_head_dim=[2, 4], cross_attention_dim=WIDTH,
                 norm_num_groups=8, use_linear_projection=True, act_fn="silu")
    write_config(folder / "scheduler", "scheduler_config.json", _class_name="DDIMScheduler", num_train_timesteps=1000,
                 beta_schedule="scaled_linear", beta_start=0.00085, beta_end=0.012, prediction_type="epsilon", clip_sample=False,
                 set_alpha_to_one=False, steps_offset=1)
    write_text_encoder(folder / "text_encoder")
    (folder / "tokenizer").mkdir(exist_ok=True)
    (folder / "tokenizer" / "vocab.txt").write_text("\n".join(WORDS) + "\n")


if __name__ == "__main__":
    main()
