"""What the tests work on: the programs, built beforehand, and the model of the demo with the files made of it."""
import os
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY / "scripts"))


@pytest.fixture(scope="session")
def program():
    """Runs one of the programs and gives its stdout. QSF_BIN is the folder that they are in."""
    folder = Path(os.environ.get("QSF_BIN", REPOSITORY / "target" / "debug"))

    def run(name, *args):
        done = subprocess.run([folder / name, *map(str, args)], check=True, capture_output=True, text=True)
        return done.stdout

    return run


@pytest.fixture(scope="session")
def demo(program, tmp_path_factory):
    """The folder of qsf-convert --demo: demo-1m, and demo-1m-TYPE.qsf."""
    folder = tmp_path_factory.mktemp("demo")
    program("qsf-convert", "--demo", "--demo-dir", folder)
    return folder


@pytest.fixture(scope="session")
def text(tmp_path_factory):
    """A text that the model was not trained on."""
    path = tmp_path_factory.mktemp("text") / "heldout.txt"
    path.write_text((REPOSITORY / "cli" / "data" / "demo.txt").read_text()[:12000])
    return path
