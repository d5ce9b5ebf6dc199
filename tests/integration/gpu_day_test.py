"""Tests tools/gpu_day.sh end to end on the mock accelerator: it packs, runs its parts in order within the time, goes on
where it was cut off, and a part that fails does not stop the next.
SPDX-License-Identifier: Apache-2.0
"""
import os
import pathlib
import shutil
import subprocess
import tarfile
import tempfile
import unittest

import harness
from mock_gpu_test import MOCK
from pack_gpu_test import torch_lib

BUILD = harness.BIN.resolve().parent


class GpuDayTest(unittest.TestCase):
    def setUp(self):
        if not (BUILD / "lib" / "composer_cuda.so").exists() or not (MOCK / "libtorch_cuda.so").exists():
            self.skipTest("built without CUDA, or without mock_worker_module")
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="composer-gpu-day-"))
        self.addCleanup(shutil.rmtree, self.folder)
        self.pack = self.folder / "gpu_day"
        done = subprocess.run([harness.ROOT / "tools" / "gpu_day.sh", "pack", "--build", BUILD, "--out", self.pack],
                              text=True, capture_output=True, check=False, timeout=200)
        self.assertEqual(done.returncode, 0, done.stderr)
        # One file of two names: it registers a device once.
        (self.pack / "lib" / "composer_cuda.so").unlink()
        shutil.copy((MOCK / "libtorch_cuda.so").resolve(), self.pack / "lib" / "libtorch_cuda.so")
        (self.pack / "lib" / "composer_cuda.so").symlink_to("libtorch_cuda.so")

    def run_day(self, *arguments):
        env = {"TORCH_LIB": torch_lib(harness.BIN / "composer_worker"), "PATH": os.environ["PATH"],
               "TMPDIR": str(self.folder)}
        done = subprocess.run([self.pack / "gpu_day.sh", "run", "--results", self.folder / "results", "--small",
                               *arguments], env=env, text=True, capture_output=True, check=False, timeout=550)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def log(self, part):
        return (self.folder / "results" / "work" / f"{part}.log").read_text(errors="replace")

    def test_parts_run_resume_and_do_not_stop_each_other(self):
        size = sum(path.stat().st_size for path in self.pack.rglob("*") if path.is_file())
        self.assertLess(size, 62 << 20)
        out = self.run_day("--seconds", "100")
        self.assertIn("machine: done", out)
        self.assertIn("left: gpu_tests", out, "only parts that fit the time begin")
        text = self.pack / "data" / "text.txt"
        text.write_text("")  # the jobs that need it fail
        out = self.run_day("--part", "training", "--part", "recovery", "--seconds", "2000")
        self.assertNotIn("machine:", out)
        self.assertIn("training: failed", out)
        self.assertIn("recovery: done", out, self.log("recovery"))
        text.write_text("In the beginning was the word, and the word was packed. " * 2000)
        named = ("training", "exchange", "step_time", "kernels", "fp8", "attention", "graphs")
        out = self.run_day(*(word for part in named for word in ("--part", part)), "--seconds", "2000")
        for part in named:
            self.assertIn(f"{part}: done", out, self.log(part))
        results = self.folder / "results"
        page = (results / "gpu.md").read_text()
        self.assertIn("| perceptron, GPU beside CPU: largest difference of 40 losses |", page)
        self.assertIn("| state after kill -9 and resume, bit by bit | equal  | equal | yes |", page)
        self.assertIn("| weights after GPU, CPU, GPU | equal  | equal | yes |", page)
        self.assertIn("| GPT-2 124M, amp_bf16 |", page)
        for chunk in (0, 4):
            self.assertIn(f"| kernels: auto beside off, loss_chunk_tokens: {chunk}: largest difference of 6 losses |", page)
        for scaling in ("delayed", "current"):
            self.assertIn(f"| amp_fp8, {scaling} scaling, beside amp_bf16: largest difference of 6 losses |", page)
        # The mock's libraries have what they need in a worker alone.
        self.assertIn("| attention's values and gradients beside products of matrices | skipped  | passes | NO |", page)
        self.assertIn("| attention_backend: cudnn | cuDNN, for ", page, self.log("attention"))
        self.assertIn("| attention_backend: flash | products of matrices, for [", page)
        self.assertIn("| attention_backend: cudnn beside efficient: largest difference of 6 losses |", page)
        for name in ("perceptron", "text"):
            for kind in ("fp32", "amp_bf16"):
                self.assertIn(f"| {name}, {kind}: state after replays beside eager, bit by bit | equal  | equal | yes |",
                              page, self.log("graphs"))
        self.assertIn("| perceptron, fp32: steps that were replayed | 16 of 20  | not 0 | yes |", page)
        self.assertIn("| 4-layer GPT: replays beside our own eager steps |", page)
        self.assertIn("| text, sharded on the GPU beside the CPU: largest difference of 4 losses |", page)
        self.assertNotIn("failed", page)
        self.assertIn("## peers: has not run", page)
        with tarfile.open(results / "logs.tar.gz") as archive:
            self.assertIn("training.log", archive.getnames())
        out = self.run_day("--seconds", "250")
        self.assertNotIn("training:", out, "what has run is not repeated unless it is named")
        self.assertIn("gpu_tests: done", out)


if __name__ == "__main__":
    unittest.main()
