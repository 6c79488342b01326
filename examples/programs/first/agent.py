"""A program that knows nothing of Upturn: one call of a model by URL, and its answer on standard output."""

import json
import os
from urllib.request import Request, urlopen


def ask(messages):
    body = json.dumps({"model": "any", "messages": messages}).encode()
    headers = {"authorization": f"Bearer {os.environ['OPENAI_API_KEY']}", "content-type": "application/json"}
    with urlopen(Request(f"{os.environ['OPENAI_BASE_URL']}/chat/completions", body, headers)) as answer:
        return json.load(answer)["choices"][0]["message"]["content"]


task = json.loads(os.environ["UPTURN_TASK"])["instruction"]
print(ask([{"role": "user", "content": task}]))
