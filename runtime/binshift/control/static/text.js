// Numbers and observations as text. Nothing here reads or changes the page.

const WHOLE = new Intl.NumberFormat('en', { maximumFractionDigits: 0 });
const ENDED = ['settled', 'cancelled', 'failed'];
const PARTS_UNDER_WAY = {
  plan: 'its route is planned',
  executors: 'executors are awaited',
  job: 'its job runs',
  record: 'its record is written',
};
export const LONG_SECONDS = 10;

export const whole = (number) => (number === null || number === undefined ? '–' : WHOLE.format(number));

/** A duration: 0.12 s, 4.5 s, 75 s, 12 min. */
export function seconds(value) {
  if (value === null || value === undefined) return '–';
  if (value >= 600) return `${WHOLE.format(value / 60)} min`;
  return `${value >= 10 ? WHOLE.format(value) : value.toFixed(value >= 1 ? 1 : 2)} s`;
}

/** A size: 12 B, 3.4 kB, 120 MB. */
export function bytes(value) {
  if (value === null || value === undefined) return '–';
  const units = ['B', 'kB', 'MB', 'GB', 'TB'];
  let unit = 0;
  while (value >= 1000 && unit < units.length - 1) [value, unit] = [value / 1000, unit + 1];
  return `${unit && value < 10 ? value.toFixed(1) : WHOLE.format(value)} ${units[unit]}`;
}

export const ended = (migration) => ENDED.includes(migration.phase);

const several = (workers) => `${workers.length === 1 ? 'worker' : 'workers'} ${workers.join(', ')}`;
const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);

/** The short facts: [name, value, small print]. */
export function facts(seen) {
  const { rates, latency, target } = seen;
  const wanted = target && target.workers.length !== seen.workers.length ? `, ${target.workers.length} requested` : '';
  return [
    ['Epoch', seen.epoch < 0 ? '–' : whole(seen.epoch), rates ? `${rates.epochsPerSecond.toFixed(1)} per second` : ''],
    ['Workers with bins', whole(seen.workers.length), `${seen.registered.length} registered${wanted}`],
    ['Records per second', whole(rates?.sourceRowsPerSecond), rates ? `${whole(rates.outputRowsPerSecond)} rows out` : ''],
    ['Latency, p99', seconds(latency?.p99Seconds), latency ? `median ${seconds(latency.p50Seconds)}` : ''],
    ['Watermark behind', seconds(seen.watermarkLagSeconds), seen.watermark ? '' : 'no watermark'],
  ];
}

/** What is awaited, refused or in trouble: [text, whether it is trouble]. */
export function notices(seen, workers) {
  const found = [];
  if (seen.reason) found.push([seen.reason, seen.state === 'Failed' || seen.state === 'Fenced']);
  if (seen.stopping) found.push(['The query stops after its running epoch.', false]);
  const { underWay, target } = seen;
  if (underWay && underWay.trouble) {
    found.push([`Epoch ${underWay.epoch}, run ${underWay.runs}: ${underWay.trouble}`, true]);
  } else if (underWay && underWay.seconds >= LONG_SECONDS) {
    found.push([`Epoch ${underWay.epoch} has run for ${seconds(underWay.seconds)}: ${PARTS_UNDER_WAY[underWay.part]}.`, false]);
  }
  if (target && seen.state === 'Running') {
    const absent = target.workers.filter((worker) => !seen.registered.includes(worker));
    if (absent.length) found.push([`${capital(several(absent))} of the target: not registered with Spark yet; awaited.`, false]);
    const going = target.workers.filter((worker) => !target.effectiveWorkers.includes(worker) && !absent.includes(worker));
    if (going.length) found.push([`${capital(several(going))} of the target: draining or lost.`, false]);
  }
  for (const each of seen.hotKeys) {
    const [share, most] = [(100 * each.share).toPrecision(2), whole(Math.ceil(1 / each.share))];
    found.push([`One key has ${share} % of the rows of ${each.operator}: ${each.key}, in bin ${each.bin} on worker ${each.worker}. More workers than ${most} do not help.`, true]);
  }
  for (const each of workers.filter((worker) => worker.backgroundFailures)) {
    found.push([`Worker ${each.worker}, background round failed ${each.backgroundFailures} times: ${each.backgroundError}`, true]);
  }
  return found;
}

/** One migration in a sentence. */
export function migration(moves) {
  if (!moves) return 'None in this run.';
  const { binsMoved, binsCopied, binsTotal, bytesTotal } = moves;
  if (ended(moves)) {
    const lasted = (Date.parse(moves.endedAt) - Date.parse(moves.startedAt)) / 1000;
    const before = moves.latencyBefore ? `${seconds(moves.latencyBefore.p99Seconds)} before, ` : '';
    const during = moves.latencyDuring ? `; latency p99 ${before}${seconds(moves.latencyDuring.p99Seconds)} during` : '';
    const reason = moves.reason ? `: ${moves.reason}` : '';
    return `Number ${moves.id} ${moves.phase}${reason}. ${whole(binsMoved || 0)} bins in ${seconds(lasted)}${during}.`;
  }
  if (binsTotal === null) return `Number ${moves.id}: being planned.`;
  const phase = moves.phase === 'warming' ? 'new workers are warmed up' : moves.phase;
  const size = bytesTotal ? `, ${bytes(moves.bytesMoved)} of ${bytes(bytesTotal)}` : '';
  const left = moves.secondsLeft === null ? '' : `; about ${seconds(moves.secondsLeft)} left`;
  return `Number ${moves.id}, ${phase}: ${whole(binsMoved)} of ${whole(binsTotal)} bins moved, ${whole(binsCopied)} more copied${size}${left}.`;
}

/** The placement in a sentence, for screen readers. */
export function placement(counts, coming) {
  const listed = [...counts].map(([worker, count]) => `worker ${worker}: ${whole(count)}`).join(', ');
  return `${listed || 'no bins yet'}. ${coming ? `${whole(coming)} bins are about to move.` : 'No bin moves.'}`;
}

/** Who a new target is from, and which number and workers it has; or why this page must not set one. */
export function request(seen, count) {
  const { target } = seen;
  const owner = target ? target.owner : '';
  if (owner !== '' && owner !== 'local') {
    return { refused: 'The operator owns the target. Use: kubectl scale sdf NAME --replicas=N' };
  }
  const known = owner === 'local' ? [] : [...new Set([...seen.registered, ...(target ? target.workers : seen.workers)])];
  const workers = known.sort((one, other) => one - other).slice(0, count);
  for (let slot = 0; workers.length < count; slot += 1) if (!workers.includes(slot)) workers.push(slot);
  return { owner, generation: (target ? target.generation : 0) + 1, workers };
}
