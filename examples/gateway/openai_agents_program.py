"""An openai-agents program whose model is the gateway, by URL alone.

pip install openai-agents
upturn up                                     # in another terminal
OPENAI_BASE_URL=http://127.0.0.1:8000/v1 OPENAI_API_KEY=none python examples/gateway/openai_agents_program.py
"""

import os

from agents import Agent, Runner, set_tracing_disabled

set_tracing_disabled(True)  # traces go to OpenAI otherwise
clerk = Agent(name="clerk", model=os.environ.get("UPTURN_MODEL", "default"))

if __name__ == "__main__":
    result = Runner.run_sync(clerk, "Move the mail from Ann to the folder archive.")
    print(result.final_output)
