/** What is shown of one port: rates, ten minutes of load, lanes, counters. */

import { get } from "./api.js";
import { store } from "./store.js";
import { list, make, table } from "./dom.js";
import { percent, si } from "./format.js";
import { spark } from "./spark.js";

/** Ports of the device or cable that is selected; remembers what they have counted, for rates. */
export class Port {
  /** By device and port: counters and when they were read, and the rates since then. @type {Map<string, {at_ms: number, counters: Record<string, number>, rates: Record<string, number>}>} */
  #last = new Map();

  /** @param {string} device @param {import("./types.js").PortDetails} port @param {boolean} [hasGraph] */
  shown(device, port, hasGraph = true) {
    const { rates } = port;
    /** @type {HTMLElement[]} */
    const parts = [list([
      ["Sent", `${si(rates.xmit_bytes_per_s * 8, "bit/s")}, ${si(rates.xmit_pkts_per_s, "packets/s")}`],
      ["Received", `${si(rates.rcv_bytes_per_s * 8, "bit/s")}, ${si(rates.rcv_pkts_per_s, "packets/s")}`],
      ["Waited", `${percent(rates.xmit_wait_per_s / 1000)} of the time`],
      ["Errors", `${rates.errors_per_s.toFixed(1)} a second`],
      ["Fullest lane", `${percent(port.fill)} of its input buffer`],
    ])];
    if (port.is_stale) parts.push(make("p", { className: "bad" }, "It does not answer: these are its last counters."));
    if (hasGraph && port.cable !== null) parts.push(this.#graph(device, port.cable));
    if (port.counters) parts.push(lanes(port), this.#counters(device, port, port.counters));
    const shown = make("div", {}, ...parts);
    shown.dataset.port = String(port.port);
    return shown;
  }

  /** @param {string} device @param {number} cable */
  #graph(device, cable) {
    const isFirst = store.map.devices[store.map.cables[cable].a].name === device;
    const place = make("div", { className: "graph" });
    const until = store.at === null ? null : Math.round(store.at);
    get("series", { cable, until }).then(
      (/** @type {import("./types.js").Series} */ { at_ms, load }) => {
        const ways = isFirst ? ["sent", "received"] : ["received", "sent"];
        place.replaceChildren(spark("Load of ten minutes", at_ms, load, ways));
      },
      () => place.replaceChildren(),
    );
    return place;
  }

  /** @param {string} device @param {import("./types.js").PortDetails} port @param {Record<string, number>} counters */
  #counters(device, port, counters) {
    const key = `${device}:${port.port}`;
    const at_ms = store.sample?.at_ms ?? 0;
    const last = this.#last.get(key);
    let rates = last?.rates ?? {};
    if (last === undefined || at_ms > last.at_ms) {
      const seconds = last ? (at_ms - last.at_ms) / 1000 : 0;
      if (last) rates = Object.fromEntries(Object.entries(counters).map(([name, value]) => [name, Math.max(0, value - last.counters[name]) / seconds]));
      this.#last.set(key, { at_ms, counters, rates });
    }
    const rows = Object.entries(counters).map(([name, value]) => [name, String(value), rates[name] ? si(rates[name], "") : ""]);
    return table(`Counters of port ${port.port}`, ["Counter", { number: "Value" }, { number: "A second" }], rows);
  }
}

/** Occupancy, credits and what the arbiter gave, lane by lane. @param {import("./types.js").PortDetails} port */
function lanes({ port, lanes }) {
  if (lanes.length === 0) return make("p", { className: "quiet" }, "The device has not told of its lanes yet.");
  const rows = lanes.map((lane, vl) => [
    `VL ${vl}`, bar(lane.input_share), si(lane.output_blocks * 64, "B"), si(lane.credits * 64, "B"), bar(lane.share), `${lane.wait_s.toFixed(1)} s`,
  ]);
  const heads = ["Lane", { number: "Input buffer" }, { number: "Queued" }, { number: "Credits" }, { number: "Share" }, { number: "Waited" }];
  const note = "Input buffer: how full. Queued: bytes that wait to be sent. Credits: bytes that the peer still takes. Share: of what was sent since the last look. Waited: without credits, since the start.";
  return make("div", {}, table(`Lanes of port ${port}`, heads, rows), make("p", { className: "quiet note" }, note));
}

/** A part of a whole as a number over a bar. @param {number} part 0 to 1 */
function bar(part) {
  const shown = make("span", { className: "bar" }, percent(part * 1000));
  const full = make("span", { className: "full" });
  full.style.width = `${Math.min(100, part * 100)}%`;
  shown.prepend(full);
  return shown;
}
