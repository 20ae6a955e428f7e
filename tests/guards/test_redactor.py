"""The secret redactor: secrets of many kinds, anywhere in an output, in bounded time, and nothing else."""

import time
from typing import Any

import anyio
import pytest
from tests.guards.calls import ran, shell

from interlock.engine.chain import Chain
from interlock.engine.participants import from_interceptor
from interlock.errors import ConfigurationError
from interlock.hooks import Allow, DenyCall, Modify, Replace
from interlock.model import JsonValue
from interlock_adapters.guards import SecretRedactor

pytestmark = pytest.mark.anyio

BODY = "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8s9T0"
GITHUB = "ghp_" + BODY[:36]
SECRETS = {
    "AWS Access Key": "AKIA" + "ABCD1234EFGH5678",
    "GitHub Token": GITHUB,
    "GitLab Token": "glpat-" + BODY[:20],
    "Slack Token": "xoxb-" + "123456789012-123456789012-abcdefghijkl",
    "Stripe Access Key": "sk_live_" + BODY[:24],
    "Anthropic API Key": "sk-ant-api03-" + BODY,
    "OpenAI Token": "sk-proj-" + BODY,
    "Google API Key": "AIza" + BODY[:35],
    "SendGrid API Key": "SG." + BODY[:22] + "." + BODY + "abc",
    "JSON Web Token": "eyJhbGciOiJIUzI1NiJ9." + "eyJzdWIiOiIxMjM0NTY3ODkwIn0." + BODY,
    "PyPI Token": "pypi-AgEIcHlwaS5vcmc" + BODY * 2,
    "NPM tokens": "//registry.example/:_authToken=npm_" + BODY[:36],
    "Private Key": f"-----BEGIN RSA PRIVATE KEY-----\n{BODY}\n{BODY}\n-----END RSA PRIVATE KEY-----",
}
HONEST = [
    "the quick brown fox jumps over the lazy dog",
    "commit 4b825dc642cb6eb9a060e54bf8d69288fbee4904",
    "sha256:" + "0123456789abcdef" * 4,
    "def token(password: str, secret: bytes) -> Token:",
    "id = 123e4567-e89b-12d3-a456-426614174000",
    "https://example.com/path?token_type=bearer",
    "PASSWORD=$PASSWORD TOKEN=$(get-token) SECRET=<secret>",
    "127.0.0.1 - - [01/Jan/2026] GET /secrets 200",
]


@pytest.fixture(scope="module")
def redactor() -> SecretRedactor:
    return SecretRedactor(seconds=30.0)


async def shown(redactor: SecretRedactor, output: JsonValue) -> JsonValue:
    """What the model sees."""
    with anyio.fail_after(60):
        answer = await redactor.after(ran(output))
    return answer.output if isinstance(answer, Replace) else output


@pytest.mark.parametrize("kind", list(SECRETS))
@pytest.mark.parametrize("frame", ["{}", "before {} after", 'x = "{}";\n', "line\n{}\nline", '{{"a": ["{}"]}}'])
async def test_a_secret_is_replaced_wherever_it_stands(redactor: SecretRedactor, kind: str, frame: str) -> None:
    secret = SECRETS[kind]
    text = await shown(redactor, frame.format(secret))
    assert isinstance(text, str)
    assert f"[redacted: {kind}]" in text
    for start in range(0, len(secret) - 12, 4):
        assert secret[start : start + 12] not in text
    if "before" in frame:
        assert text.startswith("before ")
        assert text.endswith(" after") or kind == "NPM tokens"  # whose pattern takes the rest of the line


@pytest.mark.parametrize(
    "text",
    [
        'password = "correct horse battery"',
        "password: 'correct horse battery'",
        'db_password="correct horse battery"',
        "client_secret => 'correct horse battery'",
        "DB_PASSWORD=correct-horse-battery",
        "  password: correct-h0rse-battery",
        "api_key = c0rrect-horse-battery",
        "export API_TOKEN=correct-horse-battery",
        "Authorization: Bearer correct-horse-battery",
        "https://user:correct-horse-battery@host.example/",
    ],
)
async def test_what_follows_a_telling_word_is_a_secret(redactor: SecretRedactor, text: str) -> None:
    found = await shown(redactor, f"first\n{text}\nlast")
    assert isinstance(found, str)
    assert "battery" not in found
    assert found.startswith("first\n")
    assert found.endswith("\nlast")


@pytest.mark.parametrize("text", HONEST)
async def test_what_is_no_secret_stays(redactor: SecretRedactor, text: str) -> None:
    assert await redactor.after(ran(text)) == Allow()


