"""Pictures: files decoded, and every operation on pixels, by PIL and torchvision; AugMix and RandAugment by mosaicml.
SPDX-License-Identifier: Apache-2.0
"""

import base64
import io
from unittest import mock

import composer.functional as cf
import numpy as np
import PIL
import torchvision
import torchvision.transforms.functional as tv
from composer.algorithms.utils import augmentation_primitives as primitives
from PIL import Image, ImageEnhance, ImageOps
from PIL.Image import Resampling, Transform

from golden_file import SEED, write

RANDOM = np.random.RandomState(SEED)


def text(image):
    return base64.b64encode(np.asarray(image).tobytes()).decode()


def picture(height=19, width=23, channels=3):
    """Waves with noise, not from 0 to 255, so that stretching changes something."""
    y, x, c = np.mgrid[0:height, 0:width, 0:channels]
    waves = 120 + 70 * np.sin(x / 3 + c) * np.cos(y / 4 - c) + RANDOM.randint(-25, 25, (height, width, channels))
    values = np.clip(waves, 0, 255).astype(np.uint8)
    return Image.fromarray(values[:, :, 0] if channels == 1 else values)


def encoded(image, **how):
    file = io.BytesIO()
    image.save(file, **how)
    return file.getvalue()


def file_case(name, file):
    image = Image.open(io.BytesIO(file))
    size = {"height": image.size[1], "width": image.size[0]}
    return {"name": name, "file": base64.b64encode(file).decode(), **size, "rgb": text(image.convert("RGB"))}


def files():
    rgb, grey = picture(27, 33), picture(27, 33, 1)
    deep = Image.fromarray(RANDOM.randint(0, 65536, (9, 11)).astype(np.uint16))
    jpeg = {"format": "JPEG", "quality": 90}
    return [
        file_case("jpeg_420", encoded(rgb, **jpeg, subsampling="4:2:0")),
        file_case("jpeg_422", encoded(rgb, **jpeg, subsampling="4:2:2")),
        file_case("jpeg_444", encoded(rgb, **jpeg, subsampling="4:4:4")),
        file_case("jpeg_progressive", encoded(rgb, **jpeg, progressive=True)),
        file_case("jpeg_grey", encoded(grey, **jpeg)),
        file_case("jpeg_cmyk", encoded(rgb.convert("CMYK"), **jpeg)),
        file_case("png_rgb", encoded(rgb, format="PNG")),
        file_case("png_grey", encoded(grey, format="PNG")),
        file_case("png_grey_alpha", encoded(picture(9, 11, 2), format="PNG")),
        file_case("png_rgba", encoded(picture(9, 11, 4), format="PNG")),
        file_case("png_palette", encoded(rgb.quantize(13), format="PNG")),
        file_case("png_bits", encoded(grey.convert("1"), format="PNG")),
        {**file_case("png_deep_grey", encoded(deep, format="PNG")),
         "rgb": text(Image.fromarray((np.asarray(deep) >> 8).astype(np.uint8)).convert("RGB"))},
    ]


