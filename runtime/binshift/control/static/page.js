// The page's loop: read the control API, show it, send what its user requests. `api` talks to the server, `view` shows.

import * as api from './api.js';
import { Field } from './field.js';
import * as text from './text.js';
import { element, setText, showDataflow, showEpochs, showNotices, showPlacement } from './view.js';

const CALM_MS = 1000;
const MOVING_MS = 500;
const SLOW_MS = 2000;
const EPOCHS_KEPT = 600;
const MANY_BINS = 16384;
const WORKERS_TURNS = 3;

const field = new Field(element('field'), (hovered) => setText('hovered', hovered));
let seen = null;
let workers = [];
let epochs = [];
let migrations = [];
let placed = '';
let listed = '';
let turns = 0;
let chosen = '';
let timer = 0;
let touched = false;
let busy = false;
let again = false;

const now = () => Math.max(api.now(), epochs.at(-1)?.time ?? 0);
const base = () => (chosen ? `/v1/queries/${encodeURIComponent(chosen)}` : '/v1');

/** With several queries their names are offered, and one of them is shown. */
async function chooseQuery() {
  const { queries } = await api.call('GET', '/v1/queries');
  const names = queries.map((each) => each.name || each.id);
  element('choice').hidden = names.length < 2;
  const select = element('query');
  if (names.join('\n') !== [...select.options].map((each) => each.value).join('\n')) {
    select.replaceChildren(...names.map((name) => new Option(name)));
  }
  const before = chosen;
  chosen = names.length < 2 ? '' : names.includes(chosen) ? chosen : names[0];
  select.value = chosen;
  if (chosen !== before) forget();
}

function forget() {
  [workers, epochs, migrations, placed, listed] = [[], [], [], '', ''];
}

async function readPlacement(moving) {
  const key = `${seen.routeVersion} ${seen.registered} ${moving}`;
  if (!moving && key === placed) return;
  const placement = await api.call('GET', `${base()}/placement`);
  placed = key;
  field.update(placement, [...new Set([...seen.registered, ...workers.map((each) => each.worker)])]);
  const coming = new Map();
  for (const group of placement.moving) coming.set(group.worker, (coming.get(group.worker) ?? 0) + group.bins.length);
  showPlacement(field.counts, coming, workers, seen.bins, placement.owners.length);
}

async function readEpochs() {
  const last = epochs.at(-1)?.epoch ?? -1;
  if (seen.epoch <= last) return;
  const read = await api.call('GET', `${base()}/epochs?after=${last}&limit=${EPOCHS_KEPT}`);
  const known = read.epochs.map((each) => ({ ...each, time: Date.parse(each.committedAt) }));
  epochs = [...epochs, ...known].slice(-EPOCHS_KEPT);
}

async function readMigrations() {
  const key = seen.migration ? `${seen.migration.id} ${text.ended(seen.migration)}` : '';
  if (key === listed) return;
  migrations = (await api.call('GET', `${base()}/migrations?limit=20`)).migrations;
  listed = key;
}

/** Read and show everything that may have changed; whether bins move. */
async function read() {
  if (turns % WORKERS_TURNS === 0) await chooseQuery();
  seen = await api.call('GET', `${base()}/dataflow`);
  const moving = Boolean(seen.migration) && !text.ended(seen.migration);
  if (turns % WORKERS_TURNS === 0 || moving) workers = (await api.call('GET', `${base()}/workers`)).workers;
  turns += 1;
  showDataflow(seen, workers);
  offer();
  await readPlacement(moving);
  await readMigrations();
  await readEpochs();
  showEpochs(epochs, migrations, now());
  return moving;
}

/** One turn at a time: a call in between only requests another one. */
async function turn() {
  if (busy) {
    again = true;
    return;
  }
  busy = true;
  clearTimeout(timer);
  const pause = await turned();
  busy = false;
  if (api.token() !== null) timer = setTimeout(turn, again ? 0 : pause);
  again = false;
}

/** The turn; returns the time until the next one. */
async function turned() {
  let pause = CALM_MS;
  try {
    if (!document.hidden && (await read())) pause = seen.bins > MANY_BINS ? SLOW_MS : MOVING_MS;
    show(true);
  } catch (error) {
    if (!(error instanceof api.Refused)) console.error(error);
    if (error.closed) close(error.message);
    else showNotices([[error.message, true]]);
    pause = SLOW_MS;
  }
  return pause;
}

/** The page, or the form for the token. */
function show(live) {
  element('live').hidden = !live;
  element('login').hidden = live;
}

function close(reason) {
  api.forgetToken();
  seen = null;
  setText('refused', reason);
  setText('state', '');
  show(false);
  element('token').focus();
}

/** The form's limits, and whether this page can request workers at all. */
function offer() {
  const present = seen.target ? seen.target.workers.length : seen.workers.length;
  const most = Math.min(seen.bins ?? 1, 1000);
  element('workers').max = most;
  element('slider').max = Math.min(most, Math.max(8, 2 * present));
  const { refused } = text.request(seen, 1);
  const can = seen.state === 'Running' && seen.routeVersion !== null && !refused;
  for (const id of ['slider', 'workers', 'send']) element(id).disabled = !can;
  if (refused) setText('answer', refused);
  if (!touched && present) setCount(present);
}

function setCount(count) {
  element('workers').value = count;
  element('slider').value = count;
}

async function send(event) {
  event.preventDefault();
  const count = Number(element('workers').value);
  element('send').disabled = true;
  setText('answer', 'Requested ...');
  element('answer').className = '';
  try {
    // A target applies to all queries of the program, whichever is shown.
    const { migration } = await api.call('PUT', '/v1/target', text.request(seen, count));
    setText('answer', migration ? `Accepted: migration ${migration.id} leads to ${count} workers.` : 'Accepted: there is nothing to move.');
    touched = false;
  } catch (error) {
    if (error.closed) return close(error.message);
    setText('answer', `Refused: ${error.message}`);
    element('answer').className = 'trouble';
  } finally {
    element('send').disabled = false;
  }
  turn();
}

function open() {
  setText('refused', '');
  turns = 0;
  forget();
  if (api.token() === null) close('');
  else turn();
}

element('login').addEventListener('submit', (event) => {
  event.preventDefault();
  const given = element('token').value.trim();
  element('token').value = '';
  if (!api.isToken(given)) return close('A token has 1 to 4096 printable ASCII characters without spaces.');
  api.keepToken(given);
  open();
});
for (const id of ['slider', 'workers']) {
  element(id).addEventListener('input', () => {
    touched = true;
    element(id === 'slider' ? 'workers' : 'slider').value = element(id).value;
  });
}
element('rescale').addEventListener('submit', send);
element('query').addEventListener('change', () => {
  chosen = element('query').value;
  forget();
  turn();
});
addEventListener('hashchange', () => api.takeTokenFromAddress() && open());
addEventListener('resize', () => seen && showEpochs(epochs, migrations, now()));
document.addEventListener('visibilitychange', () => !document.hidden && seen && turn());
api.takeTokenFromAddress();
open();
