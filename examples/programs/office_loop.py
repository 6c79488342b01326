"""An agent for Upturn's office that is a plain loop: ask the model, carry out its calls, show it what happened.

    upturn train grpo --config office_loop.toml        (in this folder)

As a function, `import_path = "office_loop:act"`; as a command, `command = ["python", "office_loop.py"]`. The loop
trains no model and counts no token: it talks to a chat completions URL, as it would in production.
"""

import json
import os
import sys
import urllib.request
from typing import Any, NamedTuple


class Work(NamedTuple):
    """One task, and where the model and the office are."""

    task: str
    tools: list[Any]
    base_url: str
    environment_url: str
    api_key: str
    model: str


def post(url: str, key: str, body: dict[str, Any]) -> Any:
    """The server's answer, as JSON. Raises urllib's HTTPError for a refusal."""
    headers = {"content-type": "application/json", "authorization": f"Bearer {key}"}
    request = urllib.request.Request(url, json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=600) as response:
        return json.load(response)


def act(work: Any) -> None:
    """Works on the task until the office says that it is over. `work`: a `Work`, or Upturn's `Attempt`."""
    messages: list[Any] = [{"role": "user", "content": work.task}]
    is_over = False
    while not is_over:
        body = {"model": work.model, "messages": messages, "tools": work.tools}
        choice = post(f"{work.base_url}/chat/completions", work.api_key, body)["choices"][0]
        message = choice["message"]
        messages.append(message)
        calls = message.get("tool_calls") or []
        for call in calls:
            function = {"name": call["function"]["name"], "arguments": call["function"]["arguments"]}
            result = post(f"{work.environment_url}/step", work.api_key, function)
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": result["observation"]})
            is_over = result["is_over"]
        if not calls:  # no call of a tool: the office says what is wrong with it
            text = "" if choice["finish_reason"] == "length" else message["content"]
            result = post(f"{work.environment_url}/step", work.api_key, {"text": text})
            messages.append({"role": "user", "content": result["observation"]})
            is_over = result["is_over"]


if __name__ == "__main__":
    attempt = json.load(sys.stdin)
    known = os.environ["OPENAI_BASE_URL"], os.environ["UPTURN_ENVIRONMENT_URL"], os.environ["OPENAI_API_KEY"]
    act(Work(attempt["task"], attempt["tools"], *known, os.environ["UPTURN_MODEL"]))
