"""The packages that tools/package makes of this build: the wheel runs a job beside an unpacked torch, the .deb has
what it needs, and a second making gives the same bits.

The slow part installs them in clean roots: tools/package/try.sh."""
import json
import os
import pathlib
import re
import shutil
import stat
import subprocess
import sys
import unittest
import zipfile

import harness

sys.path.insert(0, str(harness.ROOT / "tools/package"))
import stage  # noqa: E402

LIBTORCH = harness.ROOT / ".deps/libtorch"
CLEAN = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent"}  # no LD_LIBRARY_PATH, nothing of the build


def make(out, *formats):
    subprocess.run([sys.executable, "-B", harness.ROOT / "tools/package/make.py", "--build", harness.BIN.parent, "--out", out,
                    *formats], check=True, capture_output=True)


@unittest.skipIf(shutil.which("patchelf") is None, "patchelf is missing: ./dev setup")
class PackageTest(harness.JobTest):
    def site(self, wheel):
        """Unpacks a wheel as pip does beside torch's."""
        site = self.folder / "site"
        with zipfile.ZipFile(wheel) as archive:
            for entry in archive.infolist():
                path = pathlib.Path(archive.extract(entry, site))
                mode = entry.external_attr >> 16
                self.assertTrue(stat.S_ISREG(mode))  # else pip does not take the right to run it
                path.chmod(stat.S_IMODE(mode))
        (site / "torch").symlink_to(LIBTORCH / "torch")
        (site / "nvidia").symlink_to(LIBTORCH / "nvidia")
        return site

    def test_wheel_and_deb_work_and_are_reproducible(self):
        out, again = self.folder / "out", self.folder / "again"
        make(out, "wheel", "deb")
        [wheel] = out.glob("*.whl")
        site = self.site(wheel)
        self.check_the_record(site)
        self.check_that_nothing_names_the_build(site / "composer_native")
        self.check_the_libraries(site / "composer_native")
        self.train(site)
        self.check_the_deb(next(out.glob("*.deb")))
        self.check_the_bill(json.loads((out / "sbom.json").read_text()))
        make(again, "deb")  # the others: package_twice_test.py
        self.assertIn((again / "SHA256SUMS").read_text(), (out / "SHA256SUMS").read_text())

    def check_the_record(self, site):
        """pip refuses a wheel whose RECORD misses a file."""
        [info] = site.glob("*.dist-info")
        listed = {line.split(",")[0] for line in (info / "RECORD").read_text().splitlines()}
        there = {str(path.relative_to(site)) for top in (site / "composer_native", info) for path in stage.files_of(top)}
        self.assertEqual(listed, there)
        self.assertIn("Requires-Dist: torch==2.11.0", (info / "METADATA").read_text())

    def check_that_nothing_names_the_build(self, prefix):
        for program in stage.programs(prefix) + list(prefix.glob("lib/composer/private/*")):
            text = subprocess.run(["readelf", "-d", program], check=True, capture_output=True, text=True).stdout
            for path in re.findall(r"(?:RUNPATH|RPATH).*\[(.*)\]", text):
                self.assertTrue(all(part.startswith("$ORIGIN") for part in path.split(":")), f"{program}: {path}")

    def check_the_libraries(self, prefix):
        """Each library is the system's C and C++ runtime, torch's, or travels along with its licence."""
        private = prefix / "lib/composer/private"
        for program in stage.programs(prefix) + list(private.iterdir()):
            for name in stage.needed(program):
                self.assertTrue(stage.OF_THE_SYSTEM.match(name) or stage.OF_LIBTORCH.match(name) or (private / name).exists(),
                                f"{program.name} needs {name}")
        licences = {path.name for path in (prefix / "share/doc/Composer/licenses").iterdir()}
        self.assertLessEqual({"libgrpc29", "libprotobuf32", "libcurl4", "libabsl20220623"}, licences)

    def train(self, site):
        job = self.write_job("packaged", max_duration="4ba")
        composer = site / "composer_native/bin/composer"
        ran = subprocess.run([composer, "-n", "2", job], capture_output=True, text=True, timeout=120, env=self.environment())
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.assertEqual(len(self.losses("packaged")), 4)
        started = subprocess.run([sys.executable, "-S", "-c", "import sys; sys.path.insert(0, sys.argv.pop(1)); "
                                  "sys.argv[0] = 'composer'; import composer_native; composer_native.composer()", site, "version"],
                                 capture_output=True, text=True, env=CLEAN, timeout=30)
        self.assertIn(stage.version(), started.stdout)

    def check_the_deb(self, file):
        fields = subprocess.run(["dpkg-deb", "-f", file], check=True, capture_output=True, text=True).stdout
        self.assertRegex(fields, r"(?m)^Depends: .*composer-native-libtorch \(= [\d.]+\).*libgrpc29")
        self.assertRegex(fields, r"(?m)^Conflicts: composer$")
        tree = self.folder / "deb"
        subprocess.run(["dpkg-deb", "-x", file, tree], check=True)
        shutil.copytree(LIBTORCH / "torch/lib", tree / "usr/lib/composer/libtorch/torch/lib", copy_function=os.symlink)
        (tree / "usr/lib/composer/libtorch/nvidia").symlink_to(LIBTORCH / "nvidia")
        # libtorch_cpu finds CUDA's runtime library by its own path, which links do not change.
        for program, answer in (("composer", stage.version()), ("composer_worker", "LibTorch 2.11.0")):
            ran = subprocess.run([tree / "usr/bin" / program, "version"], capture_output=True, text=True, env=CLEAN, timeout=30)
            self.assertIn(answer, ran.stdout + ran.stderr)

    def check_the_bill(self, bill):
        names = {component["name"]: component["version"] for component in bill["components"]}
        self.assertEqual(names["torch"], "2.11.0")
        self.assertIn("pyarrow", names)
        self.assertIn("libgrpc++1.51", names)


if __name__ == "__main__":
    unittest.main()
