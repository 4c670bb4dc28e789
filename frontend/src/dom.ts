/** Making elements. Characters of a text only ever get in as text nodes and attributes. */
type Child = Node | string | null;
interface Properties {
  readonly class?: string;
  readonly on?: Readonly<Record<string, (event: never) => void>>;
  readonly [attribute: string]: unknown;
}

function fill<E extends Element>(element: E, properties: Properties, children: readonly Child[]): E {
  for (const [name, value] of Object.entries(properties)) {
    if (name === "on") {
      for (const [event, listener] of Object.entries(value as Record<string, EventListener>)) element.addEventListener(event, listener);
    } else if (value === true) element.setAttribute(name, "");
    else if (value !== undefined && value !== null && value !== false) element.setAttribute(name, String(value));
  }
  for (const child of children) if (child !== null) element.append(child);
  return element;
}

/** An HTML element. */
export function h<K extends keyof HTMLElementTagNameMap>(tag: K, properties: Properties = {}, ...children: Child[]): HTMLElementTagNameMap[K] {
  return fill(document.createElement(tag), properties, children);
}

/** An SVG element. */
export function s<K extends keyof SVGElementTagNameMap>(tag: K, properties: Properties = {}, ...children: Child[]): SVGElementTagNameMap[K] {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", tag), properties, children);
}

let made = 0;
/** An id that no other part of the page has. */
export const freshId = (): string => `slalom-${++made}`;

/** Radio buttons that look like one switch. */
export function choice<T extends string>(
  legend: string, options: readonly (readonly [T, string])[], chosen: T, choose: (value: T) => void,
): HTMLFieldSetElement {
  const name = freshId();
  return h("fieldset", { class: "choice" }, h("legend", {}, legend), h("span", { class: "options" }, ...options.map(([value, label]) =>
    h("label", {}, h("input", { type: "radio", name, value, checked: value === chosen, on: { change: () => choose(value) } }), h("span", {}, label)))));
}
