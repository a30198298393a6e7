//! `berth turns`, `turn` and `result`: what was asked of an agent, and what came of it.

use berth_api::turn::TurnView;
use berth_api::{Code, Problem, TurnState};
use berth_verbs::transcript;

use crate::args::{Turn, TurnResult, Turns};
use crate::ctx::Ctx;
use crate::meant::Meant;
use crate::visible::Visible;
use crate::{print, turns};

pub(crate) fn list(ctx: &Ctx, args: &Turns) -> Result<u8, Problem> {
    let Meant { id, handle, .. } = ctx.target(args.session.as_deref())?;
    let views = turns::views(ctx, &id)?;
    print::note_if_silent(views.iter().any(|view| view.keeper_silent), &handle);
    if args.json {
        print::json(&views)?;
        return Ok(0);
    }
    if views.is_empty() {
        print::note(&format!("no turns yet: `berth send {} TEXT` sends one", handle));
    }
    print::text(&table(&views))?;
    if let Some(held) = views.iter().find_map(|view| view.held.as_ref()) {
        print::note(&format!("the queue is held: {held}"));
    }
    Ok(0)
}

/// One line for each.
pub(crate) fn table(views: &[TurnView]) -> Visible {
    if views.is_empty() {
        return Visible::default();
    }
    let width = crate::tty::size().map_or(100, |size| usize::from(size.cols));
    let id_width = views.iter().map(|view| view.turn.len()).max().unwrap_or(4).max(4);
    let room = width.saturating_sub(id_width + 2 + 11 + 2 + 6 + 2 + 6 + 2).max(20);
    let head = format!("{:id_width$}  {:11}  {:6}  {:6}  PROMPT\n", "TURN", "STATE", "AGE", "TOOK");
    let mut text = Visible::from(head);
    for view in views {
        let took = view.delivered_at.zip(view.ended_at);
        let took = took.map_or_else(|| "-".to_owned(), |(from, to)| print::age(to.0.saturating_sub(from.0)));
        let (age, prompt) = (print::ago(view.accepted_at), print::excerpt(&view.prompt, room));
        let line = Visible::from(format!("{:id_width$}  ", view.turn))
            + print::painted(view.state.into(), view.state, 11)
            + format!("  {age:6}  {took:6}  {prompt}");
        text.push(line.trim_end() + "\n");
    }
    text
}

pub(crate) fn show(ctx: &Ctx, args: &Turn) -> Result<u8, Problem> {
    let (id, number) = turns::find(ctx, &args.turn, None)?;
    let view = turns::view(ctx, &id, number)?;
    print::note_if_silent(view.keeper_silent, &view.session);
    if args.items {
        let page = transcript::page(ctx, &id, number.saturating_sub(1), 1)?;
        print::json(&page.turns.first())?;
    } else if args.json {
        print::json(&view)?;
    } else {
        print::text(&lines(&view))?;
    }
    Ok(0)
}

fn lines(view: &TurnView) -> Visible {
    let moment = |at: berth_api::Timestamp| format!("{at} ({} ago)", print::ago(at));
    let mut rows = vec![("turn", view.turn.clone()), ("state", view.state.to_string())];
    rows.extend(view.reason.clone().map(|reason| ("why", reason)));
    rows.extend(view.held.clone().map(|held| ("held", held)));
    rows.extend(view.position.map(|position| ("before it", position.to_string())));
    rows.push(("from", format!("pid {} ({})", view.by.pid, view.by.place)));
    rows.extend(view.key.clone().map(|key| ("key", key)));
    rows.push(("accepted", moment(view.accepted_at)));
    rows.extend(view.delivered_at.map(|at| ("delivered", moment(at))));
    rows.extend(view.began_at.map(|at| ("began", moment(at))));
    rows.extend(view.ended_at.map(|at| ("ended", moment(at))));
    let tokens = view.input_tokens.zip(view.output_tokens);
    rows.extend(tokens.map(|(input, output)| ("tokens", format!("{input} in, {output} out"))));
    let mut text = print::labelled(rows, view.state.into());
    text.push(format!("\n> {}\n", view.prompt.replace('\n', "\n> ")));
    let answer = view.answer.as_deref().filter(|answer| !answer.is_empty());
    text.extend(answer.map(|answer| format!("\n{}\n", answer.trim_end())));
    for late in &view.late {
        text.push(format!("\nsaid after it was over:\n{}\n", late.answer.trim_end()));
    }
    text
}

pub(crate) fn result(ctx: &Ctx, args: &TurnResult) -> Result<u8, Problem> {
    let (id, number) = turns::find(ctx, &args.turn, None)?;
    let view = turns::view(ctx, &id, number)?;
    print::note_if_silent(view.keeper_silent, &view.session);
    if args.json {
        print::json(&view)?;
        return Ok(turns::exit_code(&view));
    }
    if !view.state.is_final() {
        return Err(Problem::new(
            Code::Held,
            format!("turn {} is not over: it is {}", view.turn, view.state),
        )
        .hint(format!("`berth wait {}` waits for it", view.turn)));
    }
    let answer = view.answer.as_deref().unwrap_or_default();
    print::text(answer)?;
    if !answer.is_empty() && !answer.ends_with('\n') {
        print::text("\n")?;
    }
    super::send::note_cut(&view);
    if view.state != TurnState::Done {
        let why = view.reason.as_deref().map(|why| format!(": {why}")).unwrap_or_default();
        print::note(&format!("turn {} {}{why}", view.turn, view.state));
    }
    Ok(turns::exit_code(&view))
}
