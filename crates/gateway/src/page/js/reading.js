// The time a person gets to read a question before anything answers it.

/** How long a question is in view before it takes an answer. */
const READING_MS = 700;

/**
 * When a question takes an answer: READING_MS after it came into view. A press that comes earlier starts that time anew: neither a
 * key that is held down nor a series of clicks goes on from one question to the next. Times are values of one clock that never jumps.
 */
export class ReadingTime {
  #endsAt = Infinity;
  /** The question came into view; one that is in view already goes on being read. */
  show(now) { if (this.#endsAt === Infinity) this.#endsAt = now + READING_MS; }
  /** It is out of view, or another one took its place. */
  hide() { this.#endsAt = Infinity; }
  /** Takes a press, and tells whether it may answer. */
  press(now) {
    if (this.left(now) <= 0) return true;
    if (this.#endsAt !== Infinity) this.#endsAt = now + READING_MS;
    return false;
  }
  /** How much time is left; Infinity if the question is out of view. */
  left(now) { return this.#endsAt - now; }
}
