#!/usr/bin/env python3
"""Writes tests/golden/diffusion/: what the Python package diffusers computes with noise schedules (schedules) and with
small conditional U-Nets and autoencoders of random weights; names.json, a digest of names and shapes in full size, the
numbers of parameters and the operations of a forward pass; and pipeline, a small Stable Diffusion 2.

    /tmp/composer-peers/diffusers/bin/python tools/make_diffusion_goldens.py [NAME …]     diffusers 0.35.2, torch 2.11,
                                                       transformers 4.57.1; schedules and U-Nets were made with torch 2.7

schedules.safetensors has for each CASE of SCHEDULES: CASE/alphas [T]; noised and target, of the pictures `pictures` with
the noise `noise` at the steps `steps`; and for DDIM (eta 0 and 0.7) and DDPM of COUNT steps the steps and the pictures
after each, where the model computes x / 2 + 0.1 of each picture x, and DDPM and eta 0.7 add `added` [COUNT, *].

A folder NAME has config.json and diffusion_pytorch_model.safetensors, as save_pretrained writes them, and
golden.safetensors: computed, loss (mean square error to `noise` at `steps`), the gradient of each parameter as
grad/NAME, and `sampled`: DDIM, 5 steps with guidance 3 of the first picture's condition, from `noise`. Inputs follow
from their places, as filled() says. Of an autoencoder they are mean, logvar and decoded (of the sample with the noise
`noise`), loss (mean square error of decoded, plus 0.01 of the mean divergence) and gradients.

pipeline has the folders of StableDiffusionPipeline.save_pretrained, and golden.safetensors: latents and text of the
pictures and tokens, loss and gradients of the U-Net's training on them (epsilon, noise and latent_noise given, the
second text left out), and `sampled`, the first text's picture: 3 steps of DDIM, guidance 3 away from zeros.
"""
import json
import pathlib
import sys

import diffusers
import torch
from diffusers import AutoencoderKL, DDIMScheduler, DDPMScheduler, StableDiffusionPipeline, UNet2DConditionModel
from safetensors.torch import save_file
from torch.nn import functional
from torch.utils.flop_counter import FlopCounterMode
from transformers import CLIPTextConfig, CLIPTextModel, CLIPTokenizer, CLIPTokenizerFast

FOLDER = pathlib.Path(__file__).resolve().parent.parent / "tests" / "golden" / "diffusion"
SEED, COUNT = 23, 7
VERSIONS = dict(diffusers=diffusers.__version__, torch=torch.__version__, seed=str(SEED))

SCHEDULES = {
    "linear": dict(),
    "sd1": dict(beta_schedule="scaled_linear", beta_start=0.00085, beta_end=0.012, clip_sample=False, steps_offset=1,
                set_alpha_to_one=False),
    "sd2": dict(beta_schedule="scaled_linear", beta_start=0.00085, beta_end=0.012, clip_sample=False, steps_offset=1,
                set_alpha_to_one=False, prediction_type="v_prediction"),
    "cosine": dict(beta_schedule="squaredcos_cap_v2", num_train_timesteps=200, clip_sample_range=0.8),
    "sample": dict(prediction_type="sample", timestep_spacing="linspace"),
    "zero_snr": dict(beta_schedule="scaled_linear", prediction_type="v_prediction", rescale_betas_zero_snr=True,
                     timestep_spacing="trailing"),
}


def filled(shape, factor):
    count = torch.Size(shape).numel()
    return ((torch.arange(count) * factor % 1009).float() / 504 - 1).view(shape)


def schedules():
    pictures, noise, added = filled((3, 2, 4, 5), 7919), filled((3, 2, 4, 5), 31), filled((COUNT, 3, 2, 4, 5), 613)
    content = dict(pictures=pictures, noise=noise, added=added, steps=torch.tensor([0, 57, 199]))
    for case, options in SCHEDULES.items():
        ddpm_options = {key: value for key, value in options.items() if key != "set_alpha_to_one"}
        ddpm, ddim = DDPMScheduler(**ddpm_options), DDIMScheduler(**options)
        content[f"{case}/alphas"] = ddpm.alphas_cumprod
        content[f"{case}/noised"] = ddpm.add_noise(pictures, noise, content["steps"])
        target = {"epsilon": noise, "sample": pictures,
                  "v_prediction": ddpm.get_velocity(pictures, noise, content["steps"])}
        content[f"{case}/target"] = target[options.get("prediction_type", "epsilon")]
        for way, scheduler, extra in (("ddim", ddim, dict(eta=0.0)), ("eta", ddim, dict(eta=0.7)), ("ddpm", ddpm, {})):
            scheduler.set_timesteps(COUNT)
            x, after = noise, []
            for i, step in enumerate(scheduler.timesteps):
                if way == "eta":
                    extra = dict(eta=0.7, variance_noise=added[i])
                elif way == "ddpm":
                    diffusers.schedulers.scheduling_ddpm.randn_tensor = lambda *_, i=i, **__: added[i]
                x = scheduler.step(x / 2 + 0.1, step, x, **extra).prev_sample
                after.append(x)
            content[f"{case}/{way}"] = torch.stack(after)
            content[f"{case}/{way}_steps"] = scheduler.timesteps
    content = {key: value.contiguous().clone() for key, value in content.items()}
    save_file(content, FOLDER / "schedules.safetensors", VERSIONS)
    print("schedules", len(content))


