"""Denies pushes and publications, and takes `--no-verify` out of commits. Works for one call and as a resident hook."""

import re

from interlock.hook import allow, deny, modify, serve  # or interlock_hook, a copy of that one file

PUBLISHES = re.compile(r"\b(git\b.*\bpush|(npm|cargo|uv)\b.*\bpublish|twine\b.*\bupload|gh\b.*\brelease)\b", re.DOTALL)


def before(call: dict) -> dict:
    """`subject` says the same for every agent; `input` is the agent's own."""
    command = call["subject"]["command"] or ""
    if PUBLISHES.search(command):
        return deny("publishing is done by people")
    if "git commit" in command and "--no-verify" in command:
        return modify({**call["input"], "command": command.replace("--no-verify", "")}, "commits are verified")
    return allow()


serve(before=before)
