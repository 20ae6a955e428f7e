"""A `claude` that costs next to nothing: it prints prepared bytes, so that what is measured is who reads them.

Installed as a program named `claude` in a folder of its own, with a file `script` beside it of `key=value` lines:

    output   file that is printed once there is a prompt
    calls    there are lines `#call ID INPUT` in it: there the hooks are asked, if somebody registered some
    ending   file that is printed after it, with the result
    gate     fifo that must be written to before the ending is printed
    asks     how many times it asks whether a tool may run; the round trips in nanoseconds go to `times`
    times    file for them
    sleeps   file for its own process id and that of a child in a session of its own; then it waits
    deaf     it waits without reading what it is told

It imports nothing but what every interpreter has loaded already, so that its start is that of the bare interpreter.
"""

# ruff: noqa: PTH100, PTH104, PTH109, PTH118, PTH120, PTH123 -- pathlib is an import that it would pay for

import os
import sys
import time

STDIN, STDOUT = 0, 1
PIECE = 1 << 18
ASK = (
    b'{"type":"control_request","request_id":"ask-%s","request":{"subtype":"can_use_tool","tool_name":"Bash",'
    b'"input":%s,"tool_use_id":"%s","permission_suggestions":[]}}\n'
)
HOOK = (
    b'{"type":"control_request","request_id":"hook-%s","request":{"subtype":"hook_callback","callback_id":"before",'
    b'"input":{"session_id":"s","transcript_path":"/t","cwd":"%s","permission_mode":"default",'
    b'"hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":%s,"tool_use_id":"%s"},"tool_use_id":"%s"}}\n'
)
SUCCESS = b'{"type":"control_response","response":{"subtype":"success","request_id":"%s","response":%s}}\n'


def script():
    """What this agent is to do."""
    with open(os.path.join(os.path.dirname(os.path.abspath(sys.argv[0])), "script"), encoding="utf-8") as file:
        return dict(line.rstrip("\n").split("=", 1) for line in file)


def settings():
    """The settings of the command line, as JSON."""
    for place, argument in enumerate(sys.argv):
        if argument.startswith("--settings="):
            return argument[len("--settings=") :]
        if argument == "--settings":
            return sys.argv[place + 1]
    return "{}"


def say(data):
    """Print bytes."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(STDOUT, rest) :]


def say_file(path):
    """Print a file."""
    with open(path, "rb", buffering=0) as file:
        while data := file.read(PIECE):
            say(data)


def answer(line):
    """Answer a control request."""
    request_id = line.partition(b'"request_id"')[2].split(b'"', 2)[1]
    if b'"get_settings"' in line:
        given = settings().encode()
        body = b'{"effective":{},"sources":[{"source":"flagSettings","settings":%s}]}' % given
    else:
        body = b'{"hook_on_failure_supported":true,"hooks_applied":true,"claude_code_version":"2.1.332"}'
    say(SUCCESS % (request_id, body))


def hook(name, native, lines):
    """Ask the hook about a call, and wait for its answer."""
    say(HOOK % (name, os.getcwdb(), native, name, name))
    next(lines)


def say_with_calls(path, lines, hooked):
    """Print a file, and ask the hooks before each call."""
    with open(path, "rb") as file:
        first, *rest = file.read().split(b"#call ")
    say(first)
    for piece in rest:
        call, _, text = piece.partition(b"\n")
        if hooked:
            hook(*call.split(b" ", 1), lines)
        say(text)


def ask(count, times, lines, hooked):
    """Ask so often whether a tool may run, and write down how long each answer took."""
    took = []
    for number in range(count):
        name, native = b"toolu_%d" % number, b'{"command":"ls %d"}' % number
        if hooked:
            hook(name, native, lines)
        began = time.perf_counter_ns()
        say(ASK % (name, native, name))
        next(lines)
        took.append(time.perf_counter_ns() - began)
    with open(times, "w", encoding="utf-8") as file:
        file.write("\n".join(map(str, took)))


def wait_for_the_end(todo, lines):
    """Start a child in a session of its own, say who both are, and wait; an interrupt ends the turn."""
    child = os.fork()
    if child == 0:
        os.setsid()
        os.execv("/bin/sleep", ["sleep", "600"])
    with open(todo["sleeps"] + ".part", "w", encoding="utf-8") as file:
        file.write(f"{os.getpid()} {child}")
    os.rename(todo["sleeps"] + ".part", todo["sleeps"])
    if "deaf" in todo or lines is None:
        time.sleep(600)
    for line in lines:
        if b'"interrupt"' in line:
            answer(line)
            return


def turn(todo, lines, hooked):
    """One turn, from the prompt to the result."""
    if "calls" in todo:
        say_with_calls(todo["output"], lines, hooked)
    else:
        say_file(todo["output"])
    if "asks" in todo:
        ask(int(todo["asks"]), todo["times"], lines, hooked)
    if "sleeps" in todo:
        wait_for_the_end(todo, lines)
    if "gate" in todo:
        with open(todo["gate"], "rb", buffering=0):
            pass  # opening it for reading is what waits
    say_file(todo["ending"])


def read_lines():
    """The lines of stdin; nothing is read ahead beyond what is there."""
    held = b""
    while data := os.read(STDIN, PIECE):
        *lines, held = (held + data).split(b"\n")
        yield from lines


def main():
    """Print at once, or speak the control protocol first where stdin is spoken."""
    todo, hooked = script(), False
    if not any("input-format" in argument for argument in sys.argv):
        turn(todo, None, hooked)
        return
    lines = read_lines()
    for line in lines:
        if b'"control_request"' in line:
            hooked = hooked or b"hookCallbackIds" in line
            answer(line)
        elif b'"user"' in line:
            turn(todo, lines, hooked)


if __name__ == "__main__":
    main()