# Name: the options, and the shape of the pictures.
MODELS = {
    # Stable Diffusion 2's layout, narrow; sizes that the levels do not divide.
    "text": (dict(block_out_channels=(8, 16, 16), layers_per_block=2, norm_num_groups=4, cross_attention_dim=12,
                  attention_head_dim=(2, 4, 4), use_linear_projection=True,
                  down_block_types=("CrossAttnDownBlock2D", "CrossAttnDownBlock2D", "DownBlock2D"),
                  up_block_types=("UpBlock2D", "CrossAttnUpBlock2D", "CrossAttnUpBlock2D")), (3, 4, 10, 13)),
    # Stable Diffusion 1's projections, two transformers a layer.
    "conv": (dict(block_out_channels=(8, 12), layers_per_block=1, norm_num_groups=4, cross_attention_dim=6,
                  attention_head_dim=2, transformer_layers_per_block=2, in_channels=3, out_channels=3,
                  flip_sin_to_cos=False, freq_shift=1, num_class_embeds=4,
                  down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"),
                  up_block_types=("CrossAttnUpBlock2D", "UpBlock2D")), (3, 3, 8, 8)),
    # Small pictures by class, without text.
    "classes": (dict(block_out_channels=(8, 16), layers_per_block=1, norm_num_groups=4, in_channels=3, out_channels=3,
                     num_class_embeds=4, down_block_types=("DownBlock2D", "DownBlock2D"),
                     mid_block_type="UNetMidBlock2D", up_block_types=("UpBlock2D", "UpBlock2D")), (3, 3, 8, 8)),
}
# Stable Diffusion's autoencoder, narrow, and one without what may be left out.
AUTOENCODERS = {
    "vae": dict(block_out_channels=(8, 12, 16), layers_per_block=1, norm_num_groups=4, sample_size=16,
                down_block_types=("DownEncoderBlock2D",) * 3, up_block_types=("UpDecoderBlock2D",) * 3),
    "vae_bare": dict(block_out_channels=(8,), layers_per_block=2, norm_num_groups=2, sample_size=8, latent_channels=2,
                     in_channels=1, out_channels=1, use_quant_conv=False, use_post_quant_conv=False,
                     mid_block_add_attention=False, scaling_factor=0.5),
}
FULL_SIZE_VAE = dict(block_out_channels=(128, 256, 512, 512), layers_per_block=2, sample_size=768,
                     down_block_types=("DownEncoderBlock2D",) * 4, up_block_types=("UpDecoderBlock2D",) * 4)
FULL_SIZE = {
    "sd1": dict(cross_attention_dim=768),
    "sd2": dict(cross_attention_dim=1024, attention_head_dim=(5, 10, 20, 20), use_linear_projection=True),
}


def digest(state):
    """FNV-1a of the sorted lines "NAME 64x3x7x7"."""
    value = 0xcbf29ce484222325
    for byte in "".join(sorted(f"{name} {'x'.join(map(str, tensor.shape))}\n" for name, tensor in state.items())).encode():
        value = (value ^ byte) * 0x100000001b3 % 2**64
    return f"{value:016x}"


def names():
    content = dict(VERSIONS)
    for name, options in FULL_SIZE.items():
        with torch.device("meta"):
            model = UNet2DConditionModel(sample_size=64, **options)
            content[name] = digest(model.state_dict())
            content[name + "_parameters"] = sum(param.numel() for param in model.parameters())
            with FlopCounterMode(display=False) as counter:
                model(torch.zeros(1, 4, 64, 64), torch.zeros(1), torch.zeros(1, 77, options["cross_attention_dim"]))
        content[name + "_operations"] = counter.get_total_flops()
    with torch.device("meta"):
        model = AutoencoderKL(**FULL_SIZE_VAE)
        content["vae"] = digest(model.state_dict())
        content["vae_parameters"] = sum(param.numel() for param in model.parameters())
        with FlopCounterMode(display=False) as counter:
            model(torch.zeros(1, 3, 768, 768))
    content["vae_operations"] = counter.get_total_flops()
    (FOLDER / "names.json").write_text(json.dumps(content, indent=1) + "\n")
    print("names.json", content)


