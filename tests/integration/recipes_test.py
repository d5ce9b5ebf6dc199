"""Every job of examples/recipes is valid: names, keys, values, and the model against its algorithms; each twin trains.
Small stand-ins take the place of the data of those that need their own. SPDX-License-Identifier: Apache-2.0"""
import json
import math
import shutil
import struct
import subprocess
import sys
import unittest
import zlib

import harness

RECIPES = sorted((harness.ROOT / "examples" / "recipes").glob("*.yaml"))


def picture():
    """A red PNG of 8 x 8."""
    def chunk(kind, body):
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
    rows = (b"\0" + b"\xff\0\0" * 8) * 8
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 8, 8, 8, 2, 0, 0, 0))
            + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def tokens(count):
    """`count` tokens as numpy saves them."""
    header = f"{{'descr': '<u2', 'fortran_order': False, 'shape': ({count},), }}".encode()
    header += b" " * (-(len(header) + 11) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + bytes(2 * count)


class RecipesTest(harness.JobTest):
    def imagenet(self):
        for split in ("train", "val"):
            for label in ("cat", "dog"):
                (self.folder / split / label).mkdir(parents=True)
                for number in range(4):
                    (self.folder / split / label / f"{number}.png").write_bytes(picture())
        return [f"variables.data={self.folder}", "global_train_batch_size=8"]

    def fineweb(self):
        for split in ("train", "val"):
            (self.folder / f"{split}_0.npy").write_bytes(tokens(1024 * 513))
        # The forward pass of the whole model takes a minute here.
        return [f"variables.data={self.folder}", "model.n_layers=1", "model.d_model=24",
                "global_train_batch_size=8"]

    def c4(self):
        lines = self.folder / "lines.jsonl"
        lines.write_text('{"text": "a text"}\n' * 8)
        self.run_composer("data", "write", lines, self.folder / "train")
        tokenizer = self.folder / "tokenizer"
        tokenizer.mkdir()
        shutil.copy(harness.ROOT / "tests/golden/tokenizers/wordpiece/tokenizer.json", tokenizer)
        special = {f"{name}_token": f"[{name.upper()}]" for name in ("pad", "unk", "cls", "sep", "mask")}
        (tokenizer / "tokenizer_config.json").write_text(json.dumps(special))
        return [f"variables.data={self.folder}", f"variables.tokenizer={tokenizer}", "global_train_batch_size=8",
                f"train_dataloader.local={self.folder / 'cache'}"]

    def ade20k(self):
        """Pictures of 48 pixels; the model's forward pass is then a tenth of a second."""
        data, = self.shapes()
        return [data, "eval_dataloader.local=${variables.data}/test", "load_path=null", "global_train_batch_size=16"]

    def made(self, script, *words):
        data = self.folder / script.stem
        if not data.exists():
            subprocess.run([sys.executable, script, data, *map(str, words)], check=True)
        return [f"variables.data={data}"]

    def shapes(self):
        return self.made(harness.ROOT / "examples/segmentation/make_shapes.py")

    def pictures(self):
        return self.made(harness.ROOT / "examples/diffusion/make_pictures.py", 128)

    def twins_data(self, name):
        makers = {"deeplab-twin": self.shapes, "sd2-twin": self.pictures}
        return makers[name]() if name in makers else []

    def test_each_is_valid(self):
        stand_ins = {"resnet": self.imagenet, "nanogpt": self.fineweb, "mosaicbert": self.c4, "deeplab": self.ade20k}
        self.assertEqual({recipe.stem for recipe in RECIPES},
                         {f"{name}{kind}" for kind in ("", "-twin")
                          for name in ("resnet-mild", "resnet-medium", "resnet-hot", "mosaicbert", "nanogpt", "deeplab", "sd2")})
        changes = {}
        for recipe in RECIPES:
            family = recipe.stem.partition("-")[0]
            is_twin = recipe.stem.endswith("-twin")
            if recipe.stem == "sd2":
                continue  # 866 million parameters: plan_test.py reads it
            if not is_twin and family not in changes:
                changes[family] = stand_ins[family]()
            with self.subTest(recipe.name):
                out, _ = self.run_composer("validate", recipe,
                                           *(self.twins_data(recipe.stem) if is_twin else changes[family]),
                                           cwd=harness.ROOT, timeout=120)
                self.assertIn("valid (run " + recipe.stem, out)

    def test_each_twin_trains(self):
        for recipe in RECIPES:
            if not recipe.stem.endswith("-twin"):
                continue
            with self.subTest(recipe.name):
                run = self.folder / recipe.stem
                self.run_composer("-n", 2, recipe, f"run_folder={run}", *self.twins_data(recipe.stem), "max_duration=4ba",
                                  "global_train_batch_size=32", "eval_interval=0ba", "save_interval=100000ba",
                                  *(["schedulers.t_decay=2ba"] if recipe.stem == "nanogpt-twin" else []),
                                  cwd=harness.ROOT, timeout=120)
                records = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
                losses = [record["loss/train/total"] for record in records if "loss/train/total" in record]
                self.assertEqual(len(losses), 4)
                self.assertTrue(all(math.isfinite(loss) for loss in losses), losses)

    def test_a_mistake_in_one_is_found(self):
        recipe = self.folder / "wrong.yaml"
        text = (harness.ROOT / "examples/recipes/nanogpt-twin.yaml").read_text()
        recipe.write_text(text.replace("name: muon", "name: muon\n  momentun: 0.9"))
        _, err = self.run_composer("validate", recipe, cwd=harness.ROOT, code=64)
        self.assertIn("did you mean `momentum`?", err)


if __name__ == "__main__":
    unittest.main()
