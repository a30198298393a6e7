//! Which turn a person means. What can be done with it: see [`berth_verbs::turns`].

use berth_api::turn::split_turn_id;
use berth_api::{Code, Problem};
use berth_core::SessionId;

pub(crate) use berth_verbs::turns::*;

use crate::ctx::Ctx;

/// The turn a person means: `fix.3`, or with `of` given, also `3`.
pub(crate) fn find(ctx: &Ctx, text: &str, of: Option<&SessionId>) -> Result<(SessionId, u64), Problem> {
    // With --session, too, a number is enough.
    let named = ctx.session.as_deref().filter(|_| of.is_none()).map(|named| ctx.find(named)).transpose()?;
    let of = of.or(named.as_ref());
    if let (Some(id), Ok(number)) = (of, text.parse::<u64>()) {
        return Ok((id.clone(), number));
    }
    let Some((session, number)) = split_turn_id(text) else {
        return Err(Problem::new(Code::Usage, format!("`{text}` is no turn"))
            .hint("a turn is a session, a dot and a number, as in fix.3; `berth turns S` lists them"));
    };
    let id = ctx.find(session)?;
    if of.is_some_and(|of| *of != id) {
        return Err(Problem::new(Code::Usage, format!("turn {text} is of another session")));
    }
    Ok((id, number))
}