def make(name):
    options, shape = MODELS[name]
    torch.manual_seed(SEED)
    model = UNet2DConditionModel(sample_size=shape[-1], **options).eval()  # dropout 0
    with torch.no_grad():
        for param in model.parameters():
            param.add_(torch.randn_like(param) * 0.05)
    model.save_pretrained(FOLDER / name)
    pictures, noise, steps = filled(shape, 7919), filled(shape, 31), torch.tensor([0, 517, 999])
    text = filled((3, 5, options.get("cross_attention_dim", 1)), 613) if "cross_attention_dim" in options else None
    labels = torch.tensor([0, 1, 2]) if "num_class_embeds" in options else None
    if "cross_attention_dim" not in options:
        text = torch.zeros(3, 1, 1)  # the model looks at none
    scheduler = DDIMScheduler()
    computed = model(scheduler.add_noise(pictures, noise, steps), steps, text, class_labels=labels).sample
    loss = functional.mse_loss(computed, noise)
    loss.backward()
    content = dict(computed=computed, loss=loss)
    for key, param in model.named_parameters():
        content["grad/" + key] = param.grad
    scheduler.set_timesteps(5)
    x = noise[:1]
    with torch.no_grad():
        for step in scheduler.timesteps:
            none = None if labels is None else torch.tensor([3])
            without = model(x, step, text[:1] * 0, class_labels=none).sample
            given = model(x, step, text[:1], class_labels=None if labels is None else labels[:1]).sample
            x = scheduler.step(without + 3.0 * (given - without), step, x).prev_sample
    content["sampled"] = x
    content = {key: value.detach().contiguous().clone() for key, value in content.items()}
    save_file(content, FOLDER / name / "golden.safetensors", VERSIONS)
    size = sum(file.stat().st_size for file in (FOLDER / name).iterdir())
    print(f"{name}: {size} bytes, loss {loss.item():.6f}, sampled {x.std().item():.4f}")


def make_autoencoder(name):
    torch.manual_seed(SEED)
    model = AutoencoderKL(**AUTOENCODERS[name]).eval()
    with torch.no_grad():
        for param in model.parameters():
            param.add_(torch.randn_like(param) * 0.05)
    model.save_pretrained(FOLDER / name)
    channels = AUTOENCODERS[name].get("in_channels", 3)
    pictures = filled((2, channels, 16, 24), 7919)
    latents = model.encode(pictures).latent_dist
    noise = filled(latents.mean.shape, 31)
    decoded = model.decode(latents.mean + latents.std * noise).sample
    loss = functional.mse_loss(decoded, pictures) + 0.01 * latents.kl().mean() / pictures[0].numel()
    loss.backward()
    content = dict(mean=latents.mean, logvar=latents.logvar, decoded=decoded, loss=loss)
    for key, param in model.named_parameters():
        content["grad/" + key] = param.grad
    content = {key: value.detach().contiguous().clone() for key, value in content.items()}
    save_file(content, FOLDER / name / "golden.safetensors", VERSIONS)
    size = sum(file.stat().st_size for file in (FOLDER / name).iterdir())
    print(f"{name}: {size} bytes, loss {loss.item():.6f}")


WORDS = "a red green blue disc square triangle on black".split()


def small_tokenizer(folder):
    """CLIP's tokenizer with whole words for WORDS, and letters for the rest."""
    letters = [chr(code) for code in range(33, 127)]
    vocab = letters + [letter + "</w>" for letter in letters]
    merges = []
    for word in WORDS:
        parts = list(word[:-1]) + [word[-1] + "</w>"]
        while len(parts) > 1:
            merges.append(f"{parts[0]} {parts[1]}")
            parts = [parts[0] + parts[1], *parts[2:]]
            vocab.append(parts[0])
    vocab = list(dict.fromkeys(vocab)) + ["<|startoftext|>", "<|endoftext|>"]
    merges = list(dict.fromkeys(merges))
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "vocab.json").write_text(json.dumps({token: i for i, token in enumerate(vocab)}))
    (folder / "merges.txt").write_text("#version: 0.2\n" + "\n".join(merges) + "\n")
    return CLIPTokenizer(folder / "vocab.json", folder / "merges.txt", pad_token="!", model_max_length=9)


