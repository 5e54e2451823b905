// Observations into the elements of the page. Texts of the server are set as text, never as HTML.

import { PARTS, drawEpochs, drawLatency } from './charts.js';
import * as text from './text.js';

export const element = (id) => document.getElementById(id);
const ROWS = 10;
let announced = '';

function made(name, content, attributes = {}) {
  const found = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) found.setAttribute(key, value);
  if (content !== undefined) found.append(...[content].flat());
  return found;
}

/** Set a text only if it has changed, so that screen readers report changes only. */
export function setText(id, content) {
  if (element(id).textContent !== content) element(id).textContent = content;
}

function setList(id, parts, key) {
  const target = element(id);
  if (target.dataset.key === key) return;
  target.dataset.key = key;
  target.replaceChildren(...parts());
}

export function showDataflow(seen, workers) {
  const name = seen.name || 'binshift';
  setText('name', name);
  document.title = `${name}: ${seen.state}`;
  setText('state', seen.stopping ? 'Stopping' : seen.state);
  element('state').className = `state ${{ Failed: 'bad', Fenced: 'bad', Running: '' }[seen.state] ?? 'wait'}`;
  setText('version', `binshift ${seen.version}`);
  const facts = text.facts(seen);
  const terms = () => facts.map(([term, value, small]) => made('div', [made('dt', term), made('dd', [value, made('small', small)])]));
  setList('facts', terms, JSON.stringify(facts));
  showNotices(text.notices(seen, workers));
  showMigration(seen.migration);
}

export function showNotices(notices) {
  const items = () => notices.map(([notice, trouble]) => made('li', notice, trouble ? { class: 'trouble' } : {}));
  setList('notices', items, JSON.stringify(notices));
}

function showMigration(migration) {
  const total = migration?.binsTotal || 0;
  const share = (bins) => (total ? (100 * (bins || 0)) / total : 0);
  const [moved, copied] = [share(migration?.binsMoved), share(migration?.binsCopied)];
  element('moved').style.width = `${moved}%`;
  element('copied').style.width = `${copied}%`;
  const sentence = text.migration(migration);
  element('bar').setAttribute('aria-valuenow', Math.round(moved));
  element('bar').setAttribute('aria-valuetext', sentence);
  setText('migration', sentence);
  announce(migration, moved, sentence);
}

/** Screen readers hear of a migration as it begins, at each quarter, and as it ends. */
function announce(migration, moved, sentence) {
  const key = migration ? `${migration.id} ${text.ended(migration) ? migration.phase : Math.floor(moved / 25)}` : '';
  if (key === announced) return;
  announced = key;
  setText('summary', sentence);
}

export function showPlacement(counts, coming, workers, bins, shown) {
  const total = [...coming.values()].reduce((sum, each) => sum + each, 0);
  const first = shown < bins ? ` The first ${text.whole(shown)} of ${text.whole(bins)} bins.` : '';
  setText('field-text', text.placement(counts, total) + first);
  const load = new Map(workers.map((each) => [each.worker, each]));
  const rows = [...counts].map(([worker, count]) => {
    const known = load.get(worker);
    const registered = known ? (known.registered ? 'yes' : 'no') : '–';
    const cells = [registered, text.whole(count), text.whole(coming.get(worker) ?? 0), text.whole(known?.keys), text.bytes(known?.bytes)];
    return [worker, ...cells];
  });
  const body = element('workers-table').tBodies[0];
  fill(body, rows);
}

function fill(body, rows) {
  const key = JSON.stringify(rows);
  if (body.dataset.key === key) return;
  body.dataset.key = key;
  body.replaceChildren(...rows.map(([head, ...cells]) => made('tr', [made('th', head, { scope: 'row' }), ...cells.map((cell) => made('td', cell))])));
}

export function showEpochs(epochs, migrations, now) {
  setText('latency-text', drawLatency(element('latency'), epochs, migrations, now));
  const shown = drawEpochs(element('epochs'), epochs);
  const mean = (part) => shown.reduce((sum, each) => sum + each.parts[part], 0) / Math.max(1, shown.length);
  const legend = PARTS.map(([part, name, variable]) => [name, text.seconds(mean(part)), variable, mean(part)]);
  setList('parts', () => legend.filter(([, , , value]) => value >= 0.0005).map(swatch), JSON.stringify(legend));
  setText('epochs-text', `Mean of ${shown.length} epochs: ${legend.map(([name, value]) => `${name} ${value}`).join(', ')}.`);
  const table = element('epochs-table');
  if (!table.tHead.rows.length) {
    const names = ['Epoch', 'Latency', 'Total', ...PARTS.map(([, name]) => name), 'Bins moved'];
    table.tHead.append(made('tr', names.map((name) => made('th', name, { scope: 'col' }))));
  }
  if (table.closest('details').open) fill(table.tBodies[0], shown.slice(-ROWS).reverse().map(row));
}

function swatch([name, value, variable]) {
  const mark = made('i');
  mark.style.background = `var(${variable})`;
  return made('span', [mark, `${name} ${value}`]);
}

function row(epoch) {
  const parts = PARTS.map(([part]) => text.seconds(epoch.parts[part]));
  return [epoch.epoch, text.seconds(epoch.latencyMaxSeconds), text.seconds(epoch.totalSeconds), ...parts, text.whole(epoch.binsMoved)];
}
