"""A server of chat completions over ``generate`` of transformers: ``python -m … PORT THREADS WIDTH LAYERS``.

As ``transformers serve`` without continuous batching: requests one after another, each prompt computed as a whole.
"""

import asyncio
import json
import sys
from typing import Any

from aiohttp import web

from benchmarks.program.chat_models import load_measured
from benchmarks.workloads import ModelSpec


class ChatServer:
    """Answers with a sampled text."""

    def __init__(self, spec: ModelSpec) -> None:
        self._local = load_measured("qwen2_5", spec)
        self._lock = asyncio.Lock()

    async def answer(self, request: web.Request) -> web.Response:
        """One completion; the others wait."""
        body = await request.json()
        async with self._lock:
            said, count = await asyncio.to_thread(self._generate, body)
        choice = {"index": 0, "message": {"role": "assistant", "content": said}, "finish_reason": "length"}
        usage = {"prompt_tokens": count, "completion_tokens": 0, "total_tokens": count}
        raw = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}
        return web.Response(body=json.dumps(raw | {"usage": usage}).encode(), content_type="application/json")

    def _generate(self, body: dict[str, Any]) -> tuple[str, int]:
        import torch

        chat: Any = self._local.chat
        model: Any = self._local.model
        text = chat.apply_chat_template(body["messages"], add_generation_prompt=True, tokenize=False)
        prompt = torch.tensor([chat.encode(text, add_special_tokens=False)])
        with torch.inference_mode():
            ids = model.generate(
                prompt,
                attention_mask=torch.ones_like(prompt),
                max_new_tokens=body["max_tokens"],
                do_sample=True,
                top_k=0,
                eos_token_id=chat.eos_token_id,
                pad_token_id=chat.eos_token_id,
            )
        return chat.decode(ids[0, prompt.shape[1] :], skip_special_tokens=True), prompt.shape[1]


def serve(port: int, threads: int, spec: ModelSpec) -> None:
    """Serves until the process ends."""
    import torch

    torch.set_num_threads(threads)
    app = web.Application(client_max_size=2**26)
    app.router.add_post("/v1/chat/completions", ChatServer(spec).answer)
    web.run_app(app, host="127.0.0.1", port=port, print=None)


if __name__ == "__main__":
    serve(int(sys.argv[1]), int(sys.argv[2]), ModelSpec(width=int(sys.argv[3]), layers=int(sys.argv[4])))
