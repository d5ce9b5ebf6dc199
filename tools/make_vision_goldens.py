#!/usr/bin/env python3
"""Writes tests/golden/vision/: small models for pictures with random weights, and what torchvision (and, of the other
two, the classes below) computes with them; and names.json, a digest of the names and shapes of the models in full size.

    /tmp/composer-peers/transformers/bin/python tools/make_vision_goldens.py [NAME …]   torchvision 0.22, torch 2.7,
                                                                                        transformers 4.57.1, timm 1.0

A folder NAME has model.safetensors (of resnet18: model.pth, as torch.save writes it), the state dict, and
golden.safetensors: logits in training, loss, the gradient of each parameter as grad/NAME, the norms' running_var after
that step as after/NAME, and `evaluated`, the logits in evaluation. Pictures and targets follow from their places:
pictures[i] = (7919 i mod 1009) / 504 - 1, labels[i] = i mod classes, pixels[i] = (31 i mod 1009) mod (classes + 1) - 1.
"""
import json
import pathlib
import sys

import timm
import torch
import torchvision
import transformers
from safetensors.torch import save_file
from torch import nn
from torch.nn import functional
from torchvision.models import efficientnet, resnet, segmentation
from torchvision.models.segmentation import deeplabv3

FOLDER = pathlib.Path(__file__).resolve().parent.parent / "tests" / "golden" / "vision"
SEED = 19
CLASSES = 5


