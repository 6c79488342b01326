"""Where import paths of a configuration are looked up."""

import sys
from pathlib import Path


def import_beside(config_path: Path) -> None:
    """Looks import paths up in the configuration's folder, before the folder that the command is started in."""
    started_in = sys.path.index("") if "" in sys.path else len(sys.path)
    sys.path.insert(started_in, str(config_path.resolve().parent))
