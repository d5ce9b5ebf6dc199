"""Run folders of older versions go on in this one: the checkpoint loads, and training ends as it did without an interruption.

A version is added when it is released (tests/golden/runs/VERSION: job files, run folders as a kill left them, losses.json); none is ever removed."""
import json
import pathlib
import shutil
import unittest

import harness

RUNS = harness.ROOT / "tests/golden/runs"


class OldRunsTest(harness.JobTest):
    def resume(self, version, name, ranks):
        home = pathlib.Path(shutil.copytree(RUNS / version, self.folder / f"{version}-{name}-{ranks}"))
        shutil.move(home / name, home / "run")
        _, err = self.run_composer("-n", ranks, home / f"{name}.yaml", f"run_folder={home / 'run'}", cwd=home, timeout=120)
        self.assertIn("resuming from ep0-ba10", err)
        lines = [json.loads(line) for line in (home / "run/metrics.jsonl").read_text().splitlines()]
        losses = {line["time/batch"]: line["loss/train/total"] for line in lines if "loss/train/total" in line}
        expected = json.loads((RUNS / version / "losses.json").read_text())[name]
        self.assertEqual(sorted(losses), list(range(1, len(expected) + 1)), "each batch is recorded once")
        for batch, loss in enumerate(expected, 1):
            self.assertAlmostEqual(losses[batch], loss, places=4, msg=f"{name}, batch {batch}")

    def test_runs_of_every_version_go_on(self):
        versions = sorted(path.name for path in RUNS.iterdir())
        self.assertTrue(versions)
        for version in versions:
            for job in sorted((RUNS / version).glob("*.yaml")):
                # BatchNorm's statistics are each rank's own: such a run is only equal on as many ranks.
                for ranks in json.loads((RUNS / version / "losses.json").read_text())["ranks"][job.stem]:
                    with self.subTest(version=version, job=job.stem, ranks=ranks):
                        self.resume(version, job.stem, ranks)


if __name__ == "__main__":
    unittest.main(verbosity=2)
