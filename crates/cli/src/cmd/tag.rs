//! `berth tag`: adds, removes and prints a session's tags.

use berth_api::Problem;
use berth_api::message::KeeperRequest;
use berth_core::Command;

use crate::args::TagArgs;
use crate::ctx::CommandContext;
use crate::listing::ListExtent;
use crate::target_session::TargetSession;
use crate::{lifecycle, print};

pub(crate) fn run(ctx: &CommandContext, args: &TagArgs) -> Result<u8, Problem> {
    if args.which.is_choosy() {
        return matching(ctx, args);
    }
    let (TargetSession { id, handle, .. }, words) = ctx.target_then(args.session.as_deref(), &args.add)?;
    let (add, remove) = (lifecycle::tags(&words)?, lifecycle::tags(&args.remove)?);
    let is_change = !add.is_empty() || !remove.is_empty();
    if is_change {
        let words = |tags: &[berth_core::SafeName]| tags.iter().map(ToString::to_string).collect();
        let request = KeeperRequest::Tag { add: words(&add), remove: words(&remove) };
        lifecycle::change(ctx, &id, request, Command::Tag { add, remove })?;
    }
    let tags = ctx.known(&id)?.0.tags;
    if args.json {
        print::json(&tags)?;
    } else if is_change {
        let all = if tags.is_empty() { "no tags".to_owned() } else { tags.join(", ") };
        print::note(&format!("{handle}: {all}"));
    } else {
        print::text(&tags.iter().map(|tag| format!("{tag}\n")).collect::<String>())?;
    }
    Ok(0)
}

/// Tags every session that meets the conditions. A failure for one session is printed, and the others are still tagged.
fn matching(ctx: &CommandContext, args: &TagArgs) -> Result<u8, Problem> {
    if let Some(word) = args.session.as_deref().filter(|word| ctx.home.find(word).is_ok()) {
        let what =
            format!("`{word}` is a session, and with conditions every word is a tag; nothing was done");
        let tags = args.add.iter().chain(&args.which.tag).map(String::as_str).collect::<Vec<_>>().join(" ");
        return Err(Problem::usage(what).hint(format!("to tag `{word}`: `berth tag {word} {tags}`")));
    }
    let words: Vec<String> = args.session.iter().chain(&args.add).cloned().collect();
    let (add, remove) = (lifecycle::tags(&words)?, lifecycle::tags(&args.remove)?);
    if add.is_empty() && remove.is_empty() {
        return Err(Problem::usage("no tag to add or to remove")
            .hint("`berth ls` with these conditions shows the tags of the sessions"));
    }
    let mut worst = 0;
    let mut tagged = Vec::new();
    for TargetSession { id, handle, .. } in ctx.chosen(&[], &args.which, ListExtent::All, &mut worst)? {
        let words = |tags: &[berth_core::SafeName]| tags.iter().map(ToString::to_string).collect();
        let request = KeeperRequest::Tag { add: words(&add), remove: words(&remove) };
        let command = Command::Tag { add: add.clone(), remove: remove.clone() };
        match lifecycle::change(ctx, &id, request, command).and_then(|_| ctx.known(&id)) {
            Ok((status, _)) => {
                if !args.json {
                    print::note(&format!("{handle}: {}", status.tags.join(", ")));
                }
                tagged.push(status);
            }
            Err(problem) => {
                print::problem(&problem);
                worst = worst.max(problem.code.exit_code());
            }
        }
    }
    if args.json {
        print::json(&tagged)?;
    }
    Ok(worst)
}
