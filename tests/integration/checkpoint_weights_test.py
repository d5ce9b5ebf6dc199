"""Exchanges weights between us and the real torch and safetensors packages, through `composer_worker checkpoint
export|import`: we read what they wrote, they open what we wrote, and the values are equal. Skipped without the
`torch211` environment of tools/peers_setup.sh.
SPDX-License-Identifier: Apache-2.0"""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
WORKER = pathlib.Path(os.environ.get("COMPOSER_BIN", ROOT / "build/release/bin")) / "composer_worker"
PYTHON = pathlib.Path(os.environ.get("COMPOSER_PEERS", "/tmp/composer-peers")) / "torch211/bin/python"
GOLDEN = ROOT / "tests/golden/weights"

# Compares a folder of ours, or of an export, with what torch.load reads from a file.
COMPARE = """
import pathlib, sys, torch
from safetensors.torch import load_file
source, folder, prefix = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[3]
ours = {k: v for path in folder.rglob("*.safetensors") for k, v in load_file(path).items()}
content = load_file(source) if source.suffix == ".safetensors" else torch.load(source, weights_only=False)
content = content.get("state", {}).get("model") or content.get("state_dict") or content
wanted = {prefix + k: v for k, v in content.items() if torch.is_tensor(v)}
assert ours.keys() == wanted.keys(), (sorted(ours), sorted(wanted))
bits = lambda t: t.detach().contiguous().flatten().view(torch.uint8) if t.numel() else t.flatten()
for name, tensor in wanted.items():
    assert ours[name].dtype == tensor.dtype and ours[name].shape == tensor.shape, name
    assert torch.equal(bits(ours[name]), bits(tensor)), name
print(len(ours))
"""
LARGE = """
import sys, torch
torch.manual_seed(3)
torch.save({f"layers.{i}.weight": torch.randn(64, 33 + i) for i in range(40)}, sys.argv[1])
"""


@unittest.skipUnless(PYTHON.exists(), "no torch211 here: tools/peers_setup.sh")
class WeightsTest(unittest.TestCase):
    def setUp(self):
        made = tempfile.TemporaryDirectory(prefix="composer-it-")
        self.addCleanup(made.cleanup)
        self.folder = pathlib.Path(made.name)

    def tool(self, *args, code=0):
        done = subprocess.run([str(WORKER), "checkpoint", *map(str, args)], capture_output=True, text=True, timeout=200)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def python(self, script, *args):
        done = subprocess.run([str(PYTHON), "-c", script, *map(str, args)], capture_output=True, text=True, timeout=300)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.strip()

    def test_what_the_packages_wrote_is_imported_and_exported_bit_for_bit(self):
        for name in ("state_dict.pt", "protocol5.pt", "every_dtype.pt", "shared.pt", "nested.pt",
                     "every_dtype.safetensors"):
            with self.subTest(name):
                self.tool("import", GOLDEN / name, self.folder / name / "ours")
                self.python(COMPARE, GOLDEN / name, self.folder / name / "ours", "model/")
                self.tool("verify", self.folder / name / "ours")
                self.tool("export", self.folder / name / "ours", self.folder / name / "hf")
                self.python(COMPARE, GOLDEN / name, self.folder / name / "hf", "")

    def test_a_large_model_is_split_and_comes_back(self):
        source = self.folder / "large.pt"
        self.python(LARGE, source)
        self.tool("import", source, self.folder / "ours")
        out = self.tool("export", self.folder / "ours", self.folder / "hf", "--max-shard-size", "100KB")
        self.assertIn("model.safetensors.index.json", out)
        self.python(COMPARE, source, self.folder / "hf", "")
        self.tool("import", self.folder / "hf", self.folder / "again")
        self.assertIn("equal, bit for bit", self.tool("diff", self.folder / "ours", self.folder / "again"))
        self.tool("export", self.folder / "ours", self.folder / "x.safetensors", "--dtype", "bf16", "--rename",
                  "layers.=blocks.")
        self.assertEqual(self.python("import sys; from safetensors import safe_open; f = safe_open(sys.argv[1], 'pt'); "
                                     "print(f.get_tensor('blocks.39.weight').dtype)", self.folder / "x.safetensors"),
                         "torch.bfloat16")

    def test_composers_checkpoint(self):
        out = self.tool("import", GOLDEN / "composer.pt", self.folder / "ours")
        self.assertIn("tensors of `state/model`", out)
        self.assertIn("model/module.fc.weight", self.tool("show", self.folder / "ours"))

    def test_what_would_run_a_program_is_refused(self):
        marker = pathlib.Path("/tmp/composer_was_here")
        self.assertIn("it is posix.system, which is not read",
                      self.tool("import", GOLDEN / "surprise.pt", self.folder / "ours", code=64))
        self.assertFalse(marker.exists())
        self.assertFalse((self.folder / "ours").exists())


if __name__ == "__main__":
    sys.exit(unittest.main())
