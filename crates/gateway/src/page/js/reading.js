// The time a person gets to read a question before anything answers it.

/** How long a question is in view before it takes an answer. */
const READING_MS = 700;

/**
 * When a question takes an answer: READING_MS after it came into view, and only while it is there. A press that comes earlier starts
 * that time anew: neither a key that is held down nor a series of clicks goes on from one question to the next. Times are values of one
 * clock that never jumps.
 */
export class ReadingTime {
  #endsAt = Infinity;
  #isShown = false;
  /** The question came into view. A question that was read before need not be read again. */
  show(now) {
    this.#isShown = true;
    if (this.#endsAt === Infinity) this.#endsAt = now + READING_MS;
  }
  /** The question is out of view. */
  hide(now) {
    this.#isShown = false;
    if (now < this.#endsAt) this.#endsAt = Infinity;
  }
  /** The question has to be read again. */
  reset() {
    this.#isShown = false;
    this.#endsAt = Infinity;
  }
  /** A press was used: the next one needs the whole time again. */
  again(now) { if (this.#isShown) this.#endsAt = now + READING_MS; }
  /** Takes a press. Returns whether it may answer. */
  press(now) {
    const may = this.left(now) <= 0;
    if (!may && this.#isShown) this.#endsAt = now + READING_MS;
    return may;
  }
  /** How much time is left; Infinity if the question is out of view. */
  left(now) { return this.#isShown ? this.#endsAt - now : Infinity; }
}
