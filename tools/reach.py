"""Fills an environment with what the adapters and file formats need, on top of the one that this runs in.

    python tools/reach.py .venv-reach

The versions are those of ``pyproject.toml``: the extras ``files``, ``gymnasium``, ``openenv`` and ``verifiers``.
"""

import subprocess
import sys
import sysconfig
import tomllib
from pathlib import Path

EXTRAS = ("files", "gymnasium", "openenv", "verifiers")
ROOT = Path(__file__).resolve().parent.parent


def wanted(project: str) -> list[str]:
    """What the extras name, from the text of a ``pyproject.toml``."""
    extras = tomllib.loads(project)["project"]["optional-dependencies"]
    return [each for extra in EXTRAS for each in extras[extra]]


def main() -> None:
    """Puts the packages of this interpreter's environment below the other one's, then installs there."""
    python = Path(sys.argv[1]) / "bin" / "python"
    told = [str(python), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]
    packages = subprocess.run(told, check=True, capture_output=True, text=True).stdout.strip()
    Path(packages, "base.pth").write_text(f"{sysconfig.get_path('purelib')}\n", encoding="utf-8")
    wished = wanted((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    subprocess.run([str(python), "-m", "pip", "--disable-pip-version-check", "install", *wished], check=True)


if __name__ == "__main__":
    main()
