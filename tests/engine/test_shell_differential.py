"""Real shells run generated command lines over stub programs; whatever they start, the split has said.

Nothing real is run: PATH holds stubs that write down their own words, and a few wrappers that start them. By default
the samples are small; INTERLOCK_LONG=1 takes a hundred thousand for the grammar, and thousands for real shells.
"""

import os
import random
import shutil
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest

from interlock.engine.places import Place
from interlock.engine.rules import Rules
from interlock.engine.shell_split import Part, Split, split
from interlock.engine.shell_text import could_run, could_say
from interlock.tools import Subject, ToolCall, ToolKind

LONG = os.environ.get("INTERLOCK_LONG") == "1"
STUBS = ["git", "ls", "rm", "cat", "foo"]
WRAPPERS = ["env", "timeout", "nice", "xargs", "find", "sh", "bash", "nohup", "stdbuf"]
SHELLS = [shell for shell in ("bash", "dash", "zsh") if shutil.which(shell)]
PLACE = Place.of("/ws", home="/home/me")


# ---- Command lines --------------------------------------------------------------------------------------------------

WORDS = ["a", "-f", "b.c", "--x=y", "HEAD^", "@{u}", "e=~/x", "*.py", "[f]*", "{a,b}", "~", "\\a", "a\\ b", "\\;"]
EXPANSIONS = ["$V", "${V}", "${W:-z}", "${V#r}", "$@", "$#", "$W$V", "a$W", '"$V"', '"a${W}b"', '"$((1+2))"']
QUOTED = ["'a b'", "'$V'", "';rm x'", "'`rm`'", '"a\\"b"', '"\\$V"', '"!"', '"$"', "''"]
BEFORE = ["A=1 ", "timeout 5 ", "env ", "nice -n 5 ", "command ", "time ", "exec ", "! ", "nohup ", "2>/dev/null "]
BEFORE += [">f ", "xargs ", "stdbuf -oL ", "builtin command ", "eval ", "a=$(rm z) ", "env -i A=1 "]
BEHIND = [" >f", " 2>&1", " >/dev/null", " <f.py", " &>f", " >f b", " >&2", " <<<x", ' <<<"$(rm h)"', " # rm z"]
BEHIND += [" <<EOF\nrm x\nEOF", " <<'EOF'\n$(rm x)\nEOF", " <<EOF\n$(rm x)\nEOF", " <<-E\n\ta\n\tE"]
BEHIND += [' <<"A" | git\nb\nA', " <<A <<B\na\nA\nb\nB", " <<A\na\\\nA\nrm w\nA", " <<A && rm q\n x\nA"]
JOINS = ["; ", " && ", " || ", " | ", "\n", " & ", ";", "&&", "|", " |\n ", "\n# c\n", " |& "]
TOKENS = r"""
    $V ${V} ${W:-rm} $( ` ) ( { } ; && || | & < > >> <<< ' " \ # * ? [ ] ~ ! = A=1 if then fi else for in do done case
    esac ;; f() time exec eval env xargs sh bash -c $(( )) (( [[ ]] -f 1 2 <( >( - -- 2>&1 &> >& <& $' coproc {a,b} é
"""
SOUP = [*STUBS, *TOKENS.split(), "\n", "\\\n", "<<EOF", "\nEOF\n", "\t", "\r", "\v", "\u00a0"]