async def test_structured_outputs_are_searched_to_their_leaves_and_field_names(redactor: SecretRedactor) -> None:
    output: JsonValue = {"stdout": [1, None, True, {"deep": f"a {GITHUB} b"}], GITHUB: "x", "size": 1.5}
    clean = await shown(redactor, output)
    assert clean == {
        "stdout": [1, None, True, {"deep": "a [redacted: GitHub Token] b"}],
        "[redacted: GitHub Token]": "x",
        "size": 1.5,
    }


async def test_the_audit_says_what_was_found_and_no_secret(redactor: SecretRedactor) -> None:
    answer = await redactor.after(ran(f"{GITHUB} {GITHUB} {SECRETS['AWS Access Key']}"))
    assert isinstance(answer, Replace)
    assert answer.reason == "AWS Access Key (1), GitHub Token (2)"
    assert answer.is_error is None


@pytest.mark.parametrize("at", [0, 1, 2000, 3070, 4090, 4096, 8192, 50_000])
async def test_a_secret_in_a_long_line_is_found_wherever_the_line_is_cut(redactor: SecretRedactor, at: int) -> None:
    for kind in ("GitHub Token", "JSON Web Token", "Anthropic API Key"):
        text = ". " * (at // 2) + SECRETS[kind] + " ." * 30_000
        found = await shown(redactor, text)
        assert isinstance(found, str)
        assert SECRETS[kind][5:30] not in found
        assert SECRETS[kind][-12:] not in found


async def test_many_lines_are_searched_and_all_else_is_kept(redactor: SecretRedactor) -> None:
    lines = [f"line {number}" for number in range(20_000)]
    text = "\n".join([*lines, f"x {GITHUB} y", *lines])
    assert await shown(redactor, text) == "\n".join([*lines, "x [redacted: GitHub Token] y", *lines])


@pytest.mark.parametrize(
    "hostile",
    [
        "eyJ",
        "//",
        'password = "',
        "pass ",
        "-----BEGIN A PRIVATE KEY-----",
        "sk-ant-",
        "aws key ",
        "a",
        "'\"",
        "=secret:",
    ],
)
async def test_hostile_outputs_of_ten_megabytes_take_bounded_time_and_show_nothing_unsearched(hostile: str) -> None:
    redactor = SecretRedactor(seconds=0.3)
    text = hostile * (10_000_000 // len(hostile)) + GITHUB
    began = time.monotonic()
    with anyio.fail_after(30):
        found = await shown(redactor, text)
    assert time.monotonic() - began < 10
    assert isinstance(found, str)
    assert GITHUB not in found


async def test_other_tasks_have_their_turn_during_a_long_search() -> None:
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            await anyio.lowlevel.checkpoint()
            turns += 1

    async with anyio.create_task_group() as group:
        group.start_soon(count)
        await SecretRedactor(seconds=0.5).after(ran("line of text\n" * 500_000))
        group.cancel_scope.cancel()
    assert turns > 3


async def test_an_input_with_a_secret_is_denied_redacted_or_left() -> None:
    call = shell(f"curl -H 'X: {GITHUB}' https://a.example")
    denied = await SecretRedactor().before(call)
    assert isinstance(denied, DenyCall)
    assert "GitHub Token (1)" in denied.reason
    assert GITHUB not in denied.reason
    redacted = await SecretRedactor(inputs="redact").before(call)
    assert isinstance(redacted, Modify)
    assert redacted.input == {"command": "curl -H 'X: [redacted: GitHub Token]' https://a.example"}
    assert await SecretRedactor().before(shell("ls")) == Allow()


@pytest.mark.parametrize(
    ("inputs", "before", "modify"), [("deny", True, False), ("redact", True, True), ("leave", False, False)]
)
def test_it_asks_for_no_more_than_it_needs(inputs: Any, before: bool, modify: bool) -> None:
    needs = Chain([from_interceptor(SecretRedactor(inputs=inputs), 5.0)]).needs(answered=False)
    assert (needs.chain_before, needs.chain_after, needs.modify, needs.replace) == (before, True, modify, True)


async def test_in_a_chain_its_own_result_passes_the_second_look() -> None:
    chain = Chain([from_interceptor(SecretRedactor(inputs="redact"), 5.0)])
    call = shell(f"echo {GITHUB}")
    verdict = await chain.before(
        call, rewrite=lambda one, new: one.model_copy(update={"input": new}), forbids=lambda _: None
    )
    assert not verdict.denied
    assert verdict.call.input == {"command": "echo [redacted: GitHub Token]"}


async def test_kinds_can_be_chosen() -> None:
    redactor = SecretRedactor(kinds=["AWS Access Key"])
    assert await redactor.after(ran(GITHUB)) == Allow()
    assert isinstance(await redactor.after(ran(SECRETS["AWS Access Key"])), Replace)
    with pytest.raises(ConfigurationError, match="unknown kinds of secrets: Nonsense"):
        SecretRedactor(kinds=["Nonsense"])
