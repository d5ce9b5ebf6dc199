"""A damaged checkpoint is rejected with the reason, and the previous one is used."""
import pathlib
import unittest

import harness


class DamageTest(harness.JobTest):
    def damage_and_resume(self, name, damage, expected):
        """Trains to 20, damages the newest checkpoint, and continues to 40."""
        job = self.write_job(name, max_duration="20ba")
        self.run_composer("-n", 2, job)
        newest = pathlib.Path(self.newest_checkpoint(name))
        damage(newest)
        _, err = self.run_composer("-n", 2, job, "max_duration=40ba")
        self.assertIn(newest.name, err)
        self.assertRegex(err, expected)
        self.assertEqual(self.summary(name)["generations"][-1]["start_step"], 10)

    def files(self, checkpoint):
        return sorted(p for p in checkpoint.rglob("*") if p.is_file())

    def test_one_flipped_bit_in_any_file(self):
        self.run_composer("-n", 2, self.write_job("probe", max_duration="20ba"))
        count = len(self.files(pathlib.Path(self.newest_checkpoint("probe"))))
        self.assertGreaterEqual(count, 3)
        for index in range(count):
            def flip(checkpoint, index=index):
                path = self.files(checkpoint)[index]
                data = bytearray(path.read_bytes())
                data[len(data) // 2] ^= 4
                path.write_bytes(data)
            self.damage_and_resume(f"flip-{index}", flip, "(?i)checksum|header|manifest")

    def test_truncated_files(self):
        for index in range(3):
            def cut(checkpoint, index=index):
                path = self.files(checkpoint)[index]
                path.write_bytes(path.read_bytes()[:-7])
            self.damage_and_resume(f"cut-{index}", cut, "(?i)truncated|checksum|bytes|manifest")

    def test_verify_finds_it_and_diff_sees_it(self):
        self.run_composer("-n", 1, self.write_job("v", max_duration="20ba"))
        newest = pathlib.Path(self.newest_checkpoint("v"))
        self.run_composer("checkpoint", "verify", newest.parent)
        out, _ = self.run_composer("checkpoint", "show", newest)
        self.assertIn("20", out)
        older = newest.parent / "ep0-ba10"
        out, _ = self.run_composer("checkpoint", "diff", older, newest, code=1)
        path = max(self.files(newest), key=lambda p: p.stat().st_size)
        data = bytearray(path.read_bytes())
        data[-3] ^= 1
        path.write_bytes(data)
        process = self.start("checkpoint", "verify", newest.parent)
        out, err = process.communicate(timeout=30)
        self.assertNotEqual(process.returncode, 0)
        self.assertIn(path.name, out + err)


if __name__ == "__main__":
    unittest.main()