class Narrow(resnet.ResNet):
    """torchvision's ResNet with another number of channels."""

    def __init__(self, width, block, *args, **kwargs):
        object.__setattr__(self, "narrow", width)
        super().__init__(block, *args, **kwargs)
        self.fc = nn.Linear(8 * width * block.expansion, CLASSES)

    def __setattr__(self, name, value):
        if name == "inplanes" and "inplanes" not in self.__dict__:
            value = self.narrow
        super().__setattr__(name, value)

    def _make_layer(self, block, planes, *args, **kwargs):
        return super()._make_layer(block, planes * self.narrow // 64, *args, **kwargs)


def narrow_deeplab():
    backbone = Narrow(2, resnet.Bottleneck, [3, 4, 6, 3], replace_stride_with_dilation=[False, True, True])
    backbone = torchvision.models._utils.IntermediateLayerGetter(backbone, {"layer4": "out"})
    head = nn.Sequential(deeplabv3.ASPP(64, [2, 4], 4), nn.Conv2d(4, 4, 3, padding=1, bias=False), nn.BatchNorm2d(4),
                         nn.ReLU(), nn.Conv2d(4, CLASSES, 1))
    head[0].project[3].p = 0.0
    return deeplabv3.DeepLabV3(backbone, head)


def narrow_efficientnet():
    setting, _ = efficientnet._efficientnet_conf("efficientnet_b0", width_mult=0.1, depth_mult=0.3)
    return efficientnet.EfficientNet(setting, dropout=0.0, stochastic_depth_prob=0.0, num_classes=CLASSES)


def norm_relu(channels, momentum=0.1):
    return [nn.BatchNorm2d(channels, momentum=momentum), nn.ReLU()]


def conv(inputs, outputs):
    return nn.Conv2d(inputs, outputs, 3, padding=1, bias=False)


class ResNet9(nn.Module):
    """What Composer's ResNet9 computes, of other widths."""

    def __init__(self, width):
        super().__init__()
        w, basic = width, resnet.BasicBlock
        self.body = nn.Sequential(
            conv(3, w), *norm_relu(w, 0.9), conv(w, 2 * w), *norm_relu(2 * w, 0.9), nn.MaxPool2d(2), basic(2 * w, 2 * w),
            conv(2 * w, 4 * w), *norm_relu(4 * w, 0.9), nn.MaxPool2d(2), conv(4 * w, 4 * w), *norm_relu(4 * w, 0.9),
            nn.MaxPool2d(2), basic(4 * w, 4 * w))
        self.fc = nn.Linear(4 * w, CLASSES)

    def forward(self, x):
        return self.fc(functional.adaptive_avg_pool2d(self.body(x), 1).flatten(1))


class CifarBlock(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False), nn.BatchNorm2d(outputs)
        self.conv2, self.bn2 = conv(outputs, outputs), nn.BatchNorm2d(outputs)
        self.shortcut = nn.Sequential() if stride == 1 else nn.Sequential(
            nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        y = self.bn2(self.conv2(functional.relu(self.bn1(self.conv1(x)))))
        return functional.relu(y + self.shortcut(x))


class CifarNet(nn.Module):
    """What Composer's ResNetCIFAR of 20 layers computes."""

    def __init__(self, width):
        super().__init__()
        self.conv, self.bn = conv(3, width), nn.BatchNorm2d(width)
        sizes = [width] * 4 + [2 * width] * 3 + [4 * width] * 3
        self.blocks = nn.Sequential(*(CifarBlock(a, b, 1 if a == b else 2) for a, b in zip(sizes, sizes[1:])))
        self.fc = nn.Linear(4 * width, CLASSES)

    def forward(self, x):
        x = self.blocks(functional.relu(self.bn(self.conv(x))))
        return self.fc(functional.adaptive_avg_pool2d(x, 1).flatten(1))


class TwoConvs(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.double_conv = nn.Sequential(conv(inputs, outputs), *norm_relu(outputs), conv(outputs, outputs),
                                         *norm_relu(outputs))

    def forward(self, x):
        return self.double_conv(x)


class Down(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.maxpool_conv = nn.Sequential(nn.MaxPool2d(2), TwoConvs(inputs, outputs))

    def forward(self, x):
        return self.maxpool_conv(x)


class Up(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.up, self.conv = nn.ConvTranspose2d(inputs, outputs, 2, 2), TwoConvs(2 * outputs, outputs)

    def forward(self, x, beside):
        x = self.up(x)
        rows, columns = beside.shape[2] - x.shape[2], beside.shape[3] - x.shape[3]
        x = functional.pad(x, [columns // 2, columns - columns // 2, rows // 2, rows - rows // 2])
        return self.conv(torch.cat([beside, x], 1))


class Last(nn.Module):
    def __init__(self, inputs):
        super().__init__()
        self.conv = nn.Conv2d(inputs, CLASSES, 1)

    def forward(self, x):
        return self.conv(x)


class UNet(nn.Module):
    def __init__(self, widths):
        super().__init__()
        self.inc, self.outc, self.levels = TwoConvs(3, widths[0]), Last(widths[0]), len(widths) - 1
        for i in range(self.levels):
            self.add_module(f"down{i + 1}", Down(widths[i], widths[i + 1]))
            self.add_module(f"up{self.levels - i}", Up(widths[i + 1], widths[i]))

    def forward(self, x):
        kept = [self.inc(x)]
        for i in range(self.levels):
            kept.append(getattr(self, f"down{i + 1}")(kept[-1]))
        x = kept.pop()
        for i in range(self.levels):
            x = getattr(self, f"up{i + 1}")(x, kept.pop())
        return self.outc(x)


# Name: the model, the shape of the pictures.
MODELS = {
    "resnet18": (lambda: Narrow(2, resnet.BasicBlock, [2, 2, 2, 2]), (4, 3, 40, 40)),
    "resnet50": (lambda: Narrow(2, resnet.Bottleneck, [3, 4, 6, 3]), (4, 3, 40, 40)),
    "resnet9": (lambda: ResNet9(4), (4, 3, 16, 16)),
    "resnet20": (lambda: CifarNet(2), (4, 3, 16, 16)),
    "efficientnet": (narrow_efficientnet, (4, 3, 64, 64)),
    "deeplabv3": (narrow_deeplab, (2, 3, 33, 41)),
    "unet": (lambda: UNet([4, 6, 8]), (2, 3, 17, 22)),
}
FULL_SIZE = {
    **{f"resnet{n}": (lambda n=n: getattr(torchvision.models, f"resnet{n}")()) for n in (18, 34, 50, 101, 152)},
    "resnext50_32x4d": torchvision.models.resnext50_32x4d,
    "wide_resnet50_2": torchvision.models.wide_resnet50_2,
    "efficientnet_b0": torchvision.models.efficientnet_b0,
    "efficientnet_b4": torchvision.models.efficientnet_b4,
    "deeplabv3_resnet50": lambda: segmentation.deeplabv3_resnet50(weights=None, weights_backbone=None),
    "deeplabv3_resnet101": lambda: segmentation.deeplabv3_resnet101(weights=None, weights_backbone=None),
    "vit_base": lambda: transformers.ViTForImageClassification(transformers.ViTConfig(num_labels=1000)),
}


def digest(state):
    """FNV-1a of the sorted lines "NAME 64x3x7x7"."""
    value = 0xcbf29ce484222325
    for byte in "".join(sorted(f"{name} {'x'.join(map(str, tensor.shape))}\n" for name, tensor in state.items())).encode():
        value = (value ^ byte) * 0x100000001b3 % 2**64
    return f"{value:016x}"


def names():
    digests = {}
    for name, make in FULL_SIZE.items():
        with torch.device("meta"):
            state = make().state_dict()
        digests[name] = digest(state)
        if name.startswith("resnet") and "x" not in name:
            with torch.device("meta"):
                assert digest(timm.create_model(name).state_dict()) == digests[name], name
    content = dict(torchvision=torchvision.__version__, transformers=transformers.__version__, timm=timm.__version__,
                   digests=digests)
    (FOLDER / "names.json").write_text(json.dumps(content, indent=1) + "\n")
    print("names.json", digests)


def make(name):
    build, shape = MODELS[name]
    torch.manual_seed(SEED)
    model = build()
    with torch.no_grad():
        for key, param in model.named_parameters():
            param.add_(torch.randn_like(param) * 0.1)
        for key, buffer in model.named_buffers():
            if key.endswith("running_var"):
                buffer.uniform_(0.5, 1.5)
            elif key.endswith("running_mean"):
                buffer.normal_(0, 0.2)
    folder = FOLDER / name
    folder.mkdir(parents=True, exist_ok=True)
    state = {key: value.clone() for key, value in model.state_dict().items()}
    if name == "resnet18":
        torch.save(state, folder / "model.pth")
    else:
        save_file(state, folder / "model.safetensors")
    count = torch.tensor(shape).prod().item()
    pictures = ((torch.arange(count) * 7919 % 1009).float() / 504 - 1).view(shape)
    pixels = shape[0] * shape[2] * shape[3]
    by_pixel = name in ("deeplabv3", "unet")
    if by_pixel:
        targets = (torch.arange(pixels) * 31 % 1009 % (CLASSES + 1) - 1).view(shape[0], *shape[2:])
    else:
        targets = torch.arange(shape[0]) % CLASSES

    def logits_of():
        output = model(pictures)
        return output["out"] if isinstance(output, dict) else output

    model.eval()
    with torch.no_grad():
        content = dict(evaluated=logits_of())
    model.train()
    logits = content["logits"] = logits_of()
    loss = content["loss"] = functional.cross_entropy(logits, targets, ignore_index=-1)
    loss.backward()
    for key, param in model.named_parameters():
        content["grad/" + key] = param.grad
    for key, buffer in model.named_buffers():
        if key.endswith("running_var"):
            content["after/" + key] = buffer
    content = {key: value.detach().contiguous().clone() for key, value in content.items()}
    save_file(content, folder / "golden.safetensors",
              dict(torchvision=torchvision.__version__, torch=torch.__version__, seed=str(SEED)))
    size = sum(file.stat().st_size for file in folder.iterdir())
    print(f"{name}: {size} bytes, loss {loss.item():.6f}")


if __name__ == "__main__":
    torch.set_num_threads(1)
    FOLDER.mkdir(parents=True, exist_ok=True)
    for each in sys.argv[1:] or [*MODELS, "names"]:
        names() if each == "names" else make(each)
