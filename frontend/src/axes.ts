/** The lines and numbers behind the marks of a picture. */
import { s } from "./dom";
import { scale, tickLabel, ticks } from "./numbers";

type Range = readonly [number, number];
type Scale = (number: number) => number;

const LEFT = 46;
const TOP = 12;
const BELOW = 40;

/** Where values and importances lie in a picture. */
export interface Plane {
  readonly x: Scale;
  readonly y: Scale;
  readonly axes: SVGElement;
  readonly frame: { readonly x: number; readonly y: number; readonly width: number; readonly height: number };
}

/** Values from left to right, importances upwards, with a dashed line at the whole text's prediction and dotted ones at ends of the range. */
export function plane(across: Range, up: Range, width: number, height: number, whole: number, bounds: readonly number[] = []): Plane {
  const frame = { x: LEFT, y: TOP, width: width - LEFT - TOP, height: height - TOP - BELOW };
  const [right, bottom] = [frame.x + frame.width, frame.y + frame.height];
  const x = scale(across, [frame.x, right]);
  const y = scale(up, [bottom, frame.y]);
  const axes = s("g", { class: "axes", "aria-hidden": "true" });
  for (const tick of ticks(across, width / 90)) {
    axes.append(s("line", { x1: x(tick), x2: x(tick), y1: frame.y, y2: bottom, class: tick === 0 ? "zero" : "grid" }),
      s("text", { x: x(tick), y: bottom + 16, "text-anchor": "middle" }, tickLabel(tick)));
  }
  for (const tick of ticks(up, height / 70)) {
    axes.append(s("line", { x1: frame.x, x2: right, y1: y(tick), y2: y(tick), class: "grid" }),
      s("text", { x: frame.x - 6, y: y(tick) + 4, "text-anchor": "end" }, tickLabel(tick)));
  }
  axes.append(
    ...bounds.map((end) => s("line", { x1: x(end), x2: x(end), y1: frame.y, y2: bottom, class: "bound" })),
    s("line", { x1: x(whole), x2: x(whole), y1: frame.y, y2: bottom, class: "whole" }),
    s("text", { x: (frame.x + right) / 2, y: height - 6, "text-anchor": "middle", class: "name" }, "value"),
    s("text", { transform: `translate(12 ${(frame.y + bottom) / 2}) rotate(-90)`, "text-anchor": "middle", class: "name" }, "importance"),
  );
  return { x, y, axes, frame };
}

/** The sink's mark, with its name. */
export function diamond(x: number, y: number): SVGElement[] {
  return [s("path", { d: `M${x - 6} ${y}L${x} ${y - 6}L${x + 6} ${y}L${x} ${y + 6}Z`, class: "sink" }), s("text", { x: x + 9, y: y + 4, class: "label" }, "sink")];
}

/** One score from left to right. */
export function ruler(across: Range, from: number, to: number, height: number): { readonly x: Scale; readonly axes: SVGElement } {
  const x = scale(across, [from, to]);
  const axes = s("g", { class: "axes", "aria-hidden": "true" });
  for (const tick of ticks(across, (to - from) / 80)) {
    axes.append(s("line", { x1: x(tick), x2: x(tick), y1: 0, y2: height - 26, class: tick === 0 ? "zero" : "grid" }),
      s("text", { x: x(tick), y: height - 10, "text-anchor": "middle" }, tickLabel(tick)));
  }
  return { x, axes };
}
