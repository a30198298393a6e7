// Shared code of all views: elements, hooks, an observable store, words for times and sizes.
export { html, render, useState, useEffect, useLayoutEffect, useRef, useMemo, useCallback, useErrorBoundary } from "/assets/vendor/preact.js";
import { useState, useEffect } from "/assets/vendor/preact.js";

/** An observable value: it notifies its subscribers of every change. */
export function cell(value) {
  const listeners = new Set();
  return {
    get: () => value,
    set(next) {
      if (next === value) return;
      value = next;
      for (const listener of [...listeners]) listener(value);
    },
    change(fn) { this.set(fn(value)); },
    listen(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };
}

/** Value of a cell, in a view. */
export function use(source) {
  const [, again] = useState(0);
  const shown = source.get();
  useEffect(() => {
    const draw = () => again((n) => n + 1);
    // A change between drawing and subscribing would otherwise never be shown.
    if (source.get() !== shown) draw();
    return source.listen(draw);
  }, [source]);
  return shown;
}

// One clock for all ages that are shown, so that a list of a hundred sessions has one timer.
const clock = cell(Date.now());
setInterval(() => { if (!document.hidden) clock.set(Date.now()); }, 5000);
document.addEventListener("visibilitychange", () => { if (!document.hidden) clock.set(Date.now()); });
export const useNow = () => use(clock);

/** "3 s", "4 min", "2 h", "5 d". */
export function span(ms) {
  if (!(ms >= 0)) return "";
  const s = ms / 1000;
  if (s < 1) return "now";
  if (s < 60) return `${Math.floor(s)} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min`;
  if (s < 86400) return `${Math.floor(s / 3600)} h`;
  return `${Math.floor(s / 86400)} d`;
}
export const time = (text) => (text ? Date.parse(text) : NaN);
export const since = (text, now) => span(Math.max(0, now - time(text)));
export const ago = (text, now) => { const words = since(text, now); return words === "now" ? "just now" : `${words} ago`; };
/** A time of today by the clock, an earlier one with its day. */
export const hour = (text) => { const at = new Date(text); return at.toDateString() === new Date().toDateString() ? at.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" }) : at.toLocaleString([], { dateStyle: "medium", timeStyle: "short" }); };
export const clockTime = (text) => (text ? new Date(text).toLocaleString([], { dateStyle: "medium", timeStyle: "medium" }) : "");

export function bytes(n) {
  if (n == null) return "–";
  for (const [unit, size] of [["GB", 1 << 30], ["MB", 1 << 20], ["kB", 1 << 10]]) {
    if (n >= size) return `${(n / size).toFixed(n / size < 10 ? 1 : 0)} ${unit}`;
  }
  return `${n} B`;
}
export const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);
export const count = (n, one, many = one + "s") => `${n} ${n === 1 ? one : many}`;
export const tokens = (n) => (n >= 1000 ? `${(n / 1000).toFixed(n < 10000 ? 1 : 0)}k` : `${n}`);

/** Path of a directory in short form. The page does not know the home directory, so it takes the usual places for one. */
export const place = (path) => (path || "").replace(/^\/(home|Users)\/[^/]+(?=\/|$)/, "~").replace(/^\/root(?=\/|$)/, "~");

/** Command line with all of its paths in short form. */
export const atHome = (line) => line.replace(/(^|[\s=])\/(?:(?:home|Users)\/[^/\s]+|root)(?=\/)/g, "$1~");

export const mint = () => {
  const bits = crypto.getRandomValues(new Uint8Array(16));
  return "page-" + Array.from(bits, (b) => b.toString(16).padStart(2, "0")).join("");
};

/** localStorage, which may be full, forbidden or absent. */
export const kept = {
  get(key, store = localStorageOr()) {
    try { return JSON.parse(store.getItem(key)); } catch { return null; }
  },
  set(key, value, store = localStorageOr()) {
    try { value == null ? store.removeItem(key) : store.setItem(key, JSON.stringify(value)); return true; } catch { return false; }
  },
};
function localStorageOr() {
  try { return window.localStorage; } catch { return { getItem: () => null, setItem() { throw new Error("nothing is kept here"); }, removeItem() {} }; }
}
export const tabStore = () => {
  try { return window.sessionStorage; } catch { return undefined; }
};

/** Copies a text; without a secure context through a hidden field. */
export async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const field = document.createElement("textarea");
    field.value = text;
    field.style.position = "fixed";
    document.body.append(field);
    field.select();
    document.execCommand("copy");
    field.remove();
  }
}
