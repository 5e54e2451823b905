// Where the squares of the field are: colours by worker, places within a worker's block, blocks within the width. No drawing.

const LIGHT = ['#2f6299', '#c8753d', '#3f8a6e', '#9a4f7f', '#b79a2e', '#6b6fb5', '#a5483d', '#5d8fa8'];
const DARK = ['#6ea2d8', '#e0935c', '#62b593', '#c77bab', '#d6bb55', '#9599e0', '#d9776b', '#86b9d1'];
const CELLS = [14, 12, 10, 9, 8, 7, 6, 5, 4, 3, 2];
const BLOCK_MIN = 150;
const BLOCK_GAP = 20;
const LABEL = 22;
export const HEIGHT_MAX = 420;

/** The colour of a worker: eight that differ for every kind of sight, then hues by the golden angle. */
export function colour(worker, dark) {
  const known = dark ? DARK : LIGHT;
  if (worker < known.length) return known[worker];
  return `hsl(${Math.round(worker * 137.508) % 360} ${dark ? '48% 66%' : '42% 45%'})`;
}

/**
 * A place for every bin among those of its worker. A bin that comes takes the first empty place or a new one, so that all others
 * stay where they are; places are closed up once nothing moves.
 */
export class Places {
  constructor(owners) {
    this.owner = Int32Array.from(owners);
    this.place = new Int32Array(owners.length);
    this.at = new Map();
    this.owner.forEach((worker, bin) => {
      this.place[bin] = this.of(worker).length;
      this.of(worker).push(bin);
    });
  }

  /** The bins of a worker by place; -1 where there is none. */
  of(worker) {
    if (!this.at.has(worker)) this.at.set(worker, []);
    return this.at.get(worker);
  }

  /** Take new owners; returns the bins that have moved. */
  update(owners) {
    const moved = [];
    owners.forEach((worker, bin) => {
      if (worker !== this.owner[bin]) moved.push(bin);
    });
    for (const bin of moved) this.of(this.owner[bin])[this.place[bin]] = -1;
    const next = new Map();
    for (const bin of moved) {
      const worker = owners[bin];
      const bins = this.of(worker);
      let place = next.get(worker) ?? 0;
      while (place < bins.length && bins[place] !== -1) place += 1;
      next.set(worker, place + 1);
      this.put(bin, worker, place);
    }
    return moved;
  }

  /** Move the last bins of each worker to its empty places. */
  closeUp() {
    for (const [worker, bins] of this.at) {
      for (let place = 0; place < bins.length; place += 1) {
        while (bins.length && bins[bins.length - 1] === -1) bins.pop();
        if (place < bins.length && bins[place] === -1) this.put(bins.pop(), worker, place);
      }
    }
  }

  put(bin, worker, place) {
    this.of(worker)[place] = bin;
    this.owner[bin] = worker;
    this.place[bin] = place;
  }

  /** How many bins each of these workers has. */
  counts(workers) {
    const found = new Map(workers.map((worker) => [worker, 0]));
    for (const worker of this.owner) found.set(worker, (found.get(worker) ?? 0) + 1);
    return new Map([...found].sort(([one], [other]) => one - other));
  }
}

/**
 * Blocks of workers in the width: the largest square size for which the height is at most `HEIGHT_MAX`, otherwise the smallest one.
 * `sizes` are the places of each worker, in order.
 */
export function blocks(sizes, width) {
  const across = Math.max(1, Math.min(sizes.length, Math.floor((width + BLOCK_GAP) / (BLOCK_MIN + BLOCK_GAP))));
  const wide = Math.floor((width - (across - 1) * BLOCK_GAP) / across);
  let found;
  for (const cell of CELLS) {
    const columns = Math.max(1, Math.floor((wide + 1) / cell));
    const rows = sizes.map((size) => Math.max(1, Math.ceil(size / columns)));
    const places = [];
    let top = 0;
    for (let first = 0; first < rows.length; first += across) {
      for (let at = first; at < Math.min(first + across, rows.length); at += 1) {
        places.push({ x: (at - first) * (wide + BLOCK_GAP), y: top });
      }
      top += LABEL + cell * Math.max(...rows.slice(first, first + across)) + (first + across < rows.length ? 12 : 0);
    }
    found = { cell, columns, wide, places, label: LABEL, height: top };
    if (top <= HEIGHT_MAX) break;
  }
  return found;
}
