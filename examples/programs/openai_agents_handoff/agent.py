"""Two agents of the OpenAI Agents SDK: the desk finds a mail and hands it to the clerk, who says the number in it.

    pip install openai-agents
    echo '{"task": "say how much report oslo is by ann.lee"}' | python agent.py

The mailbox is `mails.json` in the working folder. The models are whatever `OPENAI_BASE_URL` serves: "gpt-4.1" is the
desk's, "gpt-4.1-mini" the clerk's.
"""

import asyncio
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from agents import (
    Agent,
    FunctionTool,
    HandoffInputData,
    OpenAIProvider,
    RunConfig,
    Runner,
    function_tool,
    handoff,
    set_tracing_disabled,
)
from openai import AsyncOpenAI
from pydantic import BaseModel

set_tracing_disabled(True)  # traces go to OpenAI otherwise


class Flagged(BaseModel):
    """What the desk hands over."""

    ids: str


def search_in(mails: list[dict[str, str]]) -> FunctionTool:
    """A tool that sees these mails."""

    @function_tool(strict_mode=False)
    def search(sender: str = "", subject: str = "") -> str:
        """Lists the mails of a sender, or with these words in the subject, or both."""
        lines = [
            f"{mail['id']} {mail['at']} {mail['sender']}: {mail['subject']}"
            for mail in mails
            if sender in mail["sender"] and subject in mail["subject"]
        ]
        return "\n".join(lines) or "no mails"

    return search


def desk(folder: Path) -> Agent[Any]:
    """The desk, which searches the mailbox; it cannot read mails. The clerk sees the one that it is handed."""
    mails: list[dict[str, str]] = json.loads((folder / "mails.json").read_text(encoding="utf-8"))
    handed: list[dict[str, str]] = []

    @function_tool
    def read(id: str) -> str:
        """Shows the text of a mail."""
        return next((mail["text"] for mail in handed if mail["id"] == id), f"no mail {id}")

    def take(_context: Any, flagged: Flagged) -> None:
        handed.extend([mail for mail in mails if mail["id"] == flagged.ids][:1])

    def brief(data: HandoffInputData) -> HandoffInputData:
        """What the clerk is told: the mail, and none of the desk's work."""
        asked = [f"what number does {mail['sender']} give in the {mail['subject']} mail?" for mail in handed]
        return replace(data, input_history=asked[0] if asked else "no mail", pre_handoff_items=(), new_items=())

    clerk = Agent[Any](name="clerk", model="gpt-4.1-mini", tools=[search_in(handed), read])
    flag = handoff(
        clerk,
        tool_name_override="flag",
        tool_description_override="Flags a mail for the clerk, who reads it and answers.",
        input_type=Flagged,
        on_handoff=take,
        input_filter=brief,
    )
    return Agent[Any](name="desk", model="gpt-4.1", tools=[search_in(mails)], handoffs=[flag])


async def answer(first: Agent[Any], question: str, client: AsyncOpenAI) -> str:
    """What the last agent says."""
    config = RunConfig(model_provider=OpenAIProvider(openai_client=client))
    return str((await Runner.run(first, question, max_turns=10, run_config=config)).final_output)


async def act(attempt: Any) -> str:
    """The same in a process that has imported this file already."""
    async with AsyncOpenAI(base_url=attempt.base_url, api_key=attempt.api_key) as client:
        return await answer(desk(Path(attempt.folder)), attempt.task, client)


if __name__ == "__main__":
    print(asyncio.run(answer(desk(Path()), json.load(sys.stdin)["task"], AsyncOpenAI())))