def pipeline():
    folder = FOLDER / "pipeline"
    torch.manual_seed(SEED)
    tokenizer = small_tokenizer(folder / "tokenizer")
    unet = UNet2DConditionModel(
        sample_size=8, block_out_channels=(8, 12), layers_per_block=1, norm_num_groups=4, cross_attention_dim=12,
        attention_head_dim=(2, 4), use_linear_projection=True, down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"),
        up_block_types=("UpBlock2D", "CrossAttnUpBlock2D")).eval()
    vae = AutoencoderKL(block_out_channels=(4, 8), layers_per_block=1, norm_num_groups=2, sample_size=16,
                        down_block_types=("DownEncoderBlock2D",) * 2, up_block_types=("UpDecoderBlock2D",) * 2).eval()
    text_encoder = CLIPTextModel(CLIPTextConfig(
        vocab_size=len(tokenizer), hidden_size=12, intermediate_size=16, num_hidden_layers=2, num_attention_heads=2,
        max_position_embeddings=9, hidden_act="gelu", bos_token_id=0, eos_token_id=2, pad_token_id=1)).eval()
    with torch.no_grad():
        for model in (unet, vae):
            for param in model.parameters():
                param.add_(torch.randn_like(param) * 0.05)
    scheduler = DDIMScheduler(beta_schedule="scaled_linear", beta_start=0.00085, beta_end=0.012, clip_sample=False,
                              steps_offset=1, set_alpha_to_one=False)
    StableDiffusionPipeline(vae=vae, text_encoder=text_encoder, tokenizer=tokenizer, unet=unet, scheduler=scheduler,
                            safety_checker=None, feature_extractor=None, requires_safety_checker=False
                            ).save_pretrained(folder)
    texts = ["a red disc", "Blue  TRIANGLE on a green, green square on black!"]
    tokens = tokenizer(texts, padding="max_length", max_length=9, truncation=True, return_tensors="pt").input_ids
    fast = CLIPTokenizerFast.from_pretrained(folder / "tokenizer")
    more = ["", " ", "red!", "don't", "a1b22 \u00e9t\u00e9 na\u00efve", "<|endoftext|> x", "\u4e2d\u6587 \u0130", "tab\tand\nline", "(red)--disc...",
            "e\u0301", "\U0001f642 ok", "!!", "A </w> b"]
    (folder / "tokens.json").write_text(json.dumps({text: fast(text).input_ids for text in texts + more}, indent=0))
    pictures = filled((2, 3, 16, 16), 7919)
    latent_noise, noise, steps = filled((2, 4, 8, 8), 613), filled((2, 4, 8, 8), 31), torch.tensor([17, 640])
    with torch.no_grad():
        moments = vae.encode(pictures).latent_dist
        latents = (moments.mean + moments.std * latent_noise) * vae.config.scaling_factor
        text = text_encoder(tokens)[0]
    given = text * torch.tensor([1.0, 0.0]).view(2, 1, 1)
    computed = unet(scheduler.add_noise(latents, noise, steps), steps, given).sample
    loss = functional.mse_loss(computed, noise)
    loss.backward()
    content = dict(tokens=tokens, latents=latents, text=text, loss=loss)
    for key, param in unet.named_parameters():
        content["grad/" + key] = param.grad
    scheduler.set_timesteps(3)
    x = noise[:1]
    with torch.no_grad():
        for step in scheduler.timesteps:
            without, guided = unet(x, step, text[:1] * 0).sample, unet(x, step, text[:1]).sample
            x = scheduler.step(without + 3.0 * (guided - without), step, x).prev_sample
        content["sampled"] = vae.decode(x / vae.config.scaling_factor).sample
    content = {key: value.detach().contiguous().clone() for key, value in content.items()}
    save_file(content, folder / "golden.safetensors", VERSIONS)
    size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
    print(f"pipeline: {size} bytes, loss {loss.item():.6f}, sampled {content['sampled'].std().item():.4f}")


if __name__ == "__main__":
    torch.set_num_threads(1)
    FOLDER.mkdir(parents=True, exist_ok=True)
    for each in sys.argv[1:] or ["schedules", "names", "pipeline", *MODELS, *AUTOENCODERS]:
        way = make_autoencoder if each in AUTOENCODERS else make
        {"schedules": schedules, "names": names, "pipeline": pipeline}.get(each, lambda: way(each))()
