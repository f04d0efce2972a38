// The token that a server may ask for: kept in this tab until it is closed, sent in a header, never
// in an address. The page's files are open, everything else may need it.

import { h } from "./dom.js";

const KEY = "groupkeeper.token";
const SENDABLE = /^[\x21-\x7e]+$/; // what a header can have

/** Events: `wanted` when the server refuses a request, `given` when there is another token, or none. */
class Token extends EventTarget {
  #text = stored();
  isWanted = false;

  get isHeld() {
    return this.#text !== null;
  }

  /** Headers of a request. */
  get headers() {
    return this.#text === null ? {} : { Authorization: `Bearer ${this.#text}` };
  }

  /** Note the status of an answer. */
  saw(status) {
    if (status !== 401 || this.isWanted) return;
    this.isWanted = true;
    this.dispatchEvent(new Event("wanted"));
  }

  /** Use a token from now on; null for none. */
  give(text) {
    this.#text = text;
    this.isWanted = false;
    try {
      if (text === null) sessionStorage.removeItem(KEY);
      else sessionStorage.setItem(KEY, text);
    } catch {
      // the browser keeps nothing: until the page is loaded again
    }
    this.dispatchEvent(new Event("given"));
  }
}

function stored() {
  try {
    return sessionStorage.getItem(KEY);
  } catch {
    return null;
  }
}

export const token = new Token();

/** Make the form in which a person enters a token. */
export function tokenForm() {
  const field = h("input", { id: "token-field", type: "password", autocomplete: "off", spellcheck: "false", required: true });
  const said = h("span", { role: "status" });
  const why = token.isHeld ? "The server does not take the token." : "This server asks for a token.";
  return h("form", {
    class: "filters",
    onsubmit: (event) => {
      event.preventDefault(); // the page's policy forbids forms to be sent
      const text = field.value.trim();
      if (SENDABLE.test(text)) token.give(text);
      else said.textContent = "No token has spaces or letters with accents.";
    },
  },
  h("p", {}, `${why} It is kept in this tab until you close it.`),
  h("label", { for: "token-field" }, "Token"), field,
  h("button", { type: "submit" }, "Use it"), said);
}

/** Open a link of the port, which itself cannot send the token, as plain text. */
export async function openWithToken(href) {
  const answer = await fetch(href, { headers: token.headers, cache: "no-store" });
  token.saw(answer.status);
  const text = new Blob([await answer.text()], { type: "text/plain;charset=utf-8" });
  location.assign(URL.createObjectURL(text));
}
