// The field of bins on a canvas: one square a bin, in its worker's block and colour. It draws what `update` is given, no more.

import { Places, blocks, colour } from './layout.js';

const MOVE_MS = 700;
const ANIMATED_MAX = 16384;
const STAGES = { waiting: 1, copying: 2, copied: 3, flipping: 4 };
const dark = matchMedia('(prefers-color-scheme: dark)');
const still = matchMedia('(prefers-reduced-motion: reduce)');

export class Field {
  /** `onHover` gets the text of the square under the pointer, or an empty one. */
  constructor(canvas, onHover) {
    this.canvas = canvas;
    this.onHover = onHover;
    this.places = null;
    this.workers = [];
    this.began = -Infinity;
    this.frame = 0;
    new ResizeObserver(() => this.resize()).observe(canvas.parentElement);
    dark.addEventListener('change', () => this.draw());
    canvas.addEventListener('pointermove', (event) => onHover(this.textAt(event.offsetX, event.offsetY)));
    canvas.addEventListener('pointerleave', () => onHover(''));
  }

  /** Show a placement; `workers` are those to show, also without a bin. */
  update(placement, workers) {
    const { owners, moving } = placement;
    const fresh = !this.places || this.places.owner.length !== owners.length;
    if (fresh) this.places = new Places(owners);
    const moved = fresh ? [] : this.places.update(owners);
    if (!moving.length) this.places.closeUp();
    this.stage = new Uint8Array(owners.length);
    this.next = new Int32Array(owners.length);
    for (const group of moving) {
      for (const bin of group.bins) {
        this.stage[bin - placement.first] = STAGES[group.stage];
        this.next[bin - placement.first] = group.worker;
      }
    }
    this.counts = this.places.counts(workers);
    this.arrange(!fresh, moved);
  }

  resize() {
    if (this.places && this.canvas.clientWidth !== this.width) this.arrange(false, []);
  }

  /** Compute every square's goal; animated from where it is, if it is near enough to be followed. */
  arrange(animated, moved) {
    this.workers = [...this.counts.keys()];
    this.width = this.canvas.clientWidth;
    this.layout = blocks(this.workers.map((worker) => this.places.of(worker).length), this.width);
    const { cell, columns, places, label, height } = this.layout;
    const index = new Map(this.workers.map((worker, at) => [worker, at]));
    const size = this.places.owner.length;
    const before = this.goal;
    this.goal = new Float32Array(2 * size);
    for (let bin = 0; bin < size; bin += 1) {
      const { x, y } = places[index.get(this.places.owner[bin])];
      const place = this.places.place[bin];
      this.goal[2 * bin] = x + (place % columns) * cell;
      this.goal[2 * bin + 1] = y + label + Math.floor(place / columns) * cell;
    }
    const follows = animated && before && before.length === this.goal.length && size <= ANIMATED_MAX && !still.matches;
    const same = before && this.goal.length === before.length && this.goal.every((value, at) => value === before[at]);
    if (!same) {
      this.from = follows ? this.current(before) : this.goal;
      this.began = follows ? performance.now() : -Infinity;
    }
    this.moved = moved.length ? new Set(moved) : this.moved ?? new Set();
    this.fit(height);
    this.draw();
  }

  fit(height) {
    const scale = Math.max(1, devicePixelRatio || 1);
    this.canvas.style.height = `${height}px`;
    this.canvas.width = Math.round(this.width * scale);
    this.canvas.height = Math.round(height * scale);
    this.scale = scale;
  }

  /** How far the animation is, 0 to 1. */
  get done() {
    const share = Math.min(1, (performance.now() - this.began) / MOVE_MS);
    return 1 - (1 - share) ** 3;
  }

  current(goal) {
    const share = this.done;
    return share >= 1 ? goal : goal.map((value, at) => this.from[at] + (value - this.from[at]) * share);
  }

  draw() {
    if (!this.places) return;
    const context = this.canvas.getContext('2d');
    context.setTransform(this.scale, 0, 0, this.scale, 0, 0);
    context.clearRect(0, 0, this.width, this.layout.height);
    this.drawLabels(context);
    const at = this.current(this.goal);
    for (const worker of this.workers) {
      context.fillStyle = colour(worker, dark.matches);
      for (const bin of this.places.of(worker)) if (bin >= 0 && !this.moved.has(bin)) this.square(context, at, bin);
    }
    for (const bin of this.moved) {
      context.fillStyle = colour(this.places.owner[bin], dark.matches);
      this.square(context, at, bin);
    }
    this.drawStages(context, at);
    this.canvas.dataset.cell = this.layout.cell;
    cancelAnimationFrame(this.frame);
    if (this.done < 1) this.frame = requestAnimationFrame(() => this.draw());
  }

  square(context, at, bin) {
    const { cell } = this.layout;
    const size = cell > 2 ? cell - 1 : cell;
    context.fillRect(at[2 * bin], at[2 * bin + 1], size, size);
  }

  drawLabels(context) {
    const style = getComputedStyle(this.canvas);
    const quiet = style.getPropertyValue('--quiet');
    context.textBaseline = 'alphabetic';
    this.workers.forEach((worker, index) => {
      const { x, y } = this.layout.places[index];
      context.font = `600 13px ${style.fontFamily}`;
      context.fillStyle = style.color;
      const name = `worker ${worker}`;
      context.fillText(name, x, y + 14);
      const used = context.measureText(name).width;
      context.font = `13px ${style.fontFamily}`;
      context.fillStyle = quiet;
      context.fillText(this.counts.get(worker).toLocaleString('en'), x + used + 8, y + 14);
    });
  }

  /** A bin that is copied shows its next owner's colour inside; one that flips has a frame in addition. */
  drawStages(context, at) {
    const { cell } = this.layout;
    const size = cell > 2 ? cell - 1 : cell;
    const text = getComputedStyle(this.canvas).color;
    const inset = cell >= 5 ? Math.max(1, Math.round(cell * 0.14)) : 0;
    for (let bin = 0; bin < this.stage.length; bin += 1) {
      if (this.stage[bin] < STAGES.copying) continue;
      const [x, y] = [at[2 * bin], at[2 * bin + 1]];
      if (this.stage[bin] === STAGES.flipping) {
        context.fillStyle = text;
        context.fillRect(x, y, size, size);
        if (!inset) continue;
      }
      context.fillStyle = colour(this.next[bin], dark.matches);
      context.fillRect(x + inset, y + inset, size - 2 * inset, size - 2 * inset);
    }
  }

  /** What is at a point of the canvas. */
  textAt(x, y) {
    if (!this.places) return '';
    const { cell, columns, places, label, wide } = this.layout;
    const index = places.findLastIndex((block) => x >= block.x && x < block.x + wide && y >= block.y + label);
    if (index < 0) return '';
    const column = Math.floor((x - places[index].x) / cell);
    const place = column + columns * Math.floor((y - places[index].y - label) / cell);
    const bin = column < columns ? this.places.of(this.workers[index])[place] : undefined;
    if (bin === undefined || bin < 0) return '';
    const stage = Object.keys(STAGES)[this.stage[bin] - 1];
    return `bin ${bin}, worker ${this.workers[index]}${stage ? `, ${stage}, next worker ${this.next[bin]}` : ''}`;
  }
}
