"""Every package that tools/package makes of this build, made twice in two folders: the same bits."""
import pathlib
import shutil
import tempfile
import unittest

from package_test import make


@unittest.skipIf(shutil.which("patchelf") is None, "patchelf is missing: ./dev setup")
class PackageTwiceTest(unittest.TestCase):
    def test_all_formats_are_reproducible(self):
        with tempfile.TemporaryDirectory() as folder:
            sums = []
            for name in ("one", "a folder of another name"):
                out = pathlib.Path(folder) / name
                make(out)
                sums.append((out / "SHA256SUMS").read_text())
                print(sums[-1])
                shutil.rmtree(out)
            self.assertEqual(sums[0], sums[1])
            self.assertEqual([line.rsplit(".", 1)[1] for line in sums[0].splitlines()].count("deb"), 2, "ours and LibTorch's")
            self.assertEqual(len(sums[0].splitlines()), 4)


if __name__ == "__main__":
    unittest.main()
