// Time that a user gets to read a question before it takes an answer.

/** Time for which a question is in view before it takes an answer. */
const READING_MS = 700;

/**
 * Decides whether a question takes an answer: only while it is in view, and from READING_MS after it came into view. An earlier press
 * restarts that time, so neither a key that is held down nor a series of clicks continues from one question to the next. Times are
 * values of one clock that never jumps.
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
  /** Time left; Infinity if the question is out of view. */
  left(now) { return this.#isShown ? this.#endsAt - now : Infinity; }
}
