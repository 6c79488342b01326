"""A coding harness in the manner of mini-swe-agent: the model answers with a shell command and sees its output.

    python mini_harness.py < attempt.json        (Upturn starts it, see mini_harness.toml)

It knows a chat completions URL and a folder, and nothing of training. The client `openai` is used where it is
installed, and the standard library otherwise.
"""

import json
import os
import re
import subprocess
import sys
import urllib.request
from typing import Any

try:
    from openai import OpenAI
except ImportError:
    OpenAI = None

DONE = "done"
"""The answer that ends the work."""
SECONDS = 10
"""For one command."""
SHOWN = 200
"""Characters of a command's output that the model sees, the last ones."""
FENCE = re.compile(r"```(?:bash|sh)?\n(.*?)```", re.DOTALL)


def ask(messages: list[dict[str, str]]) -> str:
    """The model's answer."""
    url, key = os.environ["OPENAI_BASE_URL"], os.environ["OPENAI_API_KEY"]
    body: dict[str, Any] = {"model": os.environ.get("UPTURN_MODEL", "default"), "messages": messages}
    if OpenAI is not None:
        with OpenAI(base_url=url, api_key=key) as client:
            return client.chat.completions.create(**body).choices[0].message.content or ""
    headers = {"content-type": "application/json", "authorization": f"Bearer {key}"}
    request = urllib.request.Request(f"{url}/chat/completions", json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=600) as response:
        return json.load(response)["choices"][0]["message"]["content"] or ""


def run(command: str) -> str:
    """What the command wrote, and its exit code where that is not 0."""
    try:
        end = subprocess.run(
            ["sh", "-c", command], capture_output=True, text=True, errors="replace", timeout=SECONDS, check=False
        )
    except (subprocess.TimeoutExpired, ValueError) as exc:  # ValueError: a null byte in the command
        return f"error failed: {exc}"[-SHOWN:]
    output = (end.stdout + end.stderr).strip()[-SHOWN:]
    return output or "ok" if end.returncode == 0 else f"error exit_{end.returncode}: {output}"


def work(task: str) -> None:
    """Works on the task until the model says that it is done."""
    messages = [{"role": "user", "content": task}]
    while True:
        answer = ask(messages)
        fenced = FENCE.search(answer)
        command = (answer if fenced is None else fenced[1]).strip()
        if command == DONE:
            return
        messages += [{"role": "assistant", "content": answer}, {"role": "user", "content": run(command)}]


if __name__ == "__main__":
    work(json.load(sys.stdin)["task"])
