/** Details of the device or cable that is selected: of now, asked for again and again, or of the moment that is shown. */

import { get, post } from "./api.js";
import { store } from "./store.js";
import { link, list, make, table, wide } from "./dom.js";
import { percent, si } from "./format.js";
import { Port } from "./port.js";
import { spark } from "./spark.js";
import { arbitration, forwarding, multicast } from "./tables.js";

/** How often details are asked for anew. */
const AGAIN_MS = 2000;
const STATES = ["not known", "Down", "Init", "Armed", "Active"];

/** The moment that is shown, as the server takes it. */
const moment = () => (store.at === null ? null : Math.round(store.at));

class FabricDrawer extends HTMLElement {
  #shown = 0;
  /** Which parts are open, by name. @type {Set<string>} */
  #open = new Set(["Counters", "Ports"]);
  /** @type {import("./types.js").Tables | null} */
  #tables = null;
  /** What ports have counted, for rates. */
  #port = new Port();

  connectedCallback() {
    this.#nothing();
    store.addEventListener("select", () => {
      this.#shown += 1;
      this.#tables = null;
      this.#port = new Port();
      this.#refresh(this.#shown);
    });
    store.addEventListener("sample", () => {
      if (store.map.replay || store.at !== null) this.#refresh(this.#shown, true);
    });
  }

