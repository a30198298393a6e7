//! The time a person gets to read a question before a key answers it.
//!
//! Promise: a question takes no answer for [`READING_TIME`] after it is drawn. Terminals do not tell a key that is held
//! down from one that is pressed again, so each key that arrives too early starts that time anew: a held key answers at
//! most one question, and never the next one.
//! Not here: the clock. Callers pass `now`, the time since some moment of theirs that never jumps.
//! Start with [`ReadingTime::press`].

use std::time::Duration;

/// How long a question is on the screen before a key answers it.
pub const READING_TIME: Duration = Duration::from_millis(700);

/// When a question that is on the screen takes an answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReadingTime {
    ends_at: Duration,
}

impl ReadingTime {
    /// Begins when the question is drawn.
    pub fn begin(now: Duration) -> Self {
        Self { ends_at: now.saturating_add(READING_TIME) }
    }

    /// Takes a key. Returns whether the key may answer; a key that comes too early restarts the time.
    pub fn press(&mut self, now: Duration) -> bool {
        let is_over = self.is_over(now);
        if !is_over {
            *self = Self::begin(now);
        }
        is_over
    }

    /// True once a key may answer.
    pub fn is_over(&self, now: Duration) -> bool {
        now >= self.ends_at
    }

    /// How much of the time is left; `None` if it is over.
    pub fn left(&self, now: Duration) -> Option<Duration> {
        self.ends_at.checked_sub(now).filter(|left| !left.is_zero())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_is_held_down_answers_nothing_until_it_is_released_for_the_reading_time() {
        let ms = Duration::from_millis;
        let mut reading = ReadingTime::begin(ms(1000));
        assert!((1000..10_000).step_by(30).all(|now| !reading.press(ms(now))));
        let last = ms(9970);
        assert_eq!(reading.left(last), Some(READING_TIME));
        assert!(!reading.is_over(last + READING_TIME - ms(1)));
        assert!(reading.press(last + READING_TIME));
        assert_eq!(reading.left(last + READING_TIME), None);
    }
}
