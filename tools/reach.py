"""Installs the packages of adapters and file formats into an environment on top of the current one.

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


def requirements(project: str) -> list[str]:
    """Requirements of the extras in the text of a ``pyproject.toml``."""
    extras = tomllib.loads(project)["project"]["optional-dependencies"]
    return [requirement for extra in EXTRAS for requirement in extras[extra]]


def main() -> None:
    """Adds this interpreter's packages to the other environment's path, then installs there."""
    python = Path(sys.argv[1]) / "bin" / "python"
    command = [str(python), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]
    packages = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    Path(packages, "base.pth").write_text(f"{sysconfig.get_path('purelib')}\n", encoding="utf-8")
    packages_to_install = requirements((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    subprocess.run(
        [str(python), "-m", "pip", "--disable-pip-version-check", "install", *packages_to_install], check=True
    )


if __name__ == "__main__":
    main()
