"""A stand-in for a strong model: a chat completions server that solves easy repair tasks by rules.

    python rules_model.py 8765

What it writes in the harness is what a small model is then trained on, before it learns from its own attempts.
"""

import json
import re
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

from repair_tasks import OPERATORS, WORDS

KINDS = {word: kind for kind, words in WORDS.items() for word in words}
TASK = re.compile(r"fix (\w+) in f\.py(?:: return (.*))?")
LINE = re.compile(r"\w+ ([-+*]) \w+")


def answer(messages: list[dict[str, Any]]) -> str:
    """The next command for the conversation."""
    task = TASK.search(messages[0]["content"])
    if task is None or task[1] not in KINDS:
        return "done"
    commands = [message["content"] for message in messages if message["role"] == "assistant"]
    if any(command.startswith("sed") for command in commands):
        return "done"
    shown = task[2] or (messages[-1]["content"] if commands else "")
    line = LINE.search(shown)
    if line is None:
        return "done" if commands else "cat f.py"
    wrong, right = line[1], OPERATORS[KINDS[task[1]]]
    return f"sed -i 's/{wrong.replace('*', chr(92) + '*')}/{right}/' f.py"


class Handler(BaseHTTPRequestHandler):
    """Answers chat completions."""

    def do_POST(self) -> None:
        """One completion."""
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        message = {"role": "assistant", "content": answer(body["messages"])}
        choices = [{"index": 0, "message": message, "finish_reason": "stop"}]
        completion = {"id": "1", "object": "chat.completion", "created": 0, "model": "rules", "choices": choices}
        encoded = json.dumps(completion).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(encoded)))
        self.end_headers()
        self.wfile.write(encoded)

    def log_message(self, *_: object) -> None:
        """Says nothing."""


if __name__ == "__main__":
    HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
