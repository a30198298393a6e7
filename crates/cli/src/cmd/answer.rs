//! `berth answer`: what a session's agent wants to know.

use berth_api::Problem;
use berth_api::message::Request;
use berth_api::turn::Wish;

use crate::args::Answer;
use crate::ctx::Ctx;
use crate::meant::{Meant, only};
use crate::print;

pub(crate) fn run(ctx: &Ctx, args: &Answer) -> Result<u8, Problem> {
    let option: Vec<String> = args.option.iter().cloned().collect();
    let (Meant { id, handle, .. }, option) =
        ctx.target_and(&args.session, &option, "allow, deny or an option")?;
    let wish = match only(&option, "answer")? {
        "allow" | "yes" => Wish::Allow,
        "deny" | "no" => Wish::Deny,
        option => Wish::Option(option.to_owned()),
    };
    let request = Request::AnswerAsk { request: args.request.clone(), wish };
    match ctx.ask(&id, request)? {
        Some(berth_api::Answer::Done { status }) => {
            if args.json {
                print::json(&status)?;
            }
            Ok(0)
        }
        Some(other) => Err(crate::turns::odd(&other)),
        None => Err(berth_api::problem::refusal(
            &berth_core::Refusal::NoSuchRequest { request: args.request.clone() },
            &handle,
        )),
    }
}
