// Two charts as SVG: latency over time with migrations as spans, and the newest epochs as bars by part.

import { seconds } from './text.js';

const SVG = 'http://www.w3.org/2000/svg';
const LEFT = 44;
const BOTTOM = 22;
const TOP = 8;
const WINDOW_MS = 300000;
const PAUSE_MS = 5000;
export const PARTS = [
  ['plan', 'plan', '--part-plan'],
  ['spark', 'Spark: source, exchange, sink', '--part-spark'],
  ['bringUp', 'open stores, bring up', '--part-bring-up'],
  ['state', 'operators', '--part-state'],
  ['delta', 'deltas', '--part-delta'],
  ['store', 'store commit', '--part-store'],
  ['record', 'record', '--part-record'],
  ['other', 'waits, failed runs', '--part-other'],
];

/** A chart of this height, empty, with its axis of seconds; returns how to draw in it. */
function begin(svg, height, most) {
  const width = Math.max(240, svg.clientWidth);
  svg.setAttribute('viewBox', `0 0 ${width} ${height}`);
  svg.setAttribute('height', height);
  svg.replaceChildren();
  const step = tick(most / 3);
  const top = Math.max(step, Math.ceil(most / step) * step);
  const y = (value) => height - BOTTOM - (Math.min(value, top) / top) * (height - BOTTOM - TOP);
  for (let value = 0; value <= top + step / 2; value += step) {
    add(svg, 'line', { class: 'grid', x1: LEFT, x2: width, y1: Math.round(y(value)) + 0.5, y2: Math.round(y(value)) + 0.5 });
    label(svg, LEFT - 8, y(value) + 4, value === 0 ? '0' : value.toFixed(step < 0.1 ? 2 : step < 1 ? 1 : 0), 'end');
  }
  return { width, y, bottom: height - BOTTOM };
}

/** The next of 1, 2, 5, 10, ... that is not less. */
function tick(least) {
  const power = 10 ** Math.floor(Math.log10(Math.max(least, 0.01)));
  return [1, 2, 5, 10].map((each) => each * power).find((each) => each >= least * 0.999);
}

function add(parent, name, attributes, text) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return parent.appendChild(made);
}

function label(svg, x, y, text, anchor = 'start') {
  add(svg, 'text', { x, y, 'text-anchor': anchor }, text);
}

/** Latency over the last five minutes before `now` (ms since 1970, by the server's clock). */
export function drawLatency(svg, epochs, migrations, now) {
  const shown = epochs.filter((each) => each.latencyMaxSeconds !== null && each.time > now - WINDOW_MS);
  const { width, y, bottom } = begin(svg, 170, Math.max(0.1, ...shown.map((each) => each.latencyMaxSeconds)));
  const x = (time) => LEFT + ((time - (now - WINDOW_MS)) / WINDOW_MS) * (width - LEFT - 2);
  for (const each of migrations) {
    const from = Math.max(Date.parse(each.startedAt), now - WINDOW_MS);
    const until = each.endedAt === null ? now : Date.parse(each.endedAt);
    if (until <= from) continue;
    const wide = Math.max(2, x(until) - x(from));
    const span = add(svg, 'rect', { class: 'span', x: x(from), y: TOP, width: wide, height: bottom - TOP });
    add(span, 'title', {}, `migration ${each.id}: ${each.phase}`);
    if (wide > 20) label(svg, x(from) + 4, TOP + 12, `${wide > 90 ? 'migration ' : ''}${each.id}`);
  }
  for (const run of runs(shown)) {
    const upper = run.map((each) => `${x(each.time).toFixed(1)},${y(each.latencyMaxSeconds).toFixed(1)}`);
    const lower = run.map((each) => `${x(each.time).toFixed(1)},${y(each.latencyMinSeconds).toFixed(1)}`);
    add(svg, 'path', { class: 'band', d: `M${upper.join('L')}L${lower.reverse().join('L')}Z` });
    add(svg, 'path', { class: 'line', d: `M${upper.join('L')}` });
  }
  const minutes = width < 480 ? [5, 3, 1] : [5, 4, 3, 2, 1];
  for (const each of minutes) label(svg, x(now - each * 60000), bottom + 16, `${each} min ago`, each === 5 ? 'start' : 'middle');
  label(svg, width, bottom + 16, 'now', 'end');
  const worst = Math.max(...shown.map((each) => each.latencyMaxSeconds));
  return shown.length
    ? `In the last five minutes: at most ${seconds(worst)}, now ${seconds(shown.at(-1).latencyMaxSeconds)}, in ${shown.length} epochs.`
    : 'No epoch with records in the last five minutes.';
}

/** Epochs without a longer pause between them. */
function runs(epochs) {
  const found = [];
  let last = -Infinity;
  for (const each of epochs) {
    if (each.time - last > PAUSE_MS + 2000 * each.totalSeconds) found.push([]);
    found.at(-1).push(each);
    last = each.time;
  }
  return found;
}

/** The newest epochs that have room, as stacked bars; a mark below each in which bins have flipped. */
export function drawEpochs(svg, epochs) {
  const room = Math.max(240, svg.clientWidth) - LEFT;
  const shown = epochs.slice(-Math.max(8, Math.min(80, Math.floor(room / 13))));
  const { width, y, bottom } = begin(svg, 150, Math.max(0.1, ...shown.map((each) => each.totalSeconds)));
  const wide = (width - LEFT) / Math.max(shown.length, 20);
  shown.forEach((epoch, index) => {
    const bar = add(svg, 'g', {});
    const x = LEFT + index * wide + 1;
    let sum = 0;
    for (const [part, , variable] of PARTS) {
      const top = y(sum + epoch.parts[part]);
      const rect = add(bar, 'rect', { x, y: top, width: Math.max(1, wide - 3), height: Math.max(0, y(sum) - top) });
      rect.style.fill = `var(${variable})`;
      sum += epoch.parts[part];
    }
    if (epoch.binsMoved) add(bar, 'rect', { class: 'flip', x, y: bottom + 2, width: Math.max(1, wide - 3), height: 2 });
    const parts = PARTS.filter(([part]) => epoch.parts[part] >= 0.0005).map(([part, name]) => `${name} ${seconds(epoch.parts[part])}`);
    const flips = epoch.binsMoved ? `, ${epoch.binsMoved} bins flipped` : '';
    add(bar, 'title', {}, `epoch ${epoch.epoch}: ${seconds(epoch.totalSeconds)}${flips}; ${parts.join(', ')}`);
  });
  if (shown.length) label(svg, LEFT, bottom + 17, `epoch ${shown[0].epoch}`);
  if (shown.length > 8) label(svg, LEFT + shown.length * wide - 2, bottom + 17, `${shown.at(-1).epoch}`, 'end');
  return shown;
}
