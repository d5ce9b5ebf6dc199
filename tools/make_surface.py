#!/usr/bin/env python3
"""Lists what mosaicml shows to its users: the arguments of the Trainer and its methods, the fields of its parallelism
configurations, and every class that a public module exports. Run by hand with the Python of an environment that has
mosaicml 0.32.1 (tools/peers_setup.sh); writes tools/surface_names.txt, which tools/check_surface.py holds the answers
of tools/surface.tsv to."""
import dataclasses
import importlib
import inspect
import pathlib
import pkgutil
import warnings

warnings.filterwarnings("ignore")
import composer  # noqa: E402
from composer.utils import parallelism  # noqa: E402

OUTPUT = pathlib.Path(__file__).resolve().parent / "surface_names.txt"


def arguments():
    for method in ("__init__", "fit", "eval", "predict"):
        owner = "Trainer" if method == "__init__" else f"Trainer.{method}"
        for name in list(inspect.signature(getattr(composer.Trainer, method)).parameters)[1:]:
            yield f"{owner}({name})"


def fields():
    for kind in ("ParallelismConfig", "FSDPConfig", "FSDP2Config", "TPConfig"):
        for field in dataclasses.fields(getattr(parallelism, kind)):
            if not field.name.startswith("_"):
                yield f"{kind}.{field.name}"


def classes():
    found = set()
    for module in pkgutil.walk_packages(composer.__path__, "composer.", onerror=lambda name: None):
        if any(part.startswith("_") for part in module.name.split(".")):
            continue
        try:
            loaded = importlib.import_module(module.name)
        except Exception as error:  # a part that needs a package which is not installed
            print(f"left out: {module.name}: {type(error).__name__}")
            continue
        for name in getattr(loaded, "__all__", []):
            thing = getattr(loaded, name, None)
            if inspect.isclass(thing) and thing.__module__.startswith("composer."):
                found.add(f"{'.'.join(thing.__module__.split('.')[:2])}.{name}")
    return sorted(found)


def main():
    names = [*arguments(), *fields(), *classes()]
    OUTPUT.write_text(f"# Made by tools/make_surface.py from mosaicml {composer.__version__}.\n"
                      + "".join(f"{name}\n" for name in names))
    print(f"{OUTPUT.name}: {len(names)} names")


if __name__ == "__main__":
    main()
