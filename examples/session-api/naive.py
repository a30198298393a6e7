"""A back end whose lock is the agent's own id of the conversation, which a new chat does not have yet."""

import asyncio
import json
import sys
import uuid
from collections import defaultdict
from pathlib import Path

from fastapi import FastAPI
from pydantic import BaseModel

AGENT = [sys.executable, str(Path(__file__).with_name("one_shot_agent.py"))]

app = FastAPI()
agent_ids: dict[str, str] = {}
locks: dict[str, asyncio.Lock] = defaultdict(asyncio.Lock)


class Message(BaseModel):
    text: str


@app.post("/chats/{chat}/messages")
async def post_message(chat: str, message: Message):
    # Read before the lock, and not again when the lock is held.
    agent_id = agent_ids.get(chat)
    async with locks[agent_id or str(uuid.uuid4())]:
        resume = ["--resume", agent_id] if agent_id else []
        agent = await asyncio.create_subprocess_exec(*AGENT, *resume, message.text, stdout=asyncio.subprocess.PIPE)
        said = json.loads((await agent.communicate())[0])
        agent_ids[chat] = said["session_id"]
        return {"answer": said["result"]}
