"""torch_family.py MODEL BATCH SIZE BLOCKS STEPS: a plain PyTorch loop over a model of transformers or torchvision, one thread, fp32,
fused AdamW; prints what benchmarks/family_step.cc prints.
SPDX-License-Identifier: Apache-2.0
"""
import json
import sys
import time

import torch

CLASSES = 10


def text_run(config, samples, size):
    import transformers
    kind = getattr(transformers, config["architectures"][0])
    fields = {key: value for key, value in config.items() if key not in ("architectures", "model_type")}
    model = kind(transformers.AutoConfig.for_model(config["model_type"], **fields))
    if config["model_type"] == "vit":
        inputs, targets = torch.randn(samples, 3, size, size), torch.randint(2, (samples,))
    else:
        ids = torch.randint(3, config["vocab_size"], (samples, size + 1))
        labels = config["architectures"][0].endswith("ForSequenceClassification")
        inputs, targets = ids[:, :-1].contiguous(), torch.randint(2, (samples,)) if labels else ids[:, 1:].contiguous()

    def loss(x, y):
        if config["model_type"] == "clip_text_model":  # a model of features has no loss
            return model(x).last_hidden_state.square().mean()
        logits = model(x).logits
        return torch.nn.functional.cross_entropy(logits.flatten(0, -2), y.flatten())

    return model, inputs, targets, loss


def diffusion_run(name, samples, size):
    import diffusers
    pictures = torch.randn(samples, 3, size, size)
    if name == "autoencoder":
        model = diffusers.AutoencoderKL(block_out_channels=(32, 64), layers_per_block=2, sample_size=size,
                                        down_block_types=["DownEncoderBlock2D"] * 2, up_block_types=["UpDecoderBlock2D"] * 2)

        def loss(x, _):
            moments = model.encode(x).latent_dist
            return torch.nn.functional.mse_loss(model.decode(moments.sample()).sample, x) + 1e-6 * moments.kl().mean() / x[0].numel()

        return model, pictures, torch.zeros(samples), loss
    model = diffusers.UNet2DConditionModel(sample_size=size, in_channels=3, out_channels=3, block_out_channels=(64, 128), layers_per_block=2,
                                           down_block_types=("DownBlock2D",) * 2, mid_block_type="UNetMidBlock2D",
                                           up_block_types=("UpBlock2D",) * 2)
    noise = diffusers.DDPMScheduler()

    def loss(x, _):
        drawn, steps = torch.randn_like(x), torch.randint(1000, (len(x),))
        return torch.nn.functional.mse_loss(model(noise.add_noise(x, drawn, steps), steps, None).sample, drawn)

    return model, pictures, torch.zeros(samples), loss


class UNet(torch.nn.Module):
    """Two convolutions a level, max pooling down, transposed convolutions up."""

    def __init__(self, widths):
        super().__init__()
        pairs = list(zip(widths, widths[1:]))

        def convs(inputs, outputs):
            layers = []
            for each in (inputs, outputs):
                layers += [torch.nn.Conv2d(each, outputs, 3, padding=1, bias=False), torch.nn.BatchNorm2d(outputs), torch.nn.ReLU(inplace=True)]
            return torch.nn.Sequential(*layers)

        self.inc, self.outc, self.pool = convs(3, widths[0]), torch.nn.Conv2d(widths[0], CLASSES, 1), torch.nn.MaxPool2d(2)
        self.down = torch.nn.ModuleList(convs(a, b) for a, b in pairs)
        self.up = torch.nn.ModuleList(torch.nn.ConvTranspose2d(b, a, 2, 2) for a, b in reversed(pairs))
        self.join = torch.nn.ModuleList(convs(2 * a, a) for a, b in reversed(pairs))

    def forward(self, x):
        kept = [self.inc(x)]
        for down in self.down:
            kept.append(down(self.pool(kept[-1])))
        x = kept.pop()
        for up, join in zip(self.up, self.join):
            x = join(torch.cat([kept.pop(), up(x)], 1))
        return self.outc(x)


def picture_run(name, samples, size):
    if name in ("autoencoder", "diffusion_unet"):
        return diffusion_run(name, samples, size)
    import torchvision
    makers = {"efficientnet": torchvision.models.efficientnet_b0, "resnet18": torchvision.models.resnet18, "resnet50": torchvision.models.resnet50,
              "unet": lambda num_classes: UNet((32, 64, 128, 256)),
              "deeplabv3": lambda num_classes: torchvision.models.segmentation.deeplabv3_resnet50(weights_backbone=None, num_classes=num_classes)}
    model = makers[name](num_classes=CLASSES)
    dense = name == "deeplabv3"
    targets = torch.randint(CLASSES, (samples, size, size) if name in ("deeplabv3", "unet") else (samples,))
    return model, torch.randn(samples, 3, size, size), targets, lambda x, y: torch.nn.functional.cross_entropy(model(x)["out"] if dense else model(x), y)


def main():
    torch.set_num_threads(1)
    torch.manual_seed(1)
    name, (batch, size, blocks, steps) = sys.argv[1], map(int, sys.argv[2:6])
    model, inputs, targets, loss = (text_run(json.loads(name), batch * 4, size) if name.startswith("{") else picture_run(name, batch * 4, size))
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=1e-5, fused=True)
    batches = list(zip(inputs.split(batch), targets.split(batch)))

    def run(count):
        start, cpu = time.perf_counter(), time.process_time()
        for i in range(count):
            x, y = batches[i % len(batches)]
            optimizer.zero_grad()
            loss(x, y).backward()
            optimizer.step()
        return 1e3 * (time.process_time() - cpu) / count, 1e3 * (time.perf_counter() - start) / count

    run(2)
    times = [run(steps) for _ in range(blocks)]
    print(json.dumps({"cpu_ms_per_step": [t[0] for t in times], "ms_per_step": [t[1] for t in times]}))


main()
