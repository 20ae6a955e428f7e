// The page asks for the state twice a second and shows it. All that comes from agents is set as text, never as markup.
'use strict';

const token = location.hash.slice(1);
const find = (id) => document.getElementById(id);
const cards = new Map(); // an approval's card is made once, so nothing moves or is lost while somebody types in it
const runs = new Map();

function made(tag, className, text) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  if (text !== undefined) element.textContent = text;
  return element;
}

async function ask(path, body) {
  const headers = { authorization: `Bearer ${token}` };
  const asked = body === undefined ? { headers } : { method: 'POST', headers, body };
  const answer = await fetch(path, asked);
  if (!answer.ok) throw new Error(await answer.text());
  return answer;
}

// Runs `work` and says what went wrong; true if nothing did.
async function saying(work) {
  try {
    await work();
    find('said').textContent = '';
    return true;
  } catch (trouble) {
    find('said').textContent = trouble.message;
    return false;
  }
}

function approvalCard(approval) {
  const card = made('article', 'card approval');
  card.dataset.agent = approval.agent;
  const head = made('div', 'head');
  head.append(made('span', 'agent', approval.agent), made('span', 'quiet', until(approval.deadline)));
  const why = made('div', 'quiet', `in ${approval.cwd}${approval.reason ? ` \u2014 ${approval.reason}` : ''}`);
  const edit = made('details');
  const input = made('textarea', 'input');
  input.value = approval.input;
  input.spellcheck = false;
  edit.append(made('summary', 'quiet', 'Edit the input'), input);
  edit.hidden = !approval.editable;
  const reason = made('input', 'reason');
  reason.placeholder = 'Why not? The model reads it.';
  const approve = made('button', 'approve', 'Approve');
  const deny = made('button', 'deny', 'Deny');
  const buttons = [approve, deny];
  const answer = async (body) => {
    buttons.forEach((button) => { button.disabled = true; });
    const sent = await saying(() => ask(`approvals/${encodeURIComponent(approval.id)}`, body()));
    if (!sent) buttons.forEach((button) => { button.disabled = false; });
  };
  approve.addEventListener('click', () => answer(() => {
    if (input.value === approval.input) return '{"decision": "approve"}';
    JSON.parse(input.value); // throws where it is no JSON; sent is the text itself, so that no number changes
    return `{"decision": "approve", "updated_input": ${input.value}}`;
  }));
  deny.addEventListener('click', () => answer(() => (
    JSON.stringify(reason.value ? { decision: 'deny', reason: reason.value } : { decision: 'deny' }))));
  input.addEventListener('input', () => {
    approve.textContent = input.value === approval.input ? 'Approve' : 'Approve as edited';
  });
  const row = made('div', 'row');
  row.append(approve, deny, reason);
  card.append(head, made('pre', 'display', approval.display), why, edit, row);
  return card;
}

function until(deadline) {
  return deadline === null ? '' : `denied at ${new Date(deadline * 1000).toLocaleTimeString()}`;
}

function runCard(run) {
  const card = made('article', 'card run');
  const head = made('div', 'head');
  const end = made('button', 'cancel', 'End');
  end.addEventListener('click', () => saying(() => ask(`runs/${run.number}/cancel`, '')));
  head.append(made('span', 'agent', `${run.agent}: ${run.prompt}`), end);
  card.append(head, made('div', 'quiet status'), made('pre', 'lines'));
  return card;
}

function show(state) {
  const open = new Set(state.approvals.map((approval) => approval.id));
  for (const [id, card] of cards) if (!open.has(id)) { card.remove(); cards.delete(id); }
  for (const approval of state.approvals) {
    if (cards.has(approval.id)) continue;
    cards.set(approval.id, approvalCard(approval));
    find('approvals').append(cards.get(approval.id)); // at the end: no button moves under the pointer
  }
  find('count').textContent = open.size;
  find('none').hidden = open.size > 0;
  for (const run of state.runs) {
    if (!runs.has(run.number)) { runs.set(run.number, runCard(run)); find('runs').prepend(runs.get(run.number)); }
    const card = runs.get(run.number);
    card.querySelector('.status').textContent = run.status;
    card.querySelector('.cancel').hidden = run.over;
    const lines = card.querySelector('.lines');
    lines.textContent = run.lines.join('\n');
    lines.hidden = run.lines.length === 0;
  }
  if (!find('agents').hasChildNodes()) for (const agent of state.agents) find('agents').append(choice(agent));
}

function choice(agent) {
  const label = made('label');
  const box = made('input');
  box.type = 'checkbox';
  box.value = agent.name;
  box.checked = true;
  label.title = agent.note;
  label.append(box, ` ${agent.name}`);
  return label;
}

find('start').addEventListener('submit', (event) => {
  event.preventDefault();
  const prompt = find('prompt').value;
  for (const box of find('agents').querySelectorAll('input:checked')) {
    saying(() => ask('runs', JSON.stringify({ agent: box.value, prompt })));
  }
});

async function follow() {
  try {
    show(await (await ask('state')).json());
    document.body.classList.remove('gone');
  } catch (trouble) {
    document.body.classList.add('gone');
    find('said').textContent = trouble instanceof TypeError ? 'The server does not answer.' : trouble.message;
  }
  setTimeout(follow, 500);
}
follow();
