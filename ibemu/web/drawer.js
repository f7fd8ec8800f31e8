/** Details of the device or cable that is selected. */

import { get, post } from "./api.js";
import { store } from "./store.js";
import { link, list, make, table } from "./dom.js";
import { percent, si } from "./format.js";
import { spark } from "./spark.js";
import { arbitration, forwarding, multicast } from "./tables.js";

/** How often details are asked for anew. */
const AGAIN_MS = 2000;
const STATES = ["not known", "Down", "Init", "Armed", "Active"];

class FabricDrawer extends HTMLElement {
  #shown = 0;
  /** Which parts are open, by name. @type {Set<string>} */
  #open = new Set(["Counters"]);
  /** @type {import("./types.js").Tables | null} */
  #tables = null;

  connectedCallback() {
    this.#nothing();
    store.addEventListener("select", () => {
      this.#shown += 1;
      this.#tables = null;
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
    if (store.map.replay) return [make("h2", {}, name), make("p", { className: "quiet" }, "A stored history knows cables only.")];
    /** @type {import("./types.js").DeviceDetails} */
    const device = await get("device", { name });
    const parts = [make("h2", {}, name), identity(device)];
    if (store.map.control) parts.push(this.#action(`Restart ${name}`, "restart", { name }));
    parts.push(this.#part("Ports", () => ports(device)));
    for (const port of device.ports.filter(({ is_known }) => is_known)) {
      parts.push(this.#part(device.ports.length > 1 ? `Counters of port ${port.port}` : "Counters", () => counters(port)));
    }
    parts.push(this.#part("Forwarding table", () => this.#table(name, forwarding)));
    parts.push(this.#part("Multicast table", () => this.#table(name, multicast)));
    parts.push(this.#part("Arbitration", () => this.#table(name, arbitration)));
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
    const place = make("div", {}, "…");
    const shown = this.#shown;
    get("tables", { name }).then(
      (tables) => {
        if (shown !== this.#shown) return;
        this.#tables = tables;
        place.replaceChildren(show(tables));
      },
      (error) => place.replaceChildren(make("p", { className: "bad" }, error.message)),
    );
    return place;
  }

  /** @param {number} cable */
  async #cable(cable) {
    const { a, a_port, b, b_port } = store.map.cables[cable];
    /** @type {import("./types.js").Series} */
    const series = await get("series", { cable, until: store.at === null ? null : Math.round(store.at) });
    const sample = store.sample;
    const state = sample ? sample.state[cable] : 0;
    const names = [store.map.devices[a].name, store.map.devices[b].name];
    const to = (/** @type {number} */ device) => link(store.map.devices[device].name, () => store.select({ kind: "device", device }));
    const ways = [`${names[0]} to ${names[1]}`, `${names[1]} to ${names[0]}`];
    const parts = [
      make("h2", {}, store.cableName(cable)),
      list([
        ["State", STATES[state] ?? "not known"],
        ["Ends", make("span", {}, to(a), ` port ${a_port}, `, to(b), ` port ${b_port}`)],
        ["Errors", sample ? `${sample.errors[cable].toFixed(1)} a second` : "–"],
      ]),
      table("Load and wait", ["Direction", { number: "Load" }, { number: "Wait" }], ways.map((way, end) => [way, sample ? percent(sample.load[cable][end]) : "–", sample ? percent(sample.wait[cable][end]) : "–"])),
      make("h3", {}, "Load, last ten minutes"),
      spark(`Load of the last ten minutes: ${extremes(series.load)}`, series.at_ms, [0, 1].map((end) => series.load.map((pair) => pair[end])), 10),
      make("h3", {}, "Wait, last ten minutes"),
      spark(`Wait of the last ten minutes: ${extremes(series.wait)}`, series.at_ms, [0, 1].map((end) => series.wait.map((pair) => pair[end])), 10),
    ];
    if (store.map.control) {
      const port = `${names[0]}:${a_port}`;
      const isDown = state === 1;
      parts.push(this.#action(isDown ? "Plug the cable" : "Pull the cable", "cable", { port, plugged: isDown }));
    }
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

/** @param {import("./types.js").DeviceDetails} device */
function identity(device) {
  /** @type {[string, Node | string][]} */
  const pairs = [
    ["Kind", device.kind],
    ["In the subnet", device.is_present ? "yes" : "no"],
    ["Node GUID", device.guid],
    ["System image", device.system_image_guid],
    ["LID", String(device.lid)],
    ["Vendor, device", `0x${device.vendor_id.toString(16)}, ${device.device_id}`],
  ];
  const process = device.process;
  if (process) {
    pairs.push(["Process", process.pid === null ? "does not run" : `${process.pid}, ${process.restarts} restarts`]);
    pairs.push(["CPU, memory", `${process.cpu_s.toFixed(1)} s, ${si(process.resident_bytes, "B")}`]);
  }
  return list(pairs);
}

/** @param {import("./types.js").DeviceDetails} device */
function ports(device) {
  const rows = device.ports.map((port) => [
    String(port.port),
    port.state,
    port.lid ? `${port.lid}${port.lmc ? `+${2 ** port.lmc - 1}` : ""}` : "",
    port.width && port.speed ? `${port.width} ${port.speed}` : "",
    `${port.mtu || ""}`,
    String(port.vls || ""),
    port.cable === null ? "" : link(port.peer ?? "", () => store.select({ kind: "cable", cable: /** @type {number} */ (port.cable) })),
  ]);
  return table("Ports", [{ number: "Port" }, "State", "LID", "Link", { number: "MTU" }, { number: "VLs" }, "Leads to"], rows);
}

/** @param {import("./types.js").PortDetails} port */
function counters(port) {
  const rates = port.rates;
  const rows = Object.entries(port.counters).map(([name, value]) => [name, String(value)]);
  const shown = make("div", {}, list([
    ["Sent", `${si(rates.xmit_bytes_per_s * 8, "bit/s")}, ${si(rates.xmit_pkts_per_s, "packets/s")}`],
    ["Received", `${si(rates.rcv_bytes_per_s * 8, "bit/s")}, ${si(rates.rcv_pkts_per_s, "packets/s")}`],
    ["Waited", percent(rates.xmit_wait_per_s / 1000)],
    ["Errors", `${rates.errors_per_s.toFixed(1)} a second`],
  ]), lanes(port), table(`Counters of port ${port.port}`, ["Counter", { number: "Value" }], rows));
  shown.dataset.port = String(port.port);
  return shown;
}

/** Occupancy, credits and what the arbiter gave, lane by lane. @param {import("./types.js").PortDetails} port */
function lanes({ port, lanes }) {
  const rows = lanes.map((lane, vl) => [
    `VL ${vl}`, `${(lane.input_share * 100).toFixed(0)} %`, String(lane.output_blocks), String(lane.credits),
    `${(lane.share * 100).toFixed(0)} %`, `${lane.wait_s.toFixed(1)} s`,
  ]);
  // Port 0 of a switch has none.
  if (port === 0) return "";
  if (rows.length === 0) return make("p", { className: "quiet" }, "The device has not told of its lanes.");
  const heads = ["Lane", { number: "Input full" }, { number: "Queued" }, { number: "Credits" }, { number: "Share" }, { number: "Waited" }];
  const caption = `Lanes of port ${port}; queue and credits in blocks of 64 bytes`;
  return make("div", {}, table(caption, heads, rows), make("p", { className: "quiet" }, "Queue and credits in blocks of 64 bytes."));
}

/** @param {[number, number][]} pairs */
function extremes(pairs) {
  const values = pairs.flat();
  return values.length ? `${percent(Math.min(...values))} to ${percent(Math.max(...values))}` : "nothing yet";
}

customElements.define("fabric-drawer", FabricDrawer);
