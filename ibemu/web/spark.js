/** Small graphs over time: one line each way, with the top of the scale and the span of time in words. */

import { colours } from "./scale.js";
import { make } from "./dom.js";
import { clock, percent } from "./format.js";

const [WIDTH, HEIGHT] = [640, 120];
/** The top of a graph is no lower than this, thousandths. */
const TOP_MIN = 10;

/**
 * @param {string} what is shown
 * @param {number[]} at_ms
 * @param {[number, number][]} pairs thousandths, one a moment
 * @param {string[]} ways what the first and the second of a pair are
 */
export function spark(what, at_ms, pairs, ways) {
  const canvas = make("canvas", { className: "spark", width: WIDTH, height: HEIGHT, role: "img" });
  const values = pairs.flat();
  const most = values.reduce((most, value) => Math.max(most, value), 0);
  const range = values.length ? `at most ${percent(most)}` : "nothing yet";
  canvas.setAttribute("aria-label", `${what}: ${range}`);
  const context = canvas.getContext("2d");
  if (!context || at_ms.length < 2) return make("p", { className: "quiet" }, "Nothing was sampled yet.");
  const colour = colours();
  const top = Math.max(TOP_MIN, most);
  const [first, last] = [at_ms[0], at_ms[at_ms.length - 1]];
  const styles = [colour.steps[3], colour.mark];
  [0, 1].forEach((end) => {
    context.beginPath();
    pairs.forEach((pair, point) => {
      const x = ((at_ms[point] - first) / (last - first)) * WIDTH;
      const y = HEIGHT - 3 - (pair[end] / top) * (HEIGHT - 6);
      if (point === 0) context.moveTo(x, y);
      else context.lineTo(x, y);
    });
    context.strokeStyle = styles[end];
    context.setLineDash(end ? [7, 4] : []);
    context.lineWidth = 2.5;
    context.stroke();
  });
  const key = ways.map((way, end) => {
    const swatch = make("span", { className: end ? "swatch dashed" : "swatch" });
    swatch.style.borderColor = styles[end];
    return make("span", {}, swatch, way);
  });
  return make("figure", { className: "graph" },
    make("figcaption", {}, make("span", {}, `${percent(top)} at the top`), ...key),
    canvas,
    make("p", { className: "span" }, make("span", {}, clock(first)), make("span", {}, clock(last))));
}
