/**
 * What the map looks like, as paths in the map's own coordinates: made anew when something has changed, and drawn at any
 * shift and scale by a few strokes. While the map is moved, they are kept as they were drawn (sheet.js).
 */

import { store } from "./store.js";
import { Sheet } from "./sheet.js";
import { LAYERS, WAYS, colours, isDark, valueOf } from "./scale.js";

/** @typedef {{path: Path2D, style: string, wide: number, dash: number[], order: number, alpha: number}} Stroke */
/** @typedef {import("./view.js").Point} Point */
/** @typedef {import("./view.js").View} View */

/** How large a device is drawn at least, pixels. */
export const DEVICE_MIN = 3;
/** And at most. */
const DEVICE_MAX = 18;
/** From this size on names are written, pixels a unit. */
const NAMES_FROM = 12;
/** Pixels. */
const NAME_HEIGHT = 13;
/** How wide a cable is drawn at least, pixels. */
const WIDE_MIN = 0.8;
/** Up to this size cables lie so dense that those which carry nothing are pale, pixels a unit. */
const DENSE_TO = 4;
const DENSE_ALPHA = 0.4;
/** In how a cable looks: it crosses what is marked. */
const PALE = 64;
/** How large the mark of a device is at least, pixels. */
const MARK_MIN = 10;

/** @param {number} cable @returns {{from: Point, middle: Point | null, to: Point}} */
export function endsOf(cable) {
  const { a, b, bend } = store.map.cables[cable];
  const [from, to] = [store.map.devices[a], store.map.devices[b]];
  if (bend === 0) return { from, middle: null, to };
  const length = Math.hypot(to.x - from.x, to.y - from.y) || 1;
  // The curve passes half way between its control point and the straight line.
  const by = (2 * bend) / length;
  const middle = { x: (from.x + to.x) / 2 + (to.y - from.y) * by, y: (from.y + to.y) / 2 - (to.x - from.x) * by };
  return { from, middle, to };
}

/** @param {Path2D} path @param {number} cable */
function trace(path, cable) {
  const { from, middle, to } = endsOf(cable);
  path.moveTo(from.x, from.y);
  if (middle) path.quadraticCurveTo(middle.x, middle.y, to.x, to.y);
  else path.lineTo(to.x, to.y);
}

/** The point half way along a cable. @param {number} cable @returns {Point} */
function halfway(cable) {
  const { from, middle, to } = endsOf(cable);
  if (!middle) return { x: (from.x + to.x) / 2, y: (from.y + to.y) / 2 };
  return { x: (from.x + 2 * middle.x + to.x) / 4, y: (from.y + 2 * middle.y + to.y) / 4 };
}

/** How wide a cable that carries nothing is drawn, pixels. @param {number} scale */
function wideAt(scale) {
  return Math.min(4, Math.max(WIDE_MIN, scale / 9));
}

export class Picture {
  /** @type {Stroke[]} */
  #strokes = [];
  /** Cables that are Down, and that wait for the subnet manager. @type {{down: number[], init: number[]}} */
  #troubled = { down: [], init: [] };

  /** By cable, then by device, how each looks: what the paths were made of. @type {Uint8Array} */
  #looks = new Uint8Array();
  #isDark = false;
  #sheet = new Sheet();

