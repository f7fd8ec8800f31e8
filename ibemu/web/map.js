/** The map: one canvas, drawn when something has changed or is moved. */

import { store } from "./store.js";
import { View } from "./view.js";
import { DEVICE_MIN, Picture, endsOf } from "./picture.js";
import { make } from "./dom.js";
import { percent } from "./format.js";

/** How near a cable is meant, pixels. */
const NEAR = 6;
/** How long after the last move the map is drawn sharp. */
const MOVING_MS = 150;

class FabricMap extends HTMLElement {
  #canvas = make("canvas", { tabIndex: 0, role: "img" });
  #tip = make("div", { className: "tip", hidden: true });
  #view = new View();
  #picture = new Picture();
  /** Whether cables look different from what was drawn last. */
  #isChanged = true;
  #isDue = false;
  /** Whether something besides the cables is to be drawn: the map was moved, a mark was set. */
  #isOther = true;
  /** While the map is moved or zoomed: what ends it. @type {ReturnType<typeof setTimeout> | undefined} */
  #moving = undefined;
  /** Whether the user has moved the map. */
  #isMoved = false;

  connectedCallback() {
    this.#canvas.setAttribute("aria-label", "Map of the fabric");
    this.#canvas.setAttribute("aria-describedby", "map-help");
    const help = "Arrow keys move the map, plus and minus zoom, 0 shows all, Escape clears marks. Devices and cables are found by the search.";
    this.replaceChildren(this.#canvas, this.#tip, make("p", { id: "map-help", hidden: true }, help));
    new ResizeObserver(() => this.#resize()).observe(this);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.#change(true));
    for (const what of ["ready", "sample", "highlight", "layer"]) store.addEventListener(what, () => this.#change(what !== "sample"));
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
      held = here;
      this.#move();
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
      Escape: () => {
        store.select(null);
        store.setHighlight(null);
      },
    };
    const act = keys[event.key];
    if (!act) return;
    event.preventDefault();
    act();
    this.#move();
    this.#isMoved = event.key !== "0";
  }

  /** @param {number} factor @param {{x: number, y: number}} around */
  #zoom(factor, around) {
    this.#view.zoom(factor, around);
    this.#move();
  }

  /** The map was moved or zoomed, and may be so again soon. */
  #move() {
    this.#isMoved = true;
    clearTimeout(this.#moving);
    this.#moving = setTimeout(() => {
      this.#moving = undefined;
      this.#draw();
    }, MOVING_MS);
    this.#draw();
  }

  #fit() {
    this.#view.fit(store.map.devices, this.clientWidth, this.clientHeight, store.map.arrangement === "levels");
  }

  #resize() {
    const dots = devicePixelRatio;
    this.#canvas.width = Math.max(1, Math.round(this.clientWidth * dots));
    this.#canvas.height = Math.max(1, Math.round(this.clientHeight * dots));
    if (!this.#isMoved) this.#fit();
    this.#draw();
  }

  /** @param {boolean} isOther whether more than cables and devices may look different */
  #change(isOther) {
    this.#isChanged = true;
    this.#draw(isOther);
  }

  /** Draws with the next picture of the screen. */
  #draw(isOther = true) {
    this.#isOther ||= isOther;
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
    const looksDifferent = this.#isChanged && this.#picture.trace();
    // Most samples of a fabric at rest look as the one before.
    if (looksDifferent || this.#isOther) this.#picture.paint(context, this.#view, devicePixelRatio, this.clientWidth, this.clientHeight, this.#moving !== undefined);
    [this.#isChanged, this.#isOther] = [false, false];
    this.#describe();
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
    this.#tip.textContent = found.kind === "device" ? store.map.devices[found.device].name : about(found.cable);
    // Beside the pointer, and on the map.
    const [left, top] = [Math.min(here.x + 12, this.clientWidth - this.#tip.offsetWidth - 4), Math.min(here.y + 12, this.clientHeight - this.#tip.offsetHeight - 4)];
    this.#tip.style.left = `${Math.max(0, left)}px`;
    this.#tip.style.top = `${Math.max(0, top)}px`;
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
    const ends = endsOf(cable);
    const [from, to] = [this.#view.toScreen(ends.from), this.#view.toScreen(ends.to)];
    const middle = ends.middle && this.#view.toScreen(ends.middle);
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

/** What is said of a cable that the pointer is at. @param {number} cable */
function about(cable) {
  const name = store.cableName(cable);
  const sample = store.sample;
  if (!sample || sample.state[cable] !== 4) return name;
  const both = (/** @type {[number, number]} */ [there, back]) => `${percent(there)} / ${percent(back)}`;
  return `${name} · load ${both(sample.load[cable])} · wait ${both(sample.wait[cable])}`;
}

/** @param {{x: number, y: number}} p @param {{x: number, y: number}} a @param {{x: number, y: number}} b */
function segmentDistance(p, a, b) {
  const [dx, dy] = [b.x - a.x, b.y - a.y];
  const along = ((p.x - a.x) * dx + (p.y - a.y) * dy) / (dx * dx + dy * dy || 1);
  const t = Math.min(1, Math.max(0, along));
  return Math.hypot(p.x - a.x - t * dx, p.y - a.y - t * dy);
}

customElements.define("fabric-map", FabricMap);