class Writer:
    """Writes command lines at random."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def word(self, depth: int) -> str:
        chance = self.random.random()
        if chance < 0.1 and depth > 0:
            return self.random.choice(["$( {})", '"$( {})"', "<({})", "`{}`"]).replace("{}", self.line(depth - 1))
        return self.random.choice(WORDS + EXPANSIONS + QUOTED) + (self.random.choice(QUOTED) if chance > 0.85 else "")

    def command(self, depth: int) -> str:
        name = self.random.choice([*STUBS, *STUBS, "'rm'", "\\rm", "r''m", "$V", "{rm,b}", "rm$W"])
        text = " ".join([name, *(self.word(depth) for _ in range(self.random.randint(0, 3)))])
        if self.random.random() < 0.15:
            text = self.random.choice(BEFORE) + text
        if self.random.random() < 0.2:
            text += self.random.choice(BEHIND)
        if self.random.random() < 0.05:
            text = self.wrapped(text)
        return text

    def wrapped(self, text: str) -> str:
        quoted = text.replace("'", "'\\''")
        forms = [f"sh -c '{quoted}'", f'bash -c "{text}"', f"find . -maxdepth 0 -exec {text} \\;", f"eval '{quoted}'"]
        return self.random.choice([*forms, f"echo a | xargs -I{{}} {text} {{}}", f"[ -f f.py ] && {text}"])

    def line(self, depth: int) -> str:
        if depth <= 0 or self.random.random() < 0.4:
            return self.command(depth)
        one, two = self.line(depth - 1), self.line(depth - 1)
        if self.random.random() < 0.5:
            return one + self.random.choice(JOINS) + two
        return self.random.choice(self.blocks(one, two))

    def blocks(self, one: str, two: str) -> list[str]:
        return [
            *(f"( {one} )", f"{{ {one}; }}", f"if {one}; then {two}; fi", f"if {one}\nthen {two}\nelse foo\nfi"),
            *(f"for i in a b; do {one}; done", f"for i in $V\ndo {one}\ndone", f"f() {{ {one}; }}; f", f"! {one}"),
            *(f"case x in x) {one};; *) {two};; esac", f"while false; do {one}; done; {two}", f"{{ {one}\n}} | ls"),
            *(
                f"x=$({one}); {two}",
                f"(( 1 + $({one}) ))",
                f"[[ -f x || $({one}) ]]",
                f"time {{ {one}; }}",
                f"({one}) >f",
            ),
        ]

    def mutated(self, text: str) -> str:
        at = self.random.randrange(len(text))
        return text[:at] + self.random.choice([*SOUP, " ", ""]) + text[at + self.random.randint(0, 2) :]

    def soup(self) -> str:
        chosen = (self.random.choice(SOUP) for _ in range(self.random.randint(2, 12)))
        return "".join(token + self.random.choice([" ", " ", ""]) for token in chosen)


# ---- Real shells ----------------------------------------------------------------------------------------------------


class Stage:
    """A folder with stub programs, and the record of what was run."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.log = root / "log"
        (root / "bin").mkdir()
        for name in STUBS:
            stub = root / "bin" / name
            stub.write_text(self._stub(name), encoding="utf-8")
            stub.chmod(0o755)
        for name in WRAPPERS:
            (root / "bin" / name).symlink_to(shutil.which(name) or "/nonexistent")

    def _stub(self, name: str) -> str:
        record = f"printf '%s\\0' {name} \"$@\" '\x01' >> {self.log}"
        stop = f"[ $(/usr/bin/wc -c < {self.log}) -gt 4000 ] && kill -9 -$(/bin/cat {self.root}/group)"
        return f"#!/bin/sh\n{record}\n{stop}\nexit $(( $# % 2 ))\n"

    def run(self, shell: str, command: str) -> list[list[str]]:
        """The words of every program that the shell started."""
        self.log.write_bytes(b"")
        work = self.root / "work"
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir()
        (work / "f.py").write_text("", encoding="utf-8")
        env = {"PATH": str(self.root / "bin"), "HOME": "/nonexistent", "LC_ALL": "C.UTF-8", "V": "rm v", "W": "w"}
        argv = [shutil.which(shell) or shell, *(["-f"] if shell == "zsh" else []), "-c", command]
        quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        with subprocess.Popen(argv, cwd=work, env=env, start_new_session=True, **quiet) as process:
            (self.root / "group").write_text(str(process.pid), encoding="utf-8")
            with suppress(subprocess.TimeoutExpired):
                process.wait(1)
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        return self._recorded()

    def _recorded(self) -> list[list[str]]:
        found: list[list[str]] = [[]]
        for item in self.log.read_bytes().split(b"\0")[:-1]:
            if item == b"\x01":
                found.append([])
            else:
                found[-1].append(item.decode(errors="surrogateescape"))
        return found[:-1]


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


