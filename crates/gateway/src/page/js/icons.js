// Icons, drawn here: 16 × 16, one stroke, the colour of the text around them.
import { capital, html } from "./lib.js";

const path = {
  back: "M10 3 5 8l5 5", chevron: "m6 3 5 5-5 5", more: "M3 8h.01M8 8h.01M13 8h.01", plus: "M8 3v10M3 8h10", search: "M7 12A5 5 0 1 0 7 2a5 5 0 0 0 0 10Zm3.6-1.4L14 14",
  x: "m4 4 8 8m0-8-8 8", check: "m3 8.5 3.5 3.5L13 4.5", up: "M8 13V3M3.5 7.5 8 3l4.5 4.5", down: "M8 3v10M3.5 8.5 8 13l4.5-4.5", edit: "m10.5 2.8 2.7 2.7L5.5 13.2l-3.2.5.5-3.2 7.7-7.7Z",
  trash: "M2.5 4.5h11M6 4.5V2.8h4v1.7m2 0-.6 8.7H4.6L4 4.5M6.7 7v3.6M9.3 7v3.6", pause: "M5.5 3v10M10.5 3v10", play: "M4.5 2.8v10.4L13 8 4.5 2.8Z", stop: "M4 4h8v8H4z", archive: "M2 3h12v3H2zM3 6v7h10V6M6.5 9h3",
  info: "M8 14.2A6.2 6.2 0 1 0 8 1.8a6.2 6.2 0 0 0 0 12.4ZM8 7.3V11M8 4.9h.01", warn: "M8 2 1.6 13.3h12.8L8 2Zm0 4.5v3.2m0 1.8h.01", term: "m3 4 3.5 3.5L3 11m5 1h5", sun: "M8 11a3 3 0 1 0 0-6 3 3 0 0 0 0 6ZM8 1v1.5M8 13.5V15M1 8h1.5M13.5 8H15M3 3l1.1 1.1M11.9 11.9 13 13M3 13l1.1-1.1M11.9 4.1 13 3",
  moon: "M13.5 9.6A5.8 5.8 0 0 1 6.4 2.5a5.8 5.8 0 1 0 7.1 7.1Z", key: "M10.2 9.6a4 4 0 1 0-3.8-3.8L2 10.2V14h3.2v-2H7v-1.8h1.8l1.4-.600ZM11 5h.01", grip: "M6 3.5h.01M6 8h.01M6 12.5h.01M10 3.5h.01M10 8h.01M10 12.5h.01", copy: "M5.5 5.5V2.5h8v8h-3M2.5 5.5h8v8h-8z",
  fork: "M4.5 2.5v11M4.5 8.5h4a3 3 0 0 0 3-3v-3", tag: "M2.5 2.5h5.3l5.7 5.7-5.3 5.3-5.7-5.7V2.5ZM5.5 5.5h.01", note: "M3 2.5h10v11H3zM5.5 6h5M5.5 9h3", out: "M6.5 2.5h-4v11h4M10 5l3 3-3 3M13 8H6", in: "M9.5 2.5h4v11h-4M6 5l3 3-3 3M9 8H2", send: "M8 13.5V3M3.5 7.5 8 3l4.5 4.5", help: "M8 14.2A6.2 6.2 0 1 0 8 1.8a6.2 6.2 0 0 0 0 12.4ZM6.2 6.2a1.9 1.9 0 1 1 2.7 1.9c-.6.3-.9.7-.9 1.4M8 11.6h.01",
  think: "M8 2.5a4 4 0 0 1 2.3 7.3v1.7H5.7V9.8A4 4 0 0 1 8 2.5ZM6.3 13.8h3.4", eye: "M1.5 8S4 3.5 8 3.5 14.5 8 14.5 8 12 12.5 8 12.5 1.5 8 1.5 8ZM8 10a2 2 0 1 0 0-4 2 2 0 0 0 0 4Z", side: "M2 2.5h12v11H2zM10 2.5v11", file: "M4 1.8h5l3.5 3.5v9H4zM9 1.8v3.5h3.5", globe: "M8 14.2A6.2 6.2 0 1 0 8 1.8a6.2 6.2 0 0 0 0 12.4ZM2 8h12M8 2c2 2 2.5 4 2.5 6S10 12 8 14c-2-2-2.5-4-2.5-6S6 4 8 2Z",
};

export function icon(name, extra = "") {
  return html`<svg class=${"i " + extra} viewBox="0 0 16 16" fill="none" stroke="currentColor" stroke-width=${name === "more" || name === "grip" ? 2 : 1.5} stroke-linecap="round" stroke-linejoin="round" aria-hidden="true"><path d=${path[name]} /></svg>`;
}

/** Each state has a shape of its own, so that users do not depend on colours. */
export function stateIcon(state) {
  const ring = html`<circle cx="8" cy="8" r="6" stroke="currentColor" stroke-width="1.6" fill="none" />`;
  const shapes = {
    "needs-you": html`<circle cx="8" cy="8" r="7" fill="currentColor" /><path d="M8 4.3v4.2M8 11.3h.01" stroke="var(--bg)" stroke-width="1.9" stroke-linecap="round" />`,
    working: html`<circle cx="8" cy="8" r="6" stroke="currentColor" stroke-width="1.8" fill="none" opacity=".25" /><path class="spin" d="M8 2a6 6 0 0 1 6 6" stroke="currentColor" stroke-width="1.8" fill="none" stroke-linecap="round" />`,
    running: html`${ring}<path d="M6.4 5.3v5.4L11 8 6.4 5.3Z" fill="currentColor" />`,
    idle: html`${ring}<circle cx="8" cy="8" r="2.2" fill="currentColor" />`,
    stopped: html`${ring}<path d="M6 6h4v4H6z" fill="currentColor" />`,
    archived: html`<path d="M2 3h12v3H2zM3 6v7h10V6M6.5 9h3" stroke="currentColor" stroke-width="1.5" fill="none" />`,
    lost: html`<path d="M8 2 1.6 13.3h12.8L8 2Zm0 4.5v3.2m0 1.8h.01" stroke="currentColor" stroke-width="1.5" fill="none" stroke-linecap="round" stroke-linejoin="round" />`,
  };
  const same = { starting: "working", stopping: "working", failed: "lost", unreachable: "lost", damaged: "lost" };
  return html`<svg class="i" viewBox="0 0 16 16" aria-hidden="true">${shapes[same[state] || state] || shapes.lost}</svg>`;
}

/** Labels of states that differ from their names in the API. */
const STATE_WORDS = { "needs-you": "Needs you", stopped: "Ended" };
export const stateWord = (state) => STATE_WORDS[state] || capital(state);
