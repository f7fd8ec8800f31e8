/** What all parts of the page know: the map, the sample that is shown, what is selected. They listen to its events. */

import { get } from "./api.js";

/** @typedef {import("./types.js").FabricMap} FabricMap */
/** @typedef {import("./types.js").Sample} Sample */
/** @typedef {import("./types.js").Happening} Happening */
/** @typedef {import("./types.js").Selection} Selection */

/** How long without a word from the server until the page says so. */
const SILENCE_MS = 20_000;

/**
 * Events: `ready` (the map is there), `sample`, `select`, `happened`, `highlight`, `layer`, `state`.
 */
class Store extends EventTarget {
  /** @type {FabricMap} */
  map = { fabric: "", topology: "", arrangement: "", time_scale: 1, devices: [], cables: [], control: false, replay: true };
  /** @type {Sample | null} */
  sample = null;
  /** @type {Selection} */
  selection = null;
  /** What cables are coloured by. */
  layer = "load";
  /** @type {Happening[]} */
  happened = [];
  /** Cables and devices that a path, tree or loop runs over. @type {{cables: Set<number>, devices: Set<number>} | null} */
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
        this.sample = sample;
        this.#tell("sample");
      }
    });
    source.addEventListener("happened", (message) => {
      this.happened.push(JSON.parse(message.data));
      this.happened.splice(0, this.happened.length - 1000);
      this.#tell("happened");
    });
    source.addEventListener("error", () => this.#trouble("the server cannot be reached"));
    setInterval(() => {
      if (Date.now() - heard > SILENCE_MS) this.#trouble("nothing was sampled for 20 seconds");
    }, SILENCE_MS / 4);
  }

  /** Shows a moment of the past, or with null what happens now. @param {number | null} at */
  async show(at) {
    this.at = at;
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

  /** @param {string} layer */
  setLayer(layer) {
    this.layer = layer;
    this.#tell("layer");
  }

  /** @param {{cables: Set<number>, devices: Set<number>} | null} highlight */
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