  /** Makes the paths of all cables anew, if something looks different. @returns {boolean} whether it does */
  trace() {
    const looks = this.#look();
    const isSame = looks.length === this.#looks.length && looks.every((look, at) => look === this.#looks[at]);
    if (isSame && isDark() === this.#isDark) return false;
    [this.#looks, this.#isDark] = [looks, isDark()];
    this.#sheet.clear();
    const colour = colours();
    /** @type {Map<string, Stroke>} */
    const strokes = new Map();
    this.#troubled = { down: [], init: [] };
    for (let cable = 0; cable < store.map.cables.length; cable += 1) {
      const [state, step] = [looks[cable] & 7, (looks[cable] >> 3) & 7];
      const alpha = looks[cable] & PALE ? 0.3 : 1;
      let look;
      if (state === 1) look = { key: "down", style: colour.down, wide: 1.4, dash: [6, 5], order: 8 };
      else if (state === 2 || state === 3) look = { key: "init", style: colour.init, wide: 1.2, dash: [2, 3], order: 7 };
      else if (state === 0) look = { key: "unknown", style: colour.unknown, wide: 1, dash: [1, 4], order: -1 };
      else look = { key: `${step}`, style: colour.steps[step], wide: 1 + step * 0.18, dash: [], order: step };
      if (state === 1) this.#troubled.down.push(cable);
      if (state === 2 || state === 3) this.#troubled.init.push(cable);
      const key = look.key + alpha;
      let stroke = strokes.get(key);
      if (!stroke) strokes.set(key, (stroke = { path: new Path2D(), alpha, ...look }));
      trace(stroke.path, cable);
    }
    this.#strokes = [...strokes.values()].sort((a, b) => a.order - b.order);
    return true;
  }

  /** How each cable and each device looks: the state of a cable, its step of the scale, whether it is pale. @returns {Uint8Array} */
  #look() {
    const { map, sample, highlight } = store;
    const layer = LAYERS[store.layer];
    const value = valueOf(sample, store.layer);
    const looks = new Uint8Array(map.cables.length + map.devices.length);
    for (let cable = 0; cable < map.cables.length; cable += 1) {
      const pale = highlight !== null && !highlight.cables.has(cable) ? PALE : 0;
      looks[cable] = (sample ? sample.state[cable] : 0) | (layer.of(value(cable)) << 3) | pale;
    }
    if (sample) looks.set(sample.present, map.cables.length);
    return looks;
  }

  /**
   * @param {CanvasRenderingContext2D} context @param {View} view @param {number} dots of the screen a pixel @param {number} width @param {number} height
   * @param {boolean} isMoving whether the map is moved or zoomed, so that the next picture follows
   */
  paint(context, view, dots, width, height, isMoving) {
    context.setTransform(dots, 0, 0, dots, 0, 0);
    this.#sheet.paint(context, view, dots, width, height, isMoving, (sheet, matrix) => this.#paintCables(sheet, matrix, view.scale));
    const wide = wideAt(view.scale);
    this.#paintMarked(context, view, wide);
    this.#paintTroubled(context, view);
    this.#paintDevices(context, view, width, height);
  }

  /** All cables, on paper. @param {CanvasRenderingContext2D} context @param {DOMMatrix} matrix @param {number} scale */
  #paintCables(context, matrix, scale) {
    context.save();
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.fillStyle = colours().paper;
    context.fillRect(0, 0, context.canvas.width, context.canvas.height);
    context.restore();
    const wide = wideAt(scale);
    for (const stroke of this.#strokes) {
      const path = new Path2D();
      path.addPath(stroke.path, matrix);
      context.strokeStyle = stroke.style;
      context.lineWidth = stroke.wide * wide;
      context.globalAlpha = stroke.alpha * (stroke.order === 0 && scale < DENSE_TO ? DENSE_ALPHA : 1);
      context.setLineDash(stroke.dash);
      context.stroke(path);
    }
    context.globalAlpha = 1;
    context.setLineDash([]);
  }

