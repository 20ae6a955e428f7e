// Hides tokens in outputs before the model sees them. Works for one call and as a resident hook; needs Node alone.
'use strict';
const readline = require('node:readline');

// Where JSON stands inside a text, the letter of an escape such as \n may stand right before a token.
const TOKEN = /(?:\b|(?<=\\[bfnrt]))(ghp_[A-Za-z0-9]{36}|AKIA[0-9A-Z]{16}|sk-[A-Za-z0-9_-]{20,})/g;

function hide(value) {
  if (typeof value === 'string') return value.replace(TOKEN, '[redacted]');
  if (Array.isArray(value)) return value.map(hide);
  if (value === null || typeof value !== 'object') return value;
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, hide(inner)]));
}

function answer(call) {
  if (call.event !== 'post_tool_use') return { decision: 'allow' };
  const output = hide(call.output);
  if (JSON.stringify(output) === JSON.stringify(call.output)) return { decision: 'allow' };
  return { decision: 'replace', output, reason: 'a token was hidden' };
}

// One call is a single line too. What throws ends the program, and that denies.
readline.createInterface({ input: process.stdin }).on('line', (line) => {
  const { id, ...call } = JSON.parse(line);
  console.log(JSON.stringify({ id, ...answer(call) })); // an id that is undefined is left out
});
