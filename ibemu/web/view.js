/** From the map's coordinates to the screen: a shift and a scale, upright a larger one where the map is much wider than high. */

/** @typedef {{x: number, y: number}} Point */

/** What is left free around the map, pixels: below two lines of names. */
const [BESIDE, ABOVE, BELOW] = [24, 24, 48];
/** The largest scale at which all is shown, pixels a unit. */
const FIT_MAX = 60;

export class View {
  /** Pixels a unit, sideways. */
  scale = 10;
  x = 0;
  y = 0;
  /** Pixels a unit, upright, at least: levels of a wide fabric fill the window. */
  #upright = 0;

  /** Pixels a unit, upright. */
  get upright() {
    return Math.max(this.scale, this.#upright);
  }

  /** What takes a path there. */
  get matrix() {
    return new DOMMatrix([this.scale, 0, 0, this.upright, this.x, this.y]);
  }

  /** @param {Point} point @returns {Point} */
  toScreen({ x, y }) {
    return { x: x * this.scale + this.x, y: y * this.upright + this.y };
  }

  /** Keeps the point of the screen where it is. @param {number} factor @param {Point} around */
  zoom(factor, around) {
    const before = { scale: this.scale, upright: this.upright };
    this.scale = Math.min(200, Math.max(0.2, this.scale * factor));
    this.x = around.x - ((around.x - this.x) * this.scale) / before.scale;
    this.y = around.y - ((around.y - this.y) * this.upright) / before.upright;
  }

  /** @param {number} dx @param {number} dy */
  pan(dx, dy) {
    this.x += dx;
    this.y += dy;
  }

  /** Shows all points. @param {Point[]} points @param {number} width @param {number} height @param {boolean} hasLevels whether distances upright say nothing */
  fit(points, width, height, hasLevels) {
    if (points.length === 0 || width === 0 || height === 0) return;
    const [wide, high] = [width - 2 * BESIDE, height - ABOVE - BELOW].map((side) => Math.max(1, side));
    const xs = points.map((point) => point.x);
    const ys = points.map((point) => point.y);
    const [left, right] = [Math.min(...xs), Math.max(...xs)];
    const [top, bottom] = [Math.min(...ys), Math.max(...ys)];
    const upright = Math.min(high / (bottom - top + 1), FIT_MAX);
    this.scale = Math.min(wide / (right - left + 1), upright);
    this.#upright = hasLevels ? upright : 0;
    this.x = (width - (left + right) * this.scale) / 2;
    this.y = ABOVE + (high - (top + bottom) * this.upright) / 2;
  }
}
