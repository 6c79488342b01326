"""The tools of a repair task."""

from upturn.records import JsonValue, Tool

TARGET = "repo"
_TEXT: JsonValue = {"type": "string"}
_NUMBER: JsonValue = {"type": "integer"}
TOOLS = (
    Tool(TARGET, "list_files", "Lists the files."),
    Tool(
        TARGET,
        "read_file",
        "Shows a file with line numbers, or its lines from start to stop.",
        {"path": _TEXT, "start": _NUMBER, "stop": _NUMBER},
        ("path",),
    ),
    Tool(TARGET, "search", "Shows the lines of all files that contain a text.", {"text": _TEXT}, ("text",)),
    Tool(
        TARGET,
        "edit",
        "Replaces a text that occurs once in a file; an empty old text makes a new file.",
        {"path": _TEXT, "old": _TEXT, "new": _TEXT},
        ("path", "old", "new"),
    ),
    Tool(
        TARGET,
        "run_tests",
        "Runs the tests, or those whose names contain a text.",
        {"name": _TEXT},
    ),
    Tool(TARGET, "bash", "Runs a shell command in the folder of the package.", {"command": _TEXT}, ("command",)),
    Tool(TARGET, "submit", "Ends the task: the package is repaired."),
)
