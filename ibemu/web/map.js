/**
 * The map: one canvas, drawn when something has changed. Cables of one colour are one stroke, so that thousands of
 * them are a few calls; while the map is moved only the last picture is shifted and scaled.
 */

import { store } from "./store.js";
import { LAYERS, colours, valueOf } from "./scale.js";
import { View } from "./view.js";
import { make } from "./dom.js";

/** How near a cable is meant, pixels. */
const NEAR = 6;
/** How large a device is drawn at least, pixels. */
const DEVICE_MIN = 3;
/** And at most. */
const DEVICE_MAX = 18;
/** From this size on names are written, pixels a unit. */
const NAMES_FROM = 12;

class FabricMap extends HTMLElement {
  #canvas = make("canvas", { tabIndex: 0, role: "img" });
  #tip = make("div", { className: "tip", hidden: true });
  #view = new View();
  #isDue = false;
  /** Whether the user has moved the map. */
  #isMoved = false;

  connectedCallback() {
    this.#canvas.setAttribute("aria-label", "Map of the fabric");
    this.#canvas.setAttribute("aria-describedby", "map-help");
    const help = "Arrow keys move the map, plus and minus zoom, 0 shows all. Devices and cables are found by the search.";
    this.replaceChildren(this.#canvas, this.#tip, make("p", { id: "map-help", hidden: true }, help));
    new ResizeObserver(() => this.#resize()).observe(this);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.#draw());
    for (const what of ["sample", "highlight", "layer"]) store.addEventListener(what, () => this.#draw());
    store.addEventListener("select", () => this.#showSelection());
    store.addEventListener("ready", () => this.#resize());
    this.#listen();
  }

  #listen() {
    const canvas = this.#canvas;
    /** @type {{x: number, y: number} | null} */
    let held = null;
    let travelled = 0;
    canvas.addEventListener("pointerdown", (event) => {
      held = { x: event.offsetX, y: event.offsetY };
      travelled = 0;
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener("pointermove", (event) => {
      const here = { x: event.offsetX, y: event.offsetY };
      if (!held) return this.#hover(here);
      travelled += Math.hypot(here.x - held.x, here.y - held.y);
      this.#view.pan(here.x - held.x, here.y - held.y);
      this.#isMoved = true;
      held = here;
      this.#draw();
    });
    canvas.addEventListener("pointerup", (event) => {
      held = null;
      if (travelled < 4) store.select(this.#at({ x: event.offsetX, y: event.offsetY }));
    });
    canvas.addEventListener("pointerleave", () => (this.#tip.hidden = true));
    canvas.addEventListener("wheel", (event) => {
      event.preventDefault();
      this.#zoom(Math.exp(-event.deltaY / 400), { x: event.offsetX, y: event.offsetY });
    }, { passive: false });
    canvas.addEventListener("keydown", (event) => this.#key(event));
  }

  /** @param {KeyboardEvent} event */
  #key(event) {
    const middle = { x: this.clientWidth / 2, y: this.clientHeight / 2 };
    /** @type {Record<string, () => void>} */
    const keys = {
      ArrowLeft: () => this.#view.pan(60, 0),
      ArrowRight: () => this.#view.pan(-60, 0),
      ArrowUp: () => this.#view.pan(0, 60),
      ArrowDown: () => this.#view.pan(0, -60),
      "+": () => this.#view.zoom(1.25, middle),
      "-": () => this.#view.zoom(0.8, middle),
      0: () => this.#fit(),
      Escape: () => store.select(null),
    };
    const act = keys[event.key];
    if (!act) return;
    event.preventDefault();
    this.#isMoved = event.key !== "0";
    act();
    this.#draw();
  }

  /** @param {number} factor @param {{x: number, y: number}} around */
  #zoom(factor, around) {
    this.#view.zoom(factor, around);
    this.#isMoved = true;
    this.#draw();
  }

  #fit() {
    this.#view.fit(store.map.devices, this.clientWidth, this.clientHeight);
  }

  #resize() {
    const dots = devicePixelRatio;
    this.#canvas.width = Math.max(1, Math.round(this.clientWidth * dots));
    this.#canvas.height = Math.max(1, Math.round(this.clientHeight * dots));
    if (!this.#isMoved) this.#fit();
    this.#draw();
  }

  /** Draws with the next picture of the screen. */
  #draw() {
    if (this.#isDue) return;
    this.#isDue = true;
    requestAnimationFrame(() => {
      this.#isDue = false;
      this.#paint();
    });
  }

  #paint() {
    const context = this.#canvas.getContext("2d");
    if (!context || store.map.devices.length === 0) return;
    const dots = devicePixelRatio;
    const colour = colours();
    context.setTransform(dots, 0, 0, dots, 0, 0);
    context.fillStyle = colour.paper;
    context.fillRect(0, 0, this.clientWidth, this.clientHeight);
    this.#paintCables(context, colour);
    this.#paintDevices(context, colour);
    this.#describe();
  }

  /** @param {CanvasRenderingContext2D} context @param {ReturnType<typeof colours>} colour */
  #paintCables(context, colour) {
    const wide = Math.min(4, Math.max(0.8, this.#view.scale / 9));
    const strokes = new Map();
    /** @param {string} key @param {object} look @param {number} cable */
    const add = (key, look, cable) => {
      let stroke = strokes.get(key);
      if (!stroke) strokes.set(key, (stroke = { path: new Path2D(), ...look }));
      this.#trace(stroke.path, cable);
    };
    const sample = store.sample;
    const layer = LAYERS[store.layer];
    store.map.cables.forEach((_, cable) => {
      const state = sample ? sample.state[cable] : 0;
      const isDimmed = store.highlight !== null && !store.highlight.cables.has(cable);
      const alpha = isDimmed ? 0.4 : 1;
      if (state === 1) return add(`down${alpha}`, { style: colour.down, wide: wide * 1.4, dash: [6, 5], order: 8, alpha }, cable);
      if (state === 2 || state === 3) return add(`init${alpha}`, { style: colour.init, wide: wide * 1.2, dash: [2, 3], order: 7, alpha }, cable);
      if (state === 0) return add(`unknown${alpha}`, { style: colour.unknown, wide, dash: [1, 4], order: 0, alpha }, cable);
      const step = layer.of(valueOf(/** @type {import("./types.js").Sample} */ (sample), cable, store.layer));
      add(`${step}${alpha}`, { style: colour.steps[step], wide: wide * (1 + step * 0.18), dash: [], order: step, alpha }, cable);
    });
    for (const stroke of [...strokes.values()].sort((a, b) => a.order - b.order)) {
      context.strokeStyle = stroke.style;
      context.lineWidth = stroke.wide;
      context.globalAlpha = stroke.alpha;
      context.setLineDash(stroke.dash);
      context.stroke(stroke.path);
    }
    context.globalAlpha = 1;
    context.setLineDash([]);
    this.#paintMarked(context, colour, wide);
  }

  /** What is selected, and what a path runs over. */
  #paintMarked(/** @type {CanvasRenderingContext2D} */ context, /** @type {ReturnType<typeof colours>} */ colour, /** @type {number} */ wide) {
    const marked = new Path2D();
    for (const cable of store.highlight?.cables ?? []) this.#trace(marked, cable);
    if (store.selection?.kind === "cable") this.#trace(marked, store.selection.cable);
    context.strokeStyle = colour.mark;
    context.lineWidth = wide * 2.2;
    context.stroke(marked);
  }

  /** @param {Path2D} path @param {number} cable */
  #trace(path, cable) {
    const { from, middle, to } = this.#ends(cable);
    path.moveTo(from.x, from.y);
    if (middle) path.quadraticCurveTo(middle.x, middle.y, to.x, to.y);
    else path.lineTo(to.x, to.y);
  }

  /** @param {number} cable */
  #ends(cable) {
    const { a, b, bend } = store.map.cables[cable];
    const from = this.#view.toScreen(store.map.devices[a]);
    const to = this.#view.toScreen(store.map.devices[b]);
    if (bend === 0) return { from, to, middle: null };
    const length = Math.hypot(to.x - from.x, to.y - from.y) || 1;
    // The curve passes half way between its control point and the straight line.
    const by = (2 * bend * this.#view.scale) / length;
    const middle = { x: (from.x + to.x) / 2 + (to.y - from.y) * by, y: (from.y + to.y) / 2 - (to.x - from.x) * by };
    return { from, to, middle };
  }

  /** @param {CanvasRenderingContext2D} context @param {ReturnType<typeof colours>} colour */
  #paintDevices(context, colour) {
    const size = Math.min(DEVICE_MAX, Math.max(DEVICE_MIN, this.#view.scale));
    const groups = { there: new Path2D(), gone: new Path2D(), marked: new Path2D() };
    store.map.devices.forEach((device, index) => {
      const { x, y } = this.#view.toScreen(device);
      const isGone = store.sample !== null && store.sample.present[index] === 0;
      const isSelected = store.selection?.kind === "device" && store.selection.device === index;
      const paths = [isGone ? groups.gone : groups.there];
      if (isSelected || store.highlight?.devices.has(index)) paths.push(groups.marked);
      for (const path of paths) {
        const side = path === groups.marked ? size * 1.6 : size;
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
    if (this.#view.scale >= NAMES_FROM) this.#paintNames(context, colour, size);
  }

  /** @param {CanvasRenderingContext2D} context @param {ReturnType<typeof colours>} colour @param {number} size */
  #paintNames(context, colour, size) {
    context.font = "10px system-ui, sans-serif";
    context.textAlign = "center";
    context.textBaseline = "top";
    /** What is written in each row, as pairs of a left and a right end. @type {Map<number, [number, number][]>} */
    const rows = new Map();
    for (const { name, x, y } of store.map.devices.map((device) => ({ name: device.name, ...this.#view.toScreen(device) }))) {
      if (x < -50 || y < -20 || x > this.clientWidth + 50 || y > this.clientHeight + 20) continue;
      const half = context.measureText(name).width / 2 + 1;
      const row = Math.round(y / 12);
      const written = [row - 1, row, row + 1].flatMap((near) => rows.get(near) ?? []);
      // Where there is no room, the name is that of the tip.
      if (written.some(([left, right]) => x + half > left && x - half < right)) continue;
      rows.set(row, [...(rows.get(row) ?? []), [x - half, x + half]]);
      const top = y + size * 0.8 + 2;
      // Cables do not cross it.
      context.fillStyle = colour.paper;
      context.fillRect(x - half, top - 1, 2 * half, 11);
      context.fillStyle = colour.ink;
      context.fillText(name, x, top);
    }
  }

  /** Says in words what the picture shows at a glance. */
  #describe() {
    const { devices, cables } = store.map;
    const states = store.sample?.state ?? [];
    const down = states.filter((state) => state === 1).length;
    const init = states.filter((state) => state === 2 || state === 3).length;
    const marked = store.highlight ? `, ${store.highlight.cables.size} cables marked` : "";
    const label = `Map of the fabric: ${devices.length} devices, ${cables.length} cables, ${down} down, ${init} not yet active${marked}`;
    if (this.#canvas.getAttribute("aria-label") !== label) this.#canvas.setAttribute("aria-label", label);
  }

  /** @param {{x: number, y: number}} here */
  #hover(here) {
    const found = this.#at(here);
    this.#tip.hidden = found === null;
    if (found === null) return;
    this.#tip.textContent = found.kind === "device" ? store.map.devices[found.device].name : store.cableName(found.cable);
    this.#tip.style.left = `${here.x + 12}px`;
    this.#tip.style.top = `${here.y + 12}px`;
  }

  /** What is at a point of the screen. @param {{x: number, y: number}} here @returns {import("./types.js").Selection} */
  #at(here) {
    const size = Math.max(DEVICE_MIN * 2, this.#view.scale * 0.6);
    const device = store.map.devices.findIndex((device) => {
      const { x, y } = this.#view.toScreen(device);
      return Math.abs(x - here.x) < size && Math.abs(y - here.y) < size;
    });
    if (device >= 0) return { kind: "device", device };
    let nearest = NEAR;
    let found = -1;
    store.map.cables.forEach((_, cable) => {
      const away = this.#away(here, cable);
      if (away < nearest) [nearest, found] = [away, cable];
    });
    return found < 0 ? null : { kind: "cable", cable: found };
  }

  /** How far a point is from a cable. @param {{x: number, y: number}} here @param {number} cable */
  #away(here, cable) {
    const { from, middle, to } = this.#ends(cable);
    const parts = middle ? 12 : 1;
    let least = Infinity;
    let last = from;
    for (let part = 1; part <= parts; part += 1) {
      const t = part / parts;
      const next = middle
        ? { x: (1 - t) ** 2 * from.x + 2 * (1 - t) * t * middle.x + t * t * to.x, y: (1 - t) ** 2 * from.y + 2 * (1 - t) * t * middle.y + t * t * to.y }
        : to;
      least = Math.min(least, segmentDistance(here, last, next));
      last = next;
    }
    return least;
  }

  /** Moves the map so that what is selected can be seen. */
  #showSelection() {
    const selection = store.selection;
    if (selection !== null) {
      const cable = selection.kind === "cable" ? store.map.cables[selection.cable] : null;
      const { x, y } = this.#view.toScreen(store.map.devices[cable ? cable.a : /** @type {{device: number}} */ (selection).device]);
      if (x < 0 || y < 0 || x > this.clientWidth || y > this.clientHeight) {
        this.#view.pan(this.clientWidth / 2 - x, this.clientHeight / 2 - y);
        this.#isMoved = true;
      }
    }
    this.#draw();
  }
}

/** @param {{x: number, y: number}} p @param {{x: number, y: number}} a @param {{x: number, y: number}} b */
function segmentDistance(p, a, b) {
  const [dx, dy] = [b.x - a.x, b.y - a.y];
  const along = ((p.x - a.x) * dx + (p.y - a.y) * dy) / (dx * dx + dy * dy || 1);
  const t = Math.min(1, Math.max(0, along));
  return Math.hypot(p.x - a.x - t * dx, p.y - a.y - t * dy);
}

customElements.define("fabric-map", FabricMap);
