#!/usr/bin/env python3
"""Checks that everything that is released has one version.

    scripts/check_versions.py [TAG]

The version of the workspace is the one that counts. Compared with it: the crates as the workspace names them to each
other, the lock files, python/Cargo.toml, python/pyproject.toml, capi/Cargo.toml, web/Cargo.toml, and TAG if it is given (v1.2.3). With TAG, CHANGELOG.md
must have a section of that version, too. Needs Python 3.11."""

import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def toml(path):
    return tomllib.loads((ROOT / path).read_text(encoding="utf-8"))


def locked(path, names):
    """The crates of the project in a lock file: those that come from no registry."""
    own = [package for package in toml(path)["package"] if "source" not in package]
    return {f"{path}: {package['name']}": package["version"] for package in own if package["name"] in names}


def found():
    """Every place that says a version, with what it says."""
    workspace = toml("Cargo.toml")["workspace"]
    own = {name: crate for name, crate in workspace["dependencies"].items() if name.startswith("qsf-")}
    places = {f"Cargo.toml: {name}": crate["version"] for name, crate in own.items()}
    for member in workspace["members"]:
        version = toml(f"{member}/Cargo.toml")["package"]["version"]
        if version != {"workspace": True}:
            places[f"{member}/Cargo.toml"] = version
    python = toml("python/Cargo.toml")["package"]
    places["python/Cargo.toml"] = python["version"]
    project = toml("python/pyproject.toml")["project"]
    if "version" not in project.get("dynamic", []):
        places["python/pyproject.toml"] = project.get("version", "none")
    places |= locked("Cargo.lock", own)
    places |= locked("python/Cargo.lock", own.keys() | {python["name"]})
    places["capi/Cargo.toml"] = toml("capi/Cargo.toml")["package"]["version"]
    places |= locked("capi/Cargo.lock", own.keys() | {"qsf-capi"})
    places["web/Cargo.toml"] = toml("web/Cargo.toml")["package"]["version"]
    places |= locked("web/Cargo.lock", own.keys() | {"qsf-web"})
    places |= locked("fuzz/Cargo.lock", own)
    return workspace["package"]["version"], places


def main(arguments):
    if len(arguments) > 1 or any(argument.startswith("-") for argument in arguments):
        sys.exit(__doc__)
    version, places = found()
    wrong = [f"{place} says {said}" for place, said in places.items() if said != version]
    for tag in arguments:
        if tag != f"v{version}":
            wrong.append(f"the tag is {tag}")
        heads = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").splitlines()
        if not any(line.startswith(f"## [{version}]") for line in heads):
            wrong.append(f"CHANGELOG.md has no section [{version}]")
    if wrong:
        sys.exit("\n".join([f"the workspace has version {version}, but:", *wrong]))
    print(f"version {version}, in {len(places)} places")


if __name__ == "__main__":
    main(sys.argv[1:])