  #nothing() {
    this.replaceChildren(make("p", { className: "quiet" }, "Select a device or a cable on the map, or search for one."));
  }

  /** @param {number} shown @param {boolean} [once] */
  async #refresh(shown, once = false) {
    const selection = store.selection;
    if (selection === null) return this.#nothing();
    let parts;
    try {
      parts = selection.kind === "device" ? await this.#device(selection.device) : await this.#cable(selection.cable);
    } catch (error) {
      parts = [make("p", { className: "bad" }, String(error instanceof Error ? error.message : error))];
    }
    if (shown !== this.#shown) return;
    // What is focused or being read stays where it is.
    const top = this.scrollTop;
    const focus = document.activeElement?.closest("fabric-drawer") === this ? document.activeElement?.getAttribute("data-key") : null;
    this.replaceChildren(...parts);
    this.scrollTop = top;
    if (focus) /** @type {HTMLElement | null} */ (this.querySelector(`[data-key="${CSS.escape(focus)}"]`))?.focus();
    if (!once && !store.map.replay) setTimeout(() => shown === this.#shown && this.#refresh(shown), AGAIN_MS);
  }

  /** @param {number} index */
  async #device(index) {
    const { name } = store.map.devices[index];
    /** @type {import("./types.js").DeviceDetails} */
    const device = await get("device", { name, at: moment() });
    /** @type {HTMLElement[]} */
    const parts = [make("h2", {}, name), identity(device)];
    const isNow = store.at === null && !store.map.replay;
    if (store.map.control && isNow) parts.push(this.#action(`Restart ${name}`, "restart", { name }));
    const cabled = device.ports.filter(({ cable }) => cable !== null);
    parts.push(this.#part("Ports", () => ports(device)));
    for (const port of cabled) {
      const title = cabled.length > 1 ? `Counters of port ${port.port}` : "Counters";
      parts.push(this.#part(title, () => this.#port.shown(name, port)));
    }
    if (!isNow) return parts;
    parts.push(this.#part("Forwarding table", () => this.#table(name, (tables) => forwarding(index, tables))));
    parts.push(this.#part("Multicast table", () => this.#table(name, (tables) => multicast(index, tables))));
    parts.push(this.#part("Arbitration", () => this.#table(name, (tables) => arbitration(tables, device))));
    return parts;
  }

  /** A part that is filled when it is opened. @param {string} title @param {() => Node} fill */
  #part(title, fill) {
    const part = make("details", { open: this.#open.has(title) }, make("summary", { "data-key": title }, title));
    if (part.open) part.append(fill());
    part.addEventListener("toggle", () => {
      if (part.open === this.#open.has(title)) return;
      if (part.open) {
        this.#open.add(title);
        part.append(fill());
      } else {
        this.#open.delete(title);
        part.lastElementChild?.remove();
      }
    });
    return part;
  }

  /** A table of the device, which is asked for once. @param {string} name @param {(tables: import("./types.js").Tables) => Node} show */
  #table(name, show) {
    if (this.#tables) return show(this.#tables);
    const place = make("div", { className: "quiet" }, "The device is asked …");
    const shown = this.#shown;
    get("tables", { name }).then(
      (tables) => {
        if (shown !== this.#shown) return;
        this.#tables = tables;
        place.className = "";
        place.replaceChildren(show(tables));
      },
      (error) => place.replaceChildren(make("p", { className: "bad" }, error.message)),
    );
    return place;
  }

  /** @param {number} cable */
  async #cable(cable) {
    const { a, a_port, b, b_port } = store.map.cables[cable];
    const names = [store.map.devices[a].name, store.map.devices[b].name];
    const [at, numbers] = [moment(), [a_port, b_port]];
    /** @type {Promise<import("./types.js").DeviceDetails | null>[]} */
    const asked = names.map((name, end) => get("device", { name, port: numbers[end], at }).catch(() => null));
    /** @type {import("./types.js").Series} */
    const series = await get("series", { cable, until: at });
    const ends = (await Promise.all(asked)).map((device) => device?.ports[0] ?? null);
    const sample = store.sample;
    const state = sample ? sample.state[cable] : 0;
    const to = (/** @type {number} */ device) => link(store.map.devices[device].name, () => store.select({ kind: "device", device }));
    const ways = [`${names[0]} to ${names[1]}`, `${names[1]} to ${names[0]}`];
    const text = (/** @type {[number, number][] | undefined} */ pairs, /** @type {number} */ end) => (pairs?.[cable] ? percent(pairs[cable][end]) : "–");
    const rate = ends.map((port) => (port?.width && port.speed ? `${port.width} ${port.speed}` : ""));
    const parts = [
      make("h2", {}, store.cableName(cable)),
      list([
        ["State", STATES[state] ?? "not known"],
        ["Ends", make("span", {}, to(a), ` port ${a_port}, `, to(b), ` port ${b_port}`)],
        ["LIDs", ends.map((port) => lids(port)).join(", ") || "–"],
        ["Width, speed", rate[0] || rate[1] || "–"],
        ["MTU, lanes", ends[0] ? `${ends[0].mtu || "–"} bytes, ${ends[0].vls || "–"} data VLs` : "–"],
        ["Errors", sample ? `${sample.errors[cable].toFixed(1)} a second, both ends` : "–"],
      ]),
      table("Load and wait", ["Direction", { number: "Load" }, { number: "Wait" }, { number: "Fullest lane" }],
        ways.map((way, end) => [way, text(sample?.load, end), text(sample?.wait, end), text(sample?.fill, end)])),
      make("h3", {}, "Load, ten minutes"),
      spark("Load", series.at_ms, series.load, ways),
      make("h3", {}, "Wait, ten minutes"),
      spark("Wait", series.at_ms, series.wait, ways),
    ];
    if (store.map.control && store.at === null) {
      const isDown = state === 1;
      parts.push(this.#action(isDown ? "Plug the cable" : "Pull the cable", "cable", { port: `${names[0]}:${a_port}`, plugged: isDown }));
    }
    ends.forEach((port, end) => {
      if (port) parts.push(this.#part(`Counters of ${names[end]}:${port.port}`, () => this.#port.shown(names[end], port, false)));
    });
    return parts;
  }

  /** @param {string} text @param {string} path @param {object} body */
  #action(text, path, body) {
    const said = make("span", { role: "status" });
    const button = make("button", { type: "button", "data-key": text }, text);
    button.addEventListener("click", async () => {
      button.disabled = true;
      try {
        said.textContent = (await post(path, body)).done;
      } catch (error) {
        said.textContent = error instanceof Error ? error.message : String(error);
      }
      button.disabled = false;
    });
    return make("p", {}, button, " ", said);
  }
}

/** The LIDs of a port. @param {import("./types.js").PortDetails | null} port */
function lids(port) {
  if (!port?.lid) return "–";
  return port.lmc ? `${port.lid} to ${port.lid + 2 ** port.lmc - 1}` : String(port.lid);
}

/** @param {import("./types.js").DeviceDetails} device */
function identity(device) {
  /** @type {[string, Node | string][]} */
  const pairs = [
    ["Kind", device.kind],
    ["In the subnet", device.is_present ? "yes" : "no"],
    ["Node GUID", device.guid],
    ["System image", device.system_image_guid],
    ["LID", device.lid ? String(device.lid) : "none"],
    ["Vendor, device", `0x${device.vendor_id.toString(16)}, ${device.device_id}`],
  ];
  const process = device.process;
  if (process) {
    const restarts = process.restarts === 1 ? "1 restart" : `${process.restarts} restarts`;
    pairs.push(["Process", process.pid === null ? "does not run" : `${process.pid}, ${restarts}`]);
    pairs.push(["CPU, memory", process.is_elsewhere ? "on another machine" : `${process.cpu_s.toFixed(1)} s, ${si(process.resident_bytes, "B")}`]);
  }
  return list(pairs);
}

/** @param {import("./types.js").DeviceDetails} device */
function ports(device) {
  const rows = device.ports.map((port) => [
    String(port.port),
    port.state,
    port.lid ? lids(port) : "",
    port.width && port.speed ? `${port.width} ${port.speed}` : "",
    port.cable === null ? "" : si(port.rates.xmit_bytes_per_s * 8, "bit/s"),
    port.cable === null ? "" : link(port.peer ?? "", () => store.select({ kind: "cable", cable: /** @type {number} */ (port.cable) })),
  ]);
  return wide("Ports", table("Ports", [{ number: "Port" }, "State", "LID", "Link", { number: "Sends" }, "Leads to"], rows));
}

customElements.define("fabric-drawer", FabricDrawer);
