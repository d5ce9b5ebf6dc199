"""cmake --install, then the examples build outside the project with find_package(Composer), and run."""
import subprocess

import harness


class InstallTest(harness.JobTest):
    def test_an_outside_program_builds_and_runs(self):
        build = harness.BIN.parent
        prefix, outside = self.folder / "prefix", self.folder / "outside"
        subprocess.run(["cmake", "--install", build, "--prefix", prefix], check=True, capture_output=True)
        self.assertTrue((prefix / "bin/composer").exists())
        compiler = [line.split("=", 1)[1] for line in (build / "CMakeCache.txt").read_text().splitlines() if line.startswith("CMAKE_CXX_COMPILER:")][0]
        source = harness.ROOT / "examples/cpp"
        subprocess.run(["cmake", "-G", "Ninja", "-S", source, "-B", outside, f"-DCMAKE_PREFIX_PATH={prefix}", f"-DCMAKE_CXX_COMPILER={compiler}",
                        "-DCMAKE_CXX_COMPILER_LAUNCHER=ccache"], check=True, capture_output=True)
        built = subprocess.run(["cmake", "--build", outside, "--target", "train_mlp"], capture_output=True, text=True)
        self.assertEqual(built.returncode, 0, built.stdout + built.stderr)
        ran = subprocess.run([outside / "train_mlp"], capture_output=True, text=True, timeout=60)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.assertIn("600 steps", ran.stdout)


if __name__ == "__main__":
    import unittest
    unittest.main()