def foretold(argv: list[str], parts: tuple[Part, ...]) -> bool:
    """Whether one of the parts could be this run of a stub."""
    return any(
        could_run(part.words, (argv[0],), prefix=True)
        and (
            could_say(part.words[1:], tuple(argv[1:]), skipping=False)
            or part.words[0].splits
            or (part.words[0].many and could_say(part.words, tuple(argv), skipping=False))
        )
        for part in parts
    )


def is_comparable(found: Split) -> bool:
    """A script is looked for on PATH, where it would be one of our stubs."""
    return not found.hidden and not any(
        len(part.words) > 1 and part.role == "wrapper" and part.words[0].literal in {".", "source", "sh", "bash"}
        for part in found.parts
    )


@pytest.mark.parametrize("kind", ["lines", "mutated", "soup"])
def test_whatever_a_real_shell_starts_was_foretold(stage: Stage, kind: str) -> None:
    writer = Writer(2_026)
    for _ in range(3_000 if LONG else 60):
        text = writer.soup() if kind == "soup" else writer.line(3)
        text = writer.mutated(text) if kind == "mutated" else text
        found = split(text)
        if not is_comparable(found):
            continue
        for shell in SHELLS:
            if shell == "zsh" and not found.complete:
                continue
            for argv in stage.run(shell, text):
                assert foretold(argv, found.parts), (shell, text, argv)


# ---- The grammar alone ----------------------------------------------------------------------------------------------

FORMS = """
{} @ a; {} @ a && {} @ a | {} @ {} | a @ ({}) @ {{ {}; }} @ if {}; then a; fi @ a $( {}) @ a "$( {})" @ a `{}` @ a <({})
for i in b; do {}; done @ for i in $( {}); do a; done @ a; ! {} @ a & {} @ while a; do {}; done @ case x in x) {};; esac
f() {{ {}; }}; f @ x=$( {}) @ a ${{x:-$( {})}} @ a; A=1 {} @ timeout 5 {} @ nice {} @ xargs {} @ env {} @ sudo {}
command {} @ time {}
find . -exec {} \\; @ eval {} @ sh -c '{}' @ a <<< "$( {})" @ a > >({}) @ [ -f $( {}) ] @ a >/dev/null; {}
[[ $( {}) ]] @ a $((1 + $( {}))) @ a 2>&1 | {}
"""
LINES = ["a\n{}", "# a\n{}", "a \\\n && {}", "a <<E\n$( {})\nE", "a <<'E'\nx\nE\n{}", "a <<E; {}\nx\nE"]
PLACES = [form.strip() for line in FORMS.strip().splitlines() for form in line.split(" @ ")] + LINES
DISGUISES = (
    """rm @ rm -rf x @ 'rm' x @ \\rm x @ r''m x @ /bin/rm x @ RM x @ $X @ ${X} y @ r$X @ {rm,x} @ /*/rm @ "$X\""""
)
OUTSIDE = DISGUISES.split(" @ ")


def outside_line(source: random.Random) -> str:
    """A line of allowed commands with one among them that is not."""
    text = source.choice(OUTSIDE)
    for _ in range(source.randint(0, 3)):
        form = source.choice(PLACES)
        quoted = "'" in text and ("'" in form or form == "eval {}")
        ends_early = form.startswith("a <<E\n") and "case" in text
        if quoted or ends_early or ("\n" in text and "{}\nx" in form) or ("`" in text and "`" in form):
            form = "a; {}"
        text = form.format(text)
    return text


def test_no_line_with_a_part_outside_passes_an_allow_rule_and_every_one_runs_into_the_deny_rule() -> None:
    source = random.Random(7)
    allowed = Rules(["shell(a:*)", "shell(b:*)", "shell(f:*)", "shell(find:*)", "shell(test:*)"], "allow", PLACE)
    denied = Rules(["shell(rm:*)"], "deny", PLACE)
    for _ in range(100_000 if LONG else 2_000):
        text = outside_line(source)
        subject = Subject(command=text)
        call = ToolCall(tool_call_id="1", tool_name="Bash", input={}, tool_kind=ToolKind.SHELL, subject=subject)
        assert allowed.match(call) is None, text
        assert denied.match(call) is not None, text
