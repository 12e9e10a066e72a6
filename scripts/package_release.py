#!/usr/bin/env python3
"""Makes the archive of a release: the programs with completions, man pages, licences and README.

    scripts/package_release.py TARGET BIN_DIR OUT_DIR
    scripts/package_release.py --documents BIN_DIR OUT_DIR

TARGET is the platform as Rust names it; OUT_DIR gets qsf-VERSION-TARGET.tar.gz (for Windows .zip) and its SHA-256.
The same programs give the same bytes. With --documents, OUT_DIR gets completions and man pages alone. BIN_DIR has the
programs, which must run on this machine: they print their own documents. Needs Python 3.11."""

import gzip
import hashlib
import io
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROGRAMS = ["qsf-convert", "qsf-eval", "qsf-inspect", "qsf-run"]
TEXTS = ["README.md", "CHANGELOG.md", "LICENSE-MIT", "LICENSE-APACHE"]
# Where each shell looks for the completions of a program.
COMPLETIONS = {
    "bash": "completions/bash/{}",
    "elvish": "completions/elvish/{}.elv",
    "fish": "completions/fish/{}.fish",
    "powershell": "completions/powershell/_{}.ps1",
    "zsh": "completions/zsh/_{}",
}
# Of every file in an archive: the first moment that a zip file can name.
TIME = (1980, 1, 1, 0, 0, 0)
TIME_1970 = 315532800


def executable(folder, program):
    for path in [folder / program, folder / f"{program}.exe"]:
        if path.is_file():
            return path
    sys.exit(f"{folder} has no {program}")


def printed(*words):
    """What a program prints; with the line ends of Unix on every system."""
    done = subprocess.run([str(word) for word in words], stdout=subprocess.PIPE, check=True)
    if not done.stdout:
        sys.exit(f"{words[0].name} {' '.join(words[1:])} prints nothing")
    return done.stdout.replace(b"\r\n", b"\n")


def documents(folder):
    """Names and contents of completions and man pages."""
    files = {}
    for program in PROGRAMS:
        path = executable(folder, program)
        for shell, name in COMPLETIONS.items():
            files[name.format(program)] = printed(path, "--completions", shell)
        files[f"man/man1/{program}.1"] = printed(path, "--man")
    return files


def archive(target, folder):
    """Name and bytes of the archive."""
    version = tomllib.loads((ROOT / "Cargo.toml").read_text(encoding="utf-8"))["workspace"]["package"]["version"]
    top = f"qsf-{version}-{target}"
    programs = [executable(folder, program) for program in PROGRAMS]
    files = {path.name: path.read_bytes() for path in programs}
    files |= {name: (ROOT / name).read_bytes() for name in TEXTS}
    files |= documents(folder)
    out = io.BytesIO()
    modes = {path.name: 0o755 for path in programs}
    if "windows" in target:
        with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as package:
            for name in sorted(files):
                entry = zipfile.ZipInfo(f"{top}/{name}", TIME)
                entry.compress_type = zipfile.ZIP_DEFLATED
                package.writestr(entry, files[name])
        return f"{top}.zip", out.getvalue()
    with gzip.GzipFile("", "wb", 9, out, mtime=0) as packed, tarfile.open(fileobj=packed, mode="w") as package:
        for name in sorted(files):
            entry = tarfile.TarInfo(f"{top}/{name}")
            entry.size, entry.mode, entry.mtime = len(files[name]), modes.get(name, 0o644), TIME_1970
            package.addfile(entry, io.BytesIO(files[name]))
    return f"{top}.tar.gz", out.getvalue()


def write(folder, files):
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        print(path)


def main(arguments):
    if len(arguments) != 3:
        sys.exit(__doc__)
    target, folder, out = arguments[0], Path(arguments[1]).resolve(), Path(arguments[2])
    if target == "--documents":
        return write(out, documents(folder))
    name, content = archive(target, folder)
    digest = hashlib.sha256(content).hexdigest()
    write(out, {name: content, f"{name}.sha256": f"{digest}  {name}\n".encode()})


if __name__ == "__main__":
    main(sys.argv[1:])
