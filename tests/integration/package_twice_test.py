"""The packages that tools/package makes of this build, made twice in two folders: the same bits. LibTorch's own .deb is
left out, because it takes a quarter of an hour and holds nothing of this build."""
import pathlib
import shutil
import tempfile
import unittest

from package_test import make


@unittest.skipIf(shutil.which("patchelf") is None, "patchelf is missing: ./dev setup")
class PackageTwiceTest(unittest.TestCase):
    def test_wheel_deb_and_tarball_are_reproducible(self):
        with tempfile.TemporaryDirectory() as folder:
            sums = []
            for name in ("one", "a folder of another name"):
                out = pathlib.Path(folder) / name
                make(out, "wheel", "deb", "tarball")
                sums.append((out / "SHA256SUMS").read_text())
                shutil.rmtree(out)
            self.assertEqual(sums[0], sums[1])
            self.assertEqual(len(sums[0].splitlines()), 3)


if __name__ == "__main__":
    unittest.main()