def operations(image):
    size, w, h = image.size, *image.size
    affine = lambda *m: image.transform(size, Transform.AFFINE, m, resample=Resampling.BILINEAR)
    enhanced = lambda kind, factor: kind(image).enhance(factor)
    yield "autocontrast", [], ImageOps.autocontrast(image)
    yield "equalize", [], ImageOps.equalize(image)
    for bits in [0, 1, 3, 8]:
        yield "posterize", [bits], ImageOps.posterize(image, bits)
    for threshold in [0, 77, 256]:
        yield "solarize", [threshold], ImageOps.solarize(image, threshold)
    for degrees in [0, 1, -17, 30]:
        yield "rotate", [degrees], image.rotate(degrees, resample=Resampling.BILINEAR)
    for slope in [0.21, -0.3]:
        yield "shear_x", [slope], affine(1, slope, 0, 0, 1, 0)
        yield "shear_y", [slope], affine(1, 0, 0, slope, 1, 0)
    for pixels in [5, -3]:
        yield "translate_x", [pixels], affine(1, 0, pixels, 0, 1, 0)
        yield "translate_y", [pixels], affine(1, 0, 0, 0, 1, pixels)
    for factor in [0, 0.1, 0.73, 1, 1.9, 8.7]:
        yield "color", [factor], enhanced(ImageEnhance.Color, factor)
        yield "contrast", [factor], enhanced(ImageEnhance.Contrast, factor)
        yield "brightness", [factor], enhanced(ImageEnhance.Brightness, factor)
        yield "sharpness", [factor], enhanced(ImageEnhance.Sharpness, factor)
    for part in [0.5, -0.31, 0.1, 0]:
        yield "hue", [part], tv.adjust_hue(image, part)
    for to in [(8, 10), (19, 40), (60, 23), (1, 1), (37, 51)]:
        yield "resize", list(to), tv.resize(image, list(to))
    yield "crop", [3, 5, 9, 11], tv.crop(image, 3, 5, 9, 11)
    yield "resized_crop", [3, 5, 9, 11, 16, 16], tv.resized_crop(image, 3, 5, 9, 11, [16, 16])
    for degrees in [17.3, -44.0, 123.4]:
        yield "rotate_nearest", [degrees], tv.rotate(image, degrees)
    for how in [(30.0, [3, -2], 1.3, [5.0, 0.0]), (-12.5, [0, 0], 0.7, [0.0, 0.0]), (0.0, [4, 1], 1.21, [0.0, 0.0]),
                (8.0, [0, 0], 1.0, [-20.0, 11.0])]:
        flat = [how[0], *how[1], how[2], *how[3]]
        yield "affine_nearest", flat, tv.affine(image, *how)
        yield "affine_bilinear", flat, tv.affine(image, *how, interpolation=tv.InterpolationMode.BILINEAR)
    corners = [[0, 0], [w - 1, 0], [w - 1, h - 1], [0, h - 1]]
    for places in [[[3, 1], [20, 4], [21, 15], [0, 17]], [[0, 5], [22, 0], [17, 18], [5, 12]]]:
        flat = [value for place in places for value in place]
        yield "perspective_nearest", flat, tv.perspective(image, corners, places, tv.InterpolationMode.NEAREST)
        yield "perspective_bilinear", flat, tv.perspective(image, corners, places)
    yield "invert", [], tv.invert(image)
    for size, sigma in [(3, 0.7), (5, 1.9)]:
        yield "gaussian_blur", [size, sigma], tv.gaussian_blur(image, [size, size], [sigma, sigma])
    yield "grey", [], image.convert("L")


def operation_cases():
    cases = []
    for channels in [3, 1]:
        image = picture(channels=channels)
        cases.append({"name": "picture", "height": 19, "width": 23, "channels": channels, "pixels": text(image)})
        cases += [{"name": name, "arguments": arguments, "height": result.size[1], "width": result.size[0],
                   "pixels": text(result)} for name, arguments, result in operations(image)]
    return cases


class Draws:
    """Gives numpy's draws and remembers them; a choice is kept as its index and a half."""

    def __init__(self, seed):
        self.random = np.random.RandomState(seed)
        self.uniforms, self.weights = [], []

    def uniform(self, low=0.0, high=1.0):
        self.uniforms.append(self.random.uniform(low, high))
        return self.uniforms[-1]

    def randint(self, low, high):
        value = self.random.randint(low, high)
        self.uniforms.append(value + 0.5)
        return value

    def choice(self, options):
        return options[self.randint(0, len(options))]

    def dirichlet(self, alpha):
        self.weights.append(self.random.dirichlet(alpha))
        return self.weights[-1]

    def beta(self, a, b):
        self.weights.append(self.random.beta(a, b))
        return self.weights[-1]

    def __enter__(self):
        names = {"uniform": self.uniform, "random": self.uniform, "randint": self.randint, "choice": self.choice,
                 "dirichlet": self.dirichlet, "beta": self.beta}
        self.patch = mock.patch.multiple(np.random, **names)
        self.patch.start()
        return self

    def __exit__(self, *_):
        self.patch.stop()


def augmented():
    cases = []
    for channels in [3, 1]:
        image = picture(channels=channels)
        base = {"height": 19, "width": 23, "channels": channels, "image": text(image)}
        for i, (kind, severity, depth) in enumerate([("all", 3, -1), ("all", 10, 2), ("safe", 9, -1),
                                                     ("original", 5, 1), ("all", 0, 3)]):
            chosen = primitives.augmentation_sets[kind]
            how = {**base, "set": kind, "severity": severity, "depth": depth}
            with Draws(SEED + i) as draws:
                result = cf.augmix_image(image, severity, depth, 3, 1.0, chosen)
            cases.append({"name": "augmix", **how, "width_of_mix": 3, "uniforms": draws.uniforms,
                          "chain_weights": list(draws.weights[0]), "mixing_weight": draws.weights[1],
                          "result": text(result)})
            with Draws(SEED + 100 + i) as draws:
                result = cf.randaugment_image(image, severity, abs(depth) * 4, chosen)
            cases.append({"name": "randaugment", **{**how, "depth": abs(depth) * 4}, "uniforms": draws.uniforms,
                          "result": text(result)})
    return cases


def main():
    write("images", "tools/golden_images.py", {
        "pillow": PIL.__version__, "torchvision": torchvision.__version__,
        "files": files(), "operations": operation_cases(), "augmented": augmented()})


if __name__ == "__main__":
    main()
