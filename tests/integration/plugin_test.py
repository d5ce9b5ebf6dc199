"""A plugin built by the other compiler against the installed package runs in composer_worker; errors in a plugin are
reported at once."""
import json
import shutil
import subprocess

import harness

JOB = dict(model={"name": "spiral_net"}, train_dataloader={"name": "spirals", "size": 120}, global_train_batch_size=30,
           max_duration="2ep", plugins=["libspirals.so"], schedulers=None)


class PluginTest(harness.JobTest):
    def refused(self, name, *expect, **changes):
        job = self.write_job(name, **{**JOB, **changes})
        _, err = self.run_composer("-n", 2, job, code=64)
        for word in expect:
            self.assertIn(word, err)
        return err

    def copy_plugin(self):
        shutil.copy(harness.BIN.parent / "examples/plugin/build/libspirals.so", self.folder)
        return self.folder / "libspirals.so"

    def test_built_by_gcc_with_the_installed_package(self):
        prefix, build = self.folder / "prefix", self.folder / "plugin-build"
        subprocess.run(["cmake", "--install", harness.BIN.parent, "--prefix", prefix], check=True, capture_output=True)
        subprocess.run(["cmake", "-G", "Ninja", "-S", harness.ROOT / "examples/plugin", "-B", build,
                        f"-DCMAKE_PREFIX_PATH={prefix}",
                        "-DCMAKE_CXX_COMPILER=g++", "-DCMAKE_CXX_COMPILER_LAUNCHER=ccache"], check=True,
                       capture_output=True)
        built = subprocess.run(["cmake", "--build", build], capture_output=True, text=True)
        self.assertEqual(built.returncode, 0, built.stdout + built.stderr)
        self.assertNotIn("warning", built.stdout)
        shutil.copy(build / "libspirals.so", self.folder)
        self.run_composer("-n", 2, self.write_job("gcc", **JOB))
        self.assertEqual(self.summary("gcc")["steps"], 8)
        clang = self.copy_plugin()
        self.run_composer("-n", 2, self.write_job("clang", **{**JOB, "plugins": [str(clang)]}))
        self.assert_same_state(self.newest_checkpoint("gcc"), self.newest_checkpoint("clang"))
        installed = subprocess.run([prefix / "bin/composer_worker", "validate", self.folder / "gcc.yaml"],
                                   capture_output=True, text=True, env=self.environment())
        self.assertEqual(installed.returncode, 0, installed.stderr)

    def test_a_new_plugin_builds_and_trains(self):
        prefix, folder = self.folder / "prefix", self.folder / "mine"
        subprocess.run(["cmake", "--install", harness.BIN.parent, "--prefix", prefix], check=True, capture_output=True)
        out, _ = self.run_composer("plugin", "new", "mine", folder)
        self.assertIn("-DCMAKE_PREFIX_PATH=", out)
        subprocess.run(["cmake", "-G", "Ninja", "-S", folder, "-B", folder / "build", f"-DCMAKE_PREFIX_PATH={prefix}",
                        "-DCMAKE_CXX_COMPILER=g++", "-DCMAKE_CXX_COMPILER_LAUNCHER=ccache"], check=True,
                       capture_output=True)
        built = subprocess.run(["cmake", "--build", folder / "build"], capture_output=True, text=True)
        self.assertEqual(built.returncode, 0, built.stdout + built.stderr)
        self.assertNotIn("warning", built.stdout)
        self.run_composer("-n", 2, folder / "train.yaml", cwd=folder)
        records = [json.loads(line) for line in (folder / "runs/mine/metrics.jsonl").read_text().splitlines()]
        self.assertEqual(sum("mine/weight_norm" in record for record in records), 10)
        losses = [record["loss/train/total"] for record in records if "loss/train/total" in record]
        self.assertEqual(len(losses), 80)
        self.assertLess(losses[-1], losses[0])
        _, err = self.run_composer("validate", folder / "train.yaml", "model.widht=3", code=64, cwd=folder)
        self.assertIn("did you mean `width`?", err)

    def test_files_that_are_no_plugins(self):
        self.refused("missing", "libspirals.so", "No such file", "missing.yaml:")
        (self.folder / "libspirals.so").write_text("no library")
        self.refused("text", "libspirals.so: not a shared library", "text.yaml:")

    def test_another_version(self):
        plugin = self.copy_plugin()
        info = subprocess.run([harness.BIN / "composer", "version"], capture_output=True, text=True).stdout
        version = info.split()[1].encode()
        content = plugin.read_bytes()
        note = content.index(b"Composer\0\0\0\0")
        at = content.index(version, note)
        plugin.write_bytes(content[:at] + b"9" + content[at + 1:])
        self.refused("version", "built for Composer 9", version.decode(), "libspirals.so")

    def test_keys_and_names(self):
        self.copy_plugin()
        self.refused("key", "model.widht: unknown key (did you mean `width`?)",
                     model={"name": "spiral_net", "widht": 3})
        self.refused("name", "`spiral_nett`", "names that docs/configuration.md lists", "did you mean `spiral_net`?",
                     model={"name": "spiral_nett"})
        self.refused("range", "must be at least 2, got 0", train_dataloader={"name": "spirals", "size": 0})
        self.refused("twice", "listed twice", plugins=["libspirals.so", "./libspirals.so"])


if __name__ == "__main__":
    import unittest
    unittest.main()
