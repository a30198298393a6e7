//! Translates the content blocks of an editor's prompt to the text of a turn.
//!
//! Promise: nothing is dropped silently: a block that cannot be text is refused by name. Start with [`text`].

use agent_client_protocol_schema::v1::{ContentBlock, EmbeddedResourceResource};
use berth_api::Problem;
use serde_json::Value;

/// The text of a prompt.
pub(super) fn text(prompt: &Value) -> Result<String, Problem> {
    let usage = |what: String| Problem::usage(what);
    let blocks =
        prompt.as_array().ok_or_else(|| usage("a prompt is an array of content blocks".to_owned()))?;
    let mut parts: Vec<String> = Vec::new();
    // Text around a link stays on one line with it.
    let mut is_in_line = false;
    for block in blocks {
        let kind = block["type"].as_str().unwrap_or("no type").to_owned();
        let block = serde_json::from_value::<ContentBlock>(block.clone()).map_err(|error| {
            usage(format!("a content block of the prompt ({kind}) cannot be read: {error}"))
        })?;
        let (part, goes_on) = match block {
            ContentBlock::Text(text) => (text.text, true),
            ContentBlock::ResourceLink(link) => (format!("[@{}]({})", link.name, link.uri), true),
            ContentBlock::Resource(embedded) => match embedded.resource {
                EmbeddedResourceResource::TextResourceContents(it) => {
                    (format!("<context ref=\"{}\">\n{}\n</context>", it.uri, it.text), false)
                }
                EmbeddedResourceResource::BlobResourceContents(it) => {
                    return Err(refused(&format!("the embedded file {}", it.uri)));
                }
                _ => return Err(refused("an embedded resource of a new kind")),
            },
            ContentBlock::Image(_) => return Err(refused("an image")),
            ContentBlock::Audio(_) => return Err(refused("audio")),
            _ => return Err(refused(&kind)),
        };
        match parts.last_mut() {
            Some(last) if is_in_line && goes_on => last.push_str(&part),
            Some(_) | None => parts.push(part),
        }
        is_in_line = goes_on;
    }
    Ok(parts.join("\n"))
}

fn refused(what: &str) -> Problem {
    Problem::usage(format!("a turn is text, and {what} is not; nothing was sent"))
        .hint("save it as a file and name that in the prompt: the agent can open it")
}

#[cfg(test)]
mod tests {
    use berth_api::ProblemCode;

    use super::*;
    use serde_json::json;

    #[test]
    fn text_links_and_embedded_files_become_one_text() {
        let prompt = json!([
            {"type": "text", "text": "see "},
            {"type": "resource_link", "name": "a.rs", "uri": "file:///a.rs"},
            {"type": "text", "text": ", please"},
            {"type": "resource", "resource": {"uri": "file:///b.rs", "text": "fn b() {}"}},
        ]);
        let expected =
            "see [@a.rs](file:///a.rs), please\n<context ref=\"file:///b.rs\">\nfn b() {}\n</context>";
        assert_eq!(text(&prompt).expect("text"), expected);
    }

    #[test]
    fn content_that_is_not_text_is_refused_by_name() {
        let bad = [
            (json!([{"type": "image", "data": "", "mimeType": "image/png"}]), "an image"),
            (json!([{"type": "audio", "data": "", "mimeType": "audio/wav"}]), "audio"),
            (json!([{"type": "resource", "resource": {"uri": "file:///c.bin", "blob": "AA=="}}]), "c.bin"),
            (json!([{"type": "hologram"}]), "hologram"),
            (json!("text"), "array"),
        ];
        for (prompt, named) in bad {
            let problem = text(&prompt).expect_err("no text");
            assert!(
                problem.code == ProblemCode::Usage && problem.what.contains(named),
                "{named}: {}",
                problem.what
            );
        }
    }
}
