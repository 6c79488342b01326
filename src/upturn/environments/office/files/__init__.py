"""Workspaces as real files (.xlsx, .docx, .pptx, .eml, .ics), and real files as workspaces: the extra ``files``.

One file a format, which turns state into bytes and bytes into state; ``packing`` and ``unpacking`` do so with a
whole workspace, ``folder`` alone touches a disk.
"""

from upturn.environments.office.files.folder import Exported, read_folder, write_folder
from upturn.environments.office.files.packing import Packed, packed
from upturn.environments.office.files.unpacking import Host, Imported, unpacked, zone_named

__all__ = [
    "Exported",
    "Host",
    "Imported",
    "Packed",
    "packed",
    "read_folder",
    "unpacked",
    "write_folder",
    "zone_named",
]
