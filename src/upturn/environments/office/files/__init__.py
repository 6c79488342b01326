"""Workspaces as real files (.xlsx, .docx, .pptx, .eml, .ics), and real files as workspaces: the extra ``files``.

One module per format converts state to bytes and back; ``packing`` and ``unpacking`` do so for a whole workspace.
Only ``folder`` accesses the disk.
"""

from upturn.environments.office.files.folder import Exported, read_folder, write_folder
from upturn.environments.office.files.packing import Packed, pack
from upturn.environments.office.files.unpacking import Host, Imported, find_zone, unpack

__all__ = ["Exported", "Host", "Imported", "Packed", "find_zone", "pack", "read_folder", "unpack", "write_folder"]
