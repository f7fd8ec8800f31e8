/** What all parts of the page know: the map, the sample that is shown, what is selected. They listen to its events. */

import { get } from "./api.js";

/** @typedef {import("./types.js").FabricMap} FabricMap */
/** @typedef {import("./types.js").Sample} Sample */
/** @typedef {import("./types.js").Happening} Happening */
/** @typedef {import("./types.js").Selection} Selection */

/** How often one lane is asked for anew. */
const LANE_MS = 2000;

/** How long without a word from the server until the page says so. */
const SILENCE_MS = 20_000;

/**
 * Events: `ready` (the map is there), `sample`, `select`, `happened`, `highlight`, `layer`, `moment` (now, or the past), `state`.
 */
class Store extends EventTarget {
  /** @type {FabricMap} */
  map = { fabric: "", topology: "", arrangement: "", time_scale: 1, vls: 0, devices: [], cables: [], control: false, replay: true };
  /** @type {Sample | null} */
  sample = null;
  /** @type {Selection} */
  selection = null;
  /** What cables are coloured by. */
  layer = "load";
  /** Which lane, where cables are coloured by lanes; null is the fullest. @type {number | null} */
  vl = null;
  /** @type {Happening[]} */
  happened = [];
  /** Cables and devices that paths, a tree or a loop run over. @type {import("./types.js").Highlight | null} */
  highlight = null;
  /** The moment that is shown; null is now. @type {number | null} */
  at = null;
  /** What is wrong with the connection or the sampling. */
  trouble = "";
  /** @type {Map<string, number>} */
  #deviceByName = new Map();
  /** @type {Map<string, number>} */
  #cableByPort = new Map();

  async start() {
    this.map = await get("map");
    this.map.devices.forEach((device, index) => this.#deviceByName.set(device.name, index));
    this.map.cables.forEach((cable, index) => {
      this.#cableByPort.set(`${cable.a}:${cable.a_port}`, index);
      this.#cableByPort.set(`${cable.b}:${cable.b_port}`, index);
    });
    this.happened = await get("events");
    this.#tell("ready");
    this.#tell("happened");
    if (this.map.replay) {
      const span = await get("span");
      await this.show(span.first_ms);
    } else {
      this.#listen();
    }
  }

  #listen() {
    const source = new EventSource("/api/stream");
    let heard = Date.now();
    source.addEventListener("sample", (message) => {
      heard = Date.now();
      /** @type {Sample} */
      const sample = JSON.parse(message.data);
      this.#trouble(sample.failure ?? "");
      if (this.at === null) {
        if (this.vl !== null) sample.lane = this.sample?.lane;
        this.sample = sample;
        this.#tell("sample");
      }
    });
    source.addEventListener("happened", (message) => {
      this.happened.push(JSON.parse(message.data));
      this.happened.splice(0, this.happened.length - 4096);
      this.#tell("happened");
    });
    source.addEventListener("error", () => this.#trouble("the server cannot be reached"));
    setInterval(() => {
      if (Date.now() - heard > SILENCE_MS) this.#trouble("nothing was sampled for 20 seconds");
    }, SILENCE_MS / 4);
  }

  /** Shows a moment of the past, or with null what happens now. @param {number | null} at */
  async show(at) {
    const wasPast = this.at !== null;
    this.at = at;
    if (wasPast !== (at !== null)) this.#tell("moment");
    if (at !== null) {
      const sample = await get("sample", { at: Math.round(at) });
      if (this.at !== at) return;
      this.sample = sample;
      this.#tell("sample");
    }
  }

  /** @param {Selection} selection */
  select(selection) {
    this.selection = selection;
    this.#tell("select");
  }

  /** @param {string} layer @param {number | null} [vl] */
  setLayer(layer, vl = null) {
    this.layer = layer;
    this.vl = vl;
    if (this.sample) this.sample.lane = undefined;
    this.#tell("layer");
    if (vl !== null) this.#followLane(vl);
  }

  /** Asks for one lane again and again as long as cables are coloured by it. @param {number} vl */
  async #followLane(vl) {
    while (this.vl === vl && this.layer === "fill") {
      const lane = await get("lane", { vl }).catch(() => undefined);
      if (this.vl !== vl || !this.sample) return;
      this.sample.lane = lane;
      if (this.at === null) this.#tell("sample");
      await new Promise((resolve) => setTimeout(resolve, LANE_MS));
    }
  }

  /** The cables that cross what was marked are pale. @param {import("./types.js").Highlight | null} highlight */
  setHighlight(highlight) {
    this.highlight = highlight;
    this.#tell("highlight");
  }

  /** @param {string} name @returns {number | undefined} */
  device(name) {
    return this.#deviceByName.get(name);
  }

  /** The cable in a port. @param {number} device @param {number} port @returns {number | undefined} */
  cableAt(device, port) {
    return this.#cableByPort.get(`${device}:${port}`);
  }

  /** @param {number} cable */
  cableName(cable) {
    const { a, a_port, b, b_port } = this.map.cables[cable];
    return `${this.map.devices[a].name}:${a_port} – ${this.map.devices[b].name}:${b_port}`;
  }

  /** @param {string} trouble */
  #trouble(trouble) {
    if (trouble === this.trouble) return;
    this.trouble = trouble;
    this.#tell("state");
  }

  /** @param {string} what */
  #tell(what) {
    this.dispatchEvent(new Event(what));
  }
}

export const store = new Store();
