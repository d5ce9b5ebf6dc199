"""What every package starts from: the installed tree with stripped programs, and the libraries that they need."""
import functools
import pathlib
import re
import shutil
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Every Linux that is supported has these, in a version that is new enough (see `glibc_level`).
OF_THE_SYSTEM = re.compile(r"(ld-linux-x86-64|lib(c|m|dl|rt|pthread|resolv|mvec|util|stdc\+\+|gcc_s|z))\.so")
OF_LIBTORCH = re.compile(r"lib(torch|c10|gomp|cud|nccl|nvToolsExt|caffe2)")
# Libraries that the programs open when a job needs them.
OPENED = ("libcurl.so.4", "libzstd.so.1", "libbz2.so.1.0", "libbrotlidec.so.1", "libsnappy.so.1")


def output(*command):
    return subprocess.run([str(word) for word in command], check=True, capture_output=True, text=True).stdout


def version():
    return re.search(r"project\(Composer VERSION ([\d.]+)", (ROOT / "CMakeLists.txt").read_text()).group(1)


def epoch():
    """Returns the time of the last commit in seconds: the time of every file, so that equal builds give equal bits."""
    return int(output("git", "-C", ROOT, "log", "-1", "--format=%ct"))


def install(build, prefix):
    """Installs without debug information. Nothing may name the folder of the build."""
    output("cmake", "--install", build, "--prefix", prefix, "--strip")
    for archive in sorted(prefix.glob("lib*/composer/*.a")):
        output("strip", "--strip-debug", "--enable-deterministic-archives", archive)
    set_libtorch(prefix, "${pcfiledir}/../composer/libtorch")


def set_libtorch(prefix, place):
    """Writes into the file for pkg-config where LibTorch is."""
    [file] = prefix.glob("lib*/pkgconfig/composer.pc")
    file.write_text(re.sub(r"(?m)^libtorch=.*$", lambda _: f"libtorch={place}", file.read_text()))


def programs(prefix):
    return sorted((prefix / "bin").iterdir()) + sorted(prefix.glob("lib*/composer_cuda.so"))


def needed(program):
    """Returns the sonames that a program is linked with."""
    return re.findall(r"\(NEEDED\).*\[(.*)\]", output("readelf", "-d", program))


def set_path(program, *folders):
    output("patchelf", "--force-rpath", "--set-rpath", ":".join(folders), program)


def find_libraries(prefix):
    """Returns soname -> path of everything that must travel with the programs, with what those libraries need."""
    known = dict(re.findall(r"^\s*(\S+) \(.*x86-64.*\) => (\S+)$", output("ldconfig", "-p"), re.MULTILINE))
    pending = [name for program in programs(prefix) for name in needed(program)] + list(OPENED)
    found = {}
    while pending:
        name = pending.pop()
        if name in found or OF_THE_SYSTEM.match(name) or OF_LIBTORCH.match(name):
            continue
        found[name] = pathlib.Path(known[name]).resolve()
        pending += needed(found[name])
    return dict(sorted(found.items()))


def bundle(prefix, libraries):
    """Puts the libraries beside the programs, which find them there and LibTorch in the first of its usual places."""
    private = prefix / "lib/composer/private"
    private.mkdir(parents=True)
    for name, path in libraries.items():
        shutil.copy(path, private / name)
        (private / name).chmod(0o644)
        output("strip", "--strip-unneeded", private / name)
        set_path(private / name, "$ORIGIN")
    for program in programs(prefix):
        up = "$ORIGIN/.." if program.parent.name == "bin" else "$ORIGIN/../."
        lib = up + "/lib" if program.parent.name == "bin" else "$ORIGIN"
        set_path(program, f"{lib}/composer/private", f"{lib}/composer/libtorch/torch/lib", f"{up}/../torch/lib")


@functools.lru_cache(maxsize=None)
def owners():
    """Returns file -> package of everything that dpkg has installed; one `dpkg -S` for each library takes a minute."""
    found = {}
    for listing in sorted(pathlib.Path("/var/lib/dpkg/info").glob("*.list")):
        for line in listing.read_text().splitlines():
            if ".so" in line:
                found[line] = listing.stem.split(":")[0]
    return found


@functools.lru_cache(maxsize=None)
def package_of(path):
    """Returns Debian's package and version of a library: ("libre2-9", "20220601+dfsg-1+b1")."""
    # Debian 12 lists files of /usr/lib partly under /lib, which is a link to it.
    for place in (str(path), str(path).replace("/usr/lib/", "/lib/", 1), "/usr" + str(path)):
        if place in owners():
            name = owners()[place]
            return name, output("dpkg-query", "-W", "-f=${Version}\\n", name).splitlines()[0]
    raise SystemExit(f"{path} belongs to no Debian package")


def copy_licences(packages, folder):
    folder.mkdir(parents=True, exist_ok=True)
    for name in sorted(packages):
        shutil.copy(f"/usr/share/doc/{name}/copyright", folder / name)


def glibc_level(prefix):
    """Returns the newest glibc that a file of the tree asks for, (2, 34), and the newest libstdc++, (3, 4, 30)."""
    newest = {"GLIBC": (0,), "GLIBCXX": (0,)}
    for file in programs(prefix) + sorted(prefix.glob("lib/composer/private/*")):
        for kind, text in re.findall(r"\b(GLIBC|GLIBCXX)_([\d.]+)", output("objdump", "-T", file)):
            newest[kind] = max(newest[kind], tuple(int(part) for part in text.split(".")))
    return newest["GLIBC"], newest["GLIBCXX"]


def copy_libtorch(prefix):
    """Copies the part of LibTorch that runs on CPUs, with its licences, to where the programs look for it first."""
    source, target = ROOT / ".deps/libtorch", prefix / "lib/composer/libtorch"
    (target / "torch/lib").mkdir(parents=True)
    for name in ("libtorch_cpu.so", "libc10.so", "libgomp.so.1"):
        shutil.copy(source / "torch/lib" / name, target / "torch/lib" / name)
    shutil.copytree(source / "nvidia", target / "nvidia", ignore=shutil.ignore_patterns("include"))
    for licences in source.glob("*.dist-info"):
        shutil.copytree(licences, target / licences.name)


def files_of(folder):
    return sorted(path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
