"""After cmake --install, the examples build outside the project with find_package(Composer), and run; licenses are
included."""
import os
import re
import shutil
import subprocess

import harness

# Maps the start of a library's file name to its name in NOTICE.
NAMES = {"absl": "Abseil", "address_sorting": "gRPC", "brotli": "Brotli", "c10": "LibTorch", "cares": "c-ares",
         "crypto": "OpenSSL", "ssl": "OpenSSL",
         "c": "GNU C library", "m": "GNU C library", "dl": "GNU C library", "pthread": "GNU C library",
         "ld-linux-x86-64": "GNU C library", "mvec": "GNU C library",
         "curl": "curl", "icuuc": "ICU", "jpeg": "libjpeg-turbo", "pcre2": "PCRE2", "png16": "libpng", "gcc_s": "libgcc", "glog": "glog", "gloo": "Gloo", "gpr": "gRPC", "grpc": "gRPC",
         "protobuf": "Protocol Buffers", "pugixml": "pugixml",
         "re2": "RE2", "stdc++": "libstdc++", "torch": "LibTorch", "upb": "upb", "xxhash": "xxHash",
         "yaml-cpp": "yaml-cpp", "z": "zlib", "zip": "libzip", "nccl": "NCCL", "cuda": "CUDA"}


READS = """
#include <composer/version.h>

#include <cstdio>

#include "views/read/run_info.h"

int main(int, char** argv) {
  const auto run = composer::ReadRun(argv[1], {});
  std::printf("%s %s\\n", composer::kVersion, run.ok() ? run->state.c_str() : run.status().ToString().c_str());
}
"""


def needed(binary):
    """Returns the names of the libraries that a program needs: "grpc++" for libgrpc++.so.1.51."""
    text = subprocess.run(["readelf", "-d", binary], check=True, capture_output=True, text=True).stdout
    return {re.sub(r"^lib", "", name.split(".so")[0]) for name in re.findall(r"\(NEEDED\).*\[(.*)\]", text)}


class InstallTest(harness.JobTest):
    def test_an_outside_program_builds_and_runs(self):
        build = harness.BIN.parent
        prefix, outside = self.folder / "prefix", self.folder / "outside"
        subprocess.run(["cmake", "--install", build, "--prefix", prefix], check=True, capture_output=True)
        self.assertTrue((prefix / "bin/composer").exists())
        self.check_licenses(prefix)
        self.check_that_the_tree_may_be_moved(prefix)
        self.check_pkg_config(prefix)
        compiler = [line.split("=", 1)[1] for line in (build / "CMakeCache.txt").read_text().splitlines()
                    if line.startswith("CMAKE_CXX_COMPILER:")][0]
        source = harness.ROOT / "examples/cpp"
        subprocess.run(["cmake", "-G", "Ninja", "-S", source, "-B", outside, f"-DCMAKE_PREFIX_PATH={prefix}",
                        f"-DCMAKE_CXX_COMPILER={compiler}",
                        "-DCMAKE_CXX_COMPILER_LAUNCHER=ccache"], check=True, capture_output=True)
        built = subprocess.run(["cmake", "--build", outside, "--target", "train_mlp"], capture_output=True, text=True)
        self.assertEqual(built.returncode, 0, built.stdout + built.stderr)
        ran = subprocess.run([outside / "train_mlp"], capture_output=True, text=True, timeout=60)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.assertIn("600 steps", ran.stdout)

    def check_pkg_config(self, prefix):
        """A program builds without CMake, from a tree that was moved, and reads a run."""
        moved = self.folder / "moved"
        shutil.copytree(prefix / "lib", moved / "lib")
        shutil.copytree(prefix / "include", moved / "include")
        flags = subprocess.run(["pkg-config", "--cflags", "--libs", "composer"], check=True, capture_output=True, text=True,
                               env=dict(os.environ, PKG_CONFIG_PATH=str(moved / "lib/pkgconfig"))).stdout.split()
        source, program = self.folder / "reads.cc", self.folder / "reads"
        source.write_text(READS)
        cache = (harness.BIN.parent / "CMakeCache.txt").read_text()
        compiler = re.search(r"^CMAKE_CXX_COMPILER:\w+=(.*)$", cache, re.MULTILINE).group(1)
        built = subprocess.run([compiler, source, "-o", program, *flags], capture_output=True, text=True)
        self.assertEqual(built.returncode, 0, built.stderr)
        ran = subprocess.run([program, harness.ROOT / "tests/golden/runs/0.1.0/fashion"], capture_output=True, text=True, timeout=60)
        self.assertEqual(ran.stdout, "0.1.0 done\n")

    def check_licenses(self, prefix):
        [documents] = (prefix / "share/doc").iterdir()
        self.assertIn("Apache License", (documents / "LICENSE").read_text())
        notice = (documents / "NOTICE").read_text()
        self.assertEqual(notice, (harness.ROOT / "NOTICE").read_text())
        for binary in (prefix / "bin").iterdir():
            for library in needed(binary):
                names = [name for start, name in NAMES.items() if re.match(re.escape(start) + r"(\+\+|$|[_-])",
                                                                           library)]
                self.assertTrue(names, f"{binary.name} is linked with {library}: name it in NOTICE and here")
                for name in names:
                    self.assertIn(name, notice)

    def check_that_the_tree_may_be_moved(self, prefix):
        """The folder that `cmake --install build --component libtorch` fills is searched, wherever the tree is."""
        header = subprocess.run(["readelf", "-d", prefix / "bin/composer_worker"], check=True, capture_output=True,
                                text=True).stdout
        [paths] = re.findall(r"RUNPATH.*\[(.*)\]", header)
        [own] = [path for path in paths.split(":") if path.endswith("/composer/libtorch/torch/lib")]
        self.assertEqual((prefix / own.replace("$ORIGIN/..", ".")).resolve().parents[3],
                         next(p.parent for p in prefix.glob("lib*/composer")).resolve())


if __name__ == "__main__":
    import unittest
    unittest.main()
