"""Tests tools/pack_gpu.sh: the packed worker starts with torch's libraries and nothing else from this machine.
SPDX-License-Identifier: Apache-2.0
"""

import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

import harness

REPOSITORY = pathlib.Path(__file__).resolve().parent.parent.parent


def torch_lib(worker):
    """Returns the folder of the libtorch_cpu.so with which a built program runs."""
    for line in subprocess.run(["ldd", worker], capture_output=True, text=True, check=True).stdout.splitlines():
        if "libtorch_cpu.so =>" in line:
            return str(pathlib.Path(line.split()[2]).parent)
    raise AssertionError("the worker does not need libtorch_cpu.so")


class PackTest(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="composer-pack-"))
        self.addCleanup(shutil.rmtree, self.folder)
        self.build = pathlib.Path(harness.BIN).resolve().parent

    def test_the_packed_worker_starts_in_a_root_with_only_libc_and_torch(self):
        if not (self.build / "lib" / "composer_cuda.so").exists():
            self.skipTest("built without CUDA")
        packed = self.folder / "gpu"
        subprocess.run([REPOSITORY / "tools" / "pack_gpu.sh", "--build", self.build, "--out", packed,
                        "bin/composer_worker"],
                       check=True, capture_output=True, timeout=120)
        size = sum(path.stat().st_size for path in packed.rglob("*") if path.is_file())
        self.assertLess(size, 60 << 20)
        names = {path.name for path in (packed / "lib").iterdir()}
        self.assertIn("libgrpc++.so.1.51", names)
        self.assertFalse([name for name in names if name.startswith(("libtorch", "libc10", "libc.so"))])
        clean = {"TORCH_LIB": torch_lib(harness.BIN / "composer_worker"), "PATH": "/usr/bin:/bin"}
        started = subprocess.run([packed / "run", "bin/composer_worker", "/nowhere/job.yaml"], env=clean, text=True,
                                 timeout=60, capture_output=True, check=False)
        self.assertEqual(started.returncode, 64, started.stderr)
        self.assertIn("/nowhere/job.yaml", started.stderr)
        # Every library comes from the pack or from torch, or belongs to libc.
        environment = {**clean, "LD_LIBRARY_PATH": f"{packed / 'lib'}:{clean['TORCH_LIB']}"}
        listing = subprocess.run(["ldd", packed / "bin" / "composer_worker"], env=environment, text=True,
                                 capture_output=True, check=True).stdout
        self.assertNotIn("not found", listing)
        elsewhere = [line.split()[2] for line in listing.splitlines() if "=> /" in line]
        elsewhere = [path for path in elsewhere if not path.startswith((str(packed), clean["TORCH_LIB"]))
                     and "/nvidia/" not in path]
        for path in elsewhere:
            self.assertRegex(os.path.basename(path), r"^(libc|libm|libdl|librt|libpthread|libresolv)\.so")

    def test_without_torch_it_says_what_to_set(self):
        packed = self.folder / "gpu"
        if not (self.build / "lib" / "composer_cuda.so").exists():
            self.skipTest("built without CUDA")
        subprocess.run([REPOSITORY / "tools" / "pack_gpu.sh", "--build", self.build, "--out", packed,
                        "bin/composer_worker"],
                       check=True, capture_output=True, timeout=120)
        refused = subprocess.run([packed / "run", "bin/composer_worker"],
                                 env={"TORCH_LIB": "/nowhere", "PATH": "/usr/bin:/bin"},
                                 text=True, capture_output=True, check=False)
        self.assertEqual(refused.returncode, 64)
        self.assertIn("set TORCH_LIB", refused.stderr)


if __name__ == "__main__":
    unittest.main()