  /** What is selected, and what paths run over: each way in its colour, side by side where they share a cable. @param {CanvasRenderingContext2D} context @param {View} view @param {number} wide */
  #paintMarked(context, view, wide) {
    const { mark } = colours();
    const ways = store.highlight?.ways ?? [];
    /** @type {{cables: Iterable<number>, style: string, aside: number}[]} */
    const lines = ways.map(({ cables, way }, index) => ({
      cables, style: WAYS[way % WAYS.length], aside: (index - (ways.length - 1) / 2) * (wide * 1.1 + 1.5),
    }));
    if (ways.length < 2) lines.splice(0, lines.length, { cables: store.highlight?.cables ?? [], style: mark, aside: 0 });
    if (store.selection?.kind === "cable") lines.push({ cables: [store.selection.cable], style: mark, aside: 0 });
    for (const { cables, style, aside } of lines) {
      context.strokeStyle = style;
      context.lineWidth = ways.length < 2 ? wide * 2.2 : wide * 1.1 + 1;
      context.beginPath();
      for (const cable of cables) {
        const { from, middle, to } = endsOf(cable);
        const [start, end] = [view.toScreen(from), view.toScreen(to)];
        const length = Math.hypot(end.x - start.x, end.y - start.y) || 1;
        // Always to the same side, whichever way the cable is named.
        const turn = start.x < end.x || (start.x === end.x && start.y < end.y) ? aside : -aside;
        const by = { x: ((start.y - end.y) / length) * turn, y: ((end.x - start.x) / length) * turn };
        context.moveTo(start.x + by.x, start.y + by.y);
        const control = middle && view.toScreen(middle);
        if (control) context.quadraticCurveTo(control.x + by.x, control.y + by.y, end.x + by.x, end.y + by.y);
        else context.lineTo(end.x + by.x, end.y + by.y);
      }
      context.stroke();
    }
  }

  /** A mark in the middle of cables that carry nothing: a cross for Down, a ring for Init. @param {CanvasRenderingContext2D} context @param {View} view */
  #paintTroubled(context, view) {
    const colour = colours();
    const size = Math.min(7, Math.max(3.5, view.scale / 3));
    const crosses = new Path2D();
    const rings = new Path2D();
    const grounds = new Path2D();
    for (const cable of this.#troubled.down) {
      const { x, y } = view.toScreen(halfway(cable));
      grounds.moveTo(x + size * 1.4, y);
      grounds.arc(x, y, size * 1.4, 0, Math.PI * 2);
      crosses.moveTo(x - size * 0.7, y - size * 0.7);
      crosses.lineTo(x + size * 0.7, y + size * 0.7);
      crosses.moveTo(x + size * 0.7, y - size * 0.7);
      crosses.lineTo(x - size * 0.7, y + size * 0.7);
    }
    for (const cable of this.#troubled.init) {
      const { x, y } = view.toScreen(halfway(cable));
      rings.moveTo(x + size, y);
      rings.arc(x, y, size, 0, Math.PI * 2);
    }
    context.fillStyle = colour.paper;
    context.fill(grounds);
    context.fill(rings);
    context.lineWidth = 2.5;
    context.strokeStyle = colour.down;
    context.stroke(crosses);
    context.strokeStyle = colour.init;
    context.stroke(rings);
  }

  /** @param {CanvasRenderingContext2D} context @param {View} view @param {number} width @param {number} height */
  #paintDevices(context, view, width, height) {
    const colour = colours();
    const size = Math.min(DEVICE_MAX, Math.max(DEVICE_MIN, view.scale));
    const groups = { there: new Path2D(), gone: new Path2D(), marked: new Path2D() };
    store.map.devices.forEach((device, index) => {
      const { x, y } = view.toScreen(device);
      if (x < -30 || y < -30 || x > width + 30 || y > height + 30) return;
      const isGone = store.sample !== null && store.sample.present[index] === 0;
      const isSelected = store.selection?.kind === "device" && store.selection.device === index;
      const paths = [isGone ? groups.gone : groups.there];
      if (isSelected || store.highlight?.devices.has(index)) paths.push(groups.marked);
      for (const path of paths) {
        const side = path === groups.marked ? Math.max(MARK_MIN, size * 1.6) : size;
        if (device.kind === "switch") path.rect(x - side / 2, y - side / 2, side, side);
        else {
          path.moveTo(x + side * 0.42, y);
          path.arc(x, y, side * 0.42, 0, Math.PI * 2);
        }
      }
    });
    context.fillStyle = colour.ink;
    context.fill(groups.there);
    context.fillStyle = colour.paper;
    context.fill(groups.gone);
    context.strokeStyle = colour.down;
    context.lineWidth = 2;
    context.setLineDash([3, 2]);
    context.stroke(groups.gone);
    context.setLineDash([]);
    context.strokeStyle = colour.mark;
    context.lineWidth = 2.5;
    context.stroke(groups.marked);
    this.#paintNames(context, view, size, width, height);
  }

  /** @param {CanvasRenderingContext2D} context @param {View} view @param {number} size @param {number} width @param {number} height */
  #paintNames(context, view, size, width, height) {
    const colour = colours();
    context.font = "11px system-ui, sans-serif";
    context.textAlign = "center";
    context.textBaseline = "top";
    /** What is written in each row: left and right end, and top. @type {Map<number, [number, number, number][]>} */
    const rows = new Map();
    const isNamed = (/** @type {number} */ index) => view.scale >= NAMES_FROM || store.highlight?.devices.has(index)
      || (store.selection?.kind === "device" && store.selection.device === index);
    store.map.devices.forEach((device, index) => {
      if (!isNamed(index)) return;
      const { x, y } = view.toScreen(device);
      if (x < -50 || y < -20 || x > width + 50 || y > height + 20) return;
      const half = context.measureText(device.name).width / 2 + 2;
      const isFree = (/** @type {number} */ top) => {
        const row = Math.round(top / NAME_HEIGHT);
        const written = [row - 1, row, row + 1].flatMap((near) => rows.get(near) ?? []);
        return !written.some(([left, right, at]) => Math.abs(at - top) < NAME_HEIGHT && x + half > left && x - half < right);
      };
      // Where there is no room, not even one line lower, the name is that of the tip.
      const top = [0, NAME_HEIGHT].map((lower) => y + size * 0.8 + 2 + lower).find(isFree);
      if (top === undefined) return;
      const row = Math.round(top / NAME_HEIGHT);
      rows.set(row, [...(rows.get(row) ?? []), [x - half, x + half, top]]);
      // Cables do not cross it.
      context.fillStyle = colour.paper;
      context.fillRect(x - half, top - 1, 2 * half, NAME_HEIGHT);
      context.fillStyle = colour.ink;
      context.fillText(device.name, x, top);
    });
  }
}
