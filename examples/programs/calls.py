"""The two HTTP calls of these programs: a chat completion, and any other JSON.

The client `openai` is used where it is installed, and the standard library otherwise. Nothing here knows Upturn.
"""

import json
import urllib.request
from typing import Any

try:
    from openai import OpenAI
except ImportError:
    OpenAI = None


def complete(base_url: str, key: str, **body: Any) -> Any:
    """The first choice of a chat completion, as JSON: its `message` and its `finish_reason`."""
    if OpenAI is None:
        return post(f"{base_url}/chat/completions", key, body)["choices"][0]
    with OpenAI(base_url=base_url, api_key=key) as client:
        return client.chat.completions.create(**body).choices[0].to_dict()


def post(url: str, key: str, body: dict[str, Any]) -> Any:
    """The server's answer, as JSON. Raises urllib's HTTPError for a refusal."""
    headers = {"content-type": "application/json", "authorization": f"Bearer {key}"}
    request = urllib.request.Request(url, json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=600) as response:
        return json.load(response)
