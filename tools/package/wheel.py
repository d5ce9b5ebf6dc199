"""The Python wheel: the programs beside the torch that pip installs. Python starts them and is replaced by them."""
import base64
import hashlib
import shutil
import stat
import time
import zipfile

import stage

ENTRY = '''"""Composer in C++. The commands replace the Python that starts them: no Python runs in a job."""
import importlib.util
import os
import sys

PREFIX = os.path.dirname(os.path.abspath(__file__))  # for CMAKE_PREFIX_PATH


def _become(program):
    path = os.path.join(PREFIX, "bin", program)
    os.execv(path, [path] + sys.argv[1:])


def composer():
    if importlib.util.find_spec("composer") is not None:
        print("composer: mosaicml, whose command has the same name, is installed too. This is composer-native's; "
              "`composer-native` is always this one.", file=sys.stderr)
    _become("composer")


def composer_native():
    _become("composer")


def composer_worker():
    _become("composer_worker")
'''
COMMANDS = """[console_scripts]
composer = composer_native:composer
composer-native = composer_native:composer_native
composer_worker = composer_native:composer_worker
"""


def metadata(version, torch):
    return (f"Metadata-Version: 2.1\nName: composer-native\nVersion: {version}\n"
            "Summary: MosaicML Composer's features in C++ on LibTorch, and a launcher that keeps jobs alive\n"
            "License: Apache-2.0\nRequires-Python: >=3.8\n"
            f"Requires-Dist: torch=={torch}\nDescription-Content-Type: text/markdown\n\n"
            + (stage.ROOT / "README.md").read_text())


def tag(prefix):
    """GLIBCXX_3.4.30 came with GCC 12, which Ubuntu 22.04 (glibc 2.35) and Debian 12 have."""
    glibc, libstdcxx = stage.glibc_level(prefix)
    if libstdcxx > (3, 4, 30):
        raise SystemExit(f"libstdc++ {libstdcxx} is newer than manylinux_2_35 has")
    return f"py3-none-manylinux_2_{max(glibc[1], 35)}_x86_64"


def write(tree, out, epoch):
    """Zips a folder that has *.dist-info with a RECORD of all files; files that may be run stay so."""
    [info] = tree.glob("*.dist-info")
    record = []
    for path in stage.files_of(tree):
        digest = base64.urlsafe_b64encode(hashlib.sha256(path.read_bytes()).digest()).rstrip(b"=").decode()
        record.append(f"{path.relative_to(tree)},sha256={digest},{path.stat().st_size}\n")
    (info / "RECORD").write_text("".join(record) + f"{info.name}/RECORD,,\n")
    date = time.gmtime(epoch)[:6]
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as archive:
        for path in stage.files_of(tree):
            entry = zipfile.ZipInfo(str(path.relative_to(tree)), date)
            entry.compress_type = zipfile.ZIP_DEFLATED
            # pip takes the right to run a file only from an entry that says that it is a regular file.
            entry.external_attr = (stat.S_IFREG | (0o755 if path.stat().st_mode & 0o100 else 0o644)) << 16
            archive.writestr(entry, path.read_bytes(), compresslevel=6)


def make(prefix, work, out, torch):
    """`prefix`: the staged tree with bundled libraries, without LibTorch. Returns the path of the wheel."""
    version, tree = stage.version(), work / "wheel"
    shutil.copytree(prefix, tree / "composer_native", symlinks=False)
    stage.set_libtorch(tree / "composer_native", "${pcfiledir}/../../..")  # where pip puts torch, too
    (tree / "composer_native/__init__.py").write_text(ENTRY)
    info = tree / f"composer_native-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(metadata(version, torch))
    (info / "WHEEL").write_text(f"Wheel-Version: 1.0\nGenerator: composer\nRoot-Is-Purelib: false\nTag: {tag(prefix)}\n")
    (info / "entry_points.txt").write_text(COMMANDS)
    wheel = out / f"composer_native-{version}-{tag(prefix)}.whl"
    write(tree, wheel, stage.epoch())
    return wheel
