"""A person in the chat, for replays.

say.py PLATFORM_SOCKET CHAT TEXT    says something
say.py PLATFORM_SOCKET              prints what the bot said: a line for each answer, chat and text
"""

import sys

from unix_http import call

platform, *words = sys.argv[1:]
if words:
    call(platform, "POST", "/messages", dict(zip(("chat", "text"), words)))
else:
    for answer in call(platform, "GET", "/answers")[1]:
        print(answer["chat"], answer["text"])
